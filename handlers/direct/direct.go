// Package direct answers HTTP/1.1 requests of one plain form in a loop of its own, which
// takes a fraction of net/http's time: no goroutine, timers or buffers for each request.
// A connection that sends anything else goes to net/http as it is, with all that was
// read of it, and stays there. It is no server of its own: what it does not know in full
// it does not touch.
package direct

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Listener. All are required.
type Options struct {
	// Handler answers requests. Its writers cannot flush: what it writes is sent when it
	// returns, or its length is known and large.
	Handler http.Handler
	// Serves says for which paths it is to be asked here.
	Serves func(path string) bool
	// Base is what the contexts of requests come from.
	Base context.Context //nolint:containedctx // as http.Server has it
	// First bounds the arrival of a connection's first request, Idle the time between
	// two, and Answer that for sending an answer.
	First, Idle, Answer time.Duration
	// Log gets handlers that panic.
	Log *slog.Logger
}

// Listener is a net.Listener that gives those connections on that are not served here.
// Accept has to be called for any to be served.
type Listener struct {
	net.Listener
	o Options

	begin    sync.Once
	accepted chan accepted // of those who are not served here
	closed   chan struct{}
	close    sync.Once
	stopping atomic.Bool
	spare    sync.Pool      // of *outgoing
	running  sync.WaitGroup // goroutines of sessions

	mu       sync.Mutex
	sessions map[*session]struct{} // guarded by mu; nil once they are cut off
}

type accepted struct {
	conn net.Conn
	err  error
}

// Listen serves what comes to inner, which it owns from then on.
func Listen(inner net.Listener, o Options) *Listener {
	return &Listener{
		Listener: inner, o: o,
		accepted: make(chan accepted), closed: make(chan struct{}), sessions: make(map[*session]struct{}),
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.accept() }) // ends when the inner listener is closed
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *Listener) accept() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if !l.give(accepted{err: err}) {
				return
			}
			continue // it may have been for the moment; who accepts decides
		}
		l.open(c)
	}
}

// give hands something to Accept, or is false once nobody is to call it any more.
func (l *Listener) give(a accepted) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.closed:
		return false
	}
}

func (l *Listener) open(c net.Conn) {
	s := newSession(l, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil || l.stopping.Load() {
		_ = c.Close()
		return
	}
	l.sessions[s] = struct{}{}
	l.running.Go(func() { // ends with its connection, which Shutdown or Cut see to
		defer l.forget(s)
		s.run()
	})
}

func (l *Listener) forget(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s)
}

// Close implements net.Listener. Connections that are served here go on.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Shutdown closes connections that wait for a request, and the others after the answer
// that they wait for, and returns when there are none left or ctx has ended.
func (l *Listener) Shutdown(ctx context.Context) error {
	l.stopping.Store(true)
	l.mu.Lock()
	for s := range l.sessions {
		s.closeIdle()
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the last connection; see Cut
		l.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("requests in flight: %w", ctx.Err())
	}
}

// Cut closes all connections that are served here, without waiting for their handlers.
func (l *Listener) Cut() {
	l.stopping.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.sessions {
		_ = s.conn.Close()
	}
	l.sessions = nil
}

// Wait returns when no connection is served here any more, which Shutdown or Cut bring
// about, and nobody is to call Accept.
func (l *Listener) Wait() { l.running.Wait() }
