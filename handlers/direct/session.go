package direct

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// room is how long a request may be here, in bytes. Longer ones are net/http's.
	room = 8 << 10
	// mostReads is in how many pieces a request may arrive here, and patience how long
	// the ones after the first may take.
	mostReads = 4
	patience  = time.Second
	// slack is how much later than asked for a deadline may be, to be set seldom.
	slack = time.Second
)

// States of a session.
const (
	idle int32 = iota // waits for a request
	active
	over
)

// session is one connection. Its fields are those of its goroutine but for state.
type session struct {
	listener *Listener
	conn     net.Conn
	state    atomic.Int32
	base     context.Context //nolint:containedctx // that of the connection's requests
	remote   string

	buffer [room]byte
	filled int // how much of it has arrived
	used   int // how much of that is the request that is answered
	blank  int // how many more line ends are overlooked before a request

	readBy, writeBy time.Time // deadlines that are set
	date            []byte    // of the second of dated, as answers tell it
	dated           int64
}

func newSession(l *Listener, c net.Conn) *session {
	return &session{
		listener: l, conn: c, remote: c.RemoteAddr().String(),
		base: context.WithValue(l.o.Base, http.LocalAddrContextKey, c.LocalAddr()),
	}
}

// closeIdle closes the connection if it waits for a request.
func (s *session) closeIdle() {
	if s.state.CompareAndSwap(idle, over) {
		_ = s.conn.Close()
	}
}

// run serves the connection until it ends, or is net/http's.
func (s *session) run() {
	wait := s.listener.o.First
	for {
		s.state.Store(idle)
		if s.listener.stopping.Load() {
			_ = s.conn.Close()
			return
		}
		h, size, f := s.receive(wait)
		switch f {
		case plain:
		case foreign:
			s.handOn()
			return
		default:
			_ = s.conn.Close()
			return
		}
		s.used = size + h.length
		more, taken := s.answer(h, s.buffer[size:s.used])
		if taken {
			return
		}
		if !more {
			_ = s.conn.Close()
			return
		}
		s.filled = copy(s.buffer[:], s.buffer[s.used:s.filled])
		s.blank = 4 // as net/http after a POST, for clients that send them
		wait = s.listener.o.Idle
	}
}

// receive waits for a request, and returns its head and how long that is; unfinished if
// the connection ends.
func (s *session) receive(wait time.Duration) (h head, size int, f form) {
	for reads := 0; ; reads++ {
		s.overlook()
		if s.filled > 0 {
			if !s.state.CompareAndSwap(idle, active) && s.state.Load() == over {
				return h, 0, unfinished
			}
			h, size, f = readHead(s.buffer[:s.filled])
			switch {
			case f == foreign, f == plain && (size+h.length > room || !s.listener.o.Serves(h.path)):
				return h, 0, foreign
			case f == plain && size+h.length <= s.filled:
				return h, size, plain
			case s.filled == room, reads == mostReads:
				return h, 0, foreign
			}
		}
		if s.filled > 0 {
			s.readWithin(patience, true)
		} else {
			s.readWithin(wait, false)
		}
		n, err := s.conn.Read(s.buffer[s.filled:])
		s.filled += n
		switch {
		case n > 0:
		case errors.Is(err, os.ErrDeadlineExceeded) && s.filled > 0:
			return h, 0, foreign // a slow one
		case err != nil:
			if s.filled > 0 && errors.Is(err, io.EOF) {
				return h, 0, foreign // net/http knows what to do about it
			}
			return h, 0, unfinished
		}
	}
}

// overlook drops line ends before a request.
func (s *session) overlook() {
	n := 0
	for n < min(s.filled, s.blank) && (s.buffer[n] == '\r' || s.buffer[n] == '\n') {
		n++
	}
	s.blank -= n
	if s.filled = copy(s.buffer[:], s.buffer[n:s.filled]); s.filled > 0 {
		s.blank = 0
	}
}

// readWithin sets the deadline for what is read next. Unless it is to be exact, it may
// be by slack later.
func (s *session) readWithin(d time.Duration, exact bool) {
	by := time.Now().Add(d)
	if exact || s.readBy.Before(by) || s.readBy.After(by.Add(slack)) {
		s.readBy = by
		if !exact {
			s.readBy = by.Add(slack)
		}
		_ = s.conn.SetReadDeadline(s.readBy)
	}
}

// handOn gives the connection to net/http, with what has arrived.
func (s *session) handOn() {
	if !s.listener.give(accepted{conn: s.from(0)}) {
		_ = s.conn.Close()
	}
}

// from is the connection for somebody else, from a place in the buffer on.
func (s *session) from(n int) net.Conn {
	_ = s.conn.SetDeadline(time.Time{})
	return &begun{Conn: s.conn, arrived: bytes.Clone(s.buffer[n:s.filled])}
}

// answer has a request handled, and sends the answer. It reports whether there may be
// another request, and whether the connection is somebody else's now.
func (s *session) answer(h head, body []byte) (more, taken bool) {
	ctx := &requestContext{Context: s.base, session: s}
	sent := &content{}
	sent.Reset(body)
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: h.path}, RequestURI: h.path,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header, Host: h.host, ContentLength: int64(h.length), Body: sent, RemoteAddr: s.remote,
	}).WithContext(ctx)
	w := newResponse(s, ctx)
	defer w.release()
	defer func() {
		if p := recover(); p != nil {
			more, taken = false, w.taken
			if p != http.ErrAbortHandler { //nolint:errorlint // it is compared so in net/http
				s.listener.o.Log.Warn("http: panic serving "+s.remote, slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			}
		}
	}()
	defer ctx.end()
	s.listener.o.Handler.ServeHTTP(w, r)
	sent.Reset(nil) // the room is the next request's
	ctx.end()
	if w.taken {
		return false, true
	}
	return w.finish() == nil && !w.last, false
}

// content is a request's body.
type content struct{ bytes.Reader }

// Close implements io.Closer.
func (*content) Close() error { return nil }

// begun is a connection of which something has been read.
type begun struct {
	net.Conn
	arrived []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.arrived) > 0 {
		n := copy(p, b.arrived)
		b.arrived = b.arrived[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// CloseWrite lets net/http say that nothing more comes; see package socket.
func (b *begun) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// requestContext is that of a request: it ends with it, and when the client leaves, for
// which the connection is watched as soon as anybody wants to know.
type requestContext struct {
	context.Context //nolint:containedctx // the connection's
	session         *session

	mu      sync.Mutex
	ended   bool               // guarded by mu
	inner   context.Context    //nolint:containedctx // guarded by mu; once Done was called
	cancel  context.CancelFunc // guarded by mu; inner's
	watched chan struct{}      // closed when nobody watches any more; nil if nobody does; guarded by mu
}

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancel(c.Context)
		if c.ended {
			c.cancel()
		} else {
			c.watched = make(chan struct{})
			_ = c.session.conn.SetReadDeadline(time.Time{})
			go c.watch(c.watched, c.cancel) // end waits for it
		}
	}
	return c.inner.Done()
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.inner != nil:
		return c.inner.Err()
	case c.ended:
		return context.Canceled
	}
	return c.Context.Err()
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key) // which is how package context finds it
	}
	return c.Context.Value(key)
}

// watch reads what the client sends before it has an answer: the next request, or the
// end of the connection.
func (c *requestContext) watch(watched chan<- struct{}, leave context.CancelFunc) {
	defer close(watched)
	s := c.session
	if s.filled == len(s.buffer) {
		return // there is no room for what could come
	}
	n, err := s.conn.Read(s.buffer[s.filled : s.filled+1])
	s.filled += n
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		leave()
	}
}

// end is the end of the request. Nobody reads from the connection when it returns.
func (c *requestContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.unwatch()
	if c.cancel != nil {
		c.cancel()
	}
}

// release is for who takes the connection over, within the request.
func (c *requestContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwatch()
}

// unwatch needs mu.
func (c *requestContext) unwatch() {
	if c.watched == nil {
		return
	}
	s := c.session
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	<-c.watched
	c.watched, s.readBy = nil, time.Time{}
}
