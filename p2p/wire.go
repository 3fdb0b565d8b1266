package p2p

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"
)

const (
	// maxBacklog bounds the unsent bytes for one node: one message of the largest size.
	maxBacklog = constants.DefaultMaxMessageSize + 64<<10
	// maxTotalBacklog bounds the unsent bytes for all nodes. It is checked before a message
	// is encrypted, so each sender may exceed it by one message.
	maxTotalBacklog = 256 << 20
	// maxUnsent is how many unsent bytes end a connection. TLS answers key updates without a check
	// of the backlog, so a node that sends them and reads nothing would take any memory.
	maxUnsent = 2 * maxBacklog
	// writeTimeout is how long a node may read nothing while bytes for it wait.
	writeTimeout = constants.DefaultPingPongTimeout
)

var (
	errWireClosed = errors.New("connection closed")
	errUnread     = errors.New("node does not read what it is sent")
)

// wire is a connection below TLS whose writes never block. A goroutine writes what the
// kernel does not take at once; it lives only while there are such bytes.
type wire struct {
	net.Conn
	raw     syscall.RawConn // nil if conn is not a socket
	total   *atomic.Int64   // unsent bytes on all wires of the network
	kept    atomic.Int64    // unsent bytes here
	writing sync.WaitGroup  // the goroutine that writes unsent bytes

	mu      sync.Mutex
	pending []byte // guarded by mu: unsent and not yet taken by the goroutine
	behind  bool   // guarded by mu: the goroutine is running
	closed  bool   // guarded by mu

	// The holder of mu owns these, for one call of attempt.
	chunk   []byte
	written int
	failure error
	attempt func(fd uintptr) bool
}

func newWire(conn net.Conn, total *atomic.Int64) *wire {
	w := &wire{Conn: conn, total: total}
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			w.raw = raw
		}
	}
	w.attempt = func(fd uintptr) bool {
		for {
			w.written, w.failure = syscall.Write(int(fd), w.chunk)
			if !errors.Is(w.failure, syscall.EINTR) {
				return true // do not wait until more can be written
			}
		}
	}
	return w
}

// room reports whether size more bytes may be written.
func (w *wire) room(size int) bool {
	kept := w.kept.Load()
	return kept == 0 || kept+int64(size) <= maxBacklog && w.total.Load()+int64(size) <= maxTotalBacklog
}

// open reports whether the connection is not closed.
func (w *wire) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closed
}

// Write takes all of b or fails.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, errWireClosed
	}
	n := 0
	if !w.behind && w.raw != nil {
		var err error
		if n, err = w.try(b); err != nil {
			return n, err
		}
		if n == len(b) {
			return n, nil
		}
	}
	rest := b[n:]
	if w.kept.Load()+int64(len(rest)) > maxUnsent {
		w.closed = true
		_ = w.Conn.Close() // the reader notices, and ends the session
		return n, errUnread
	}
	w.pending = append(w.pending, rest...)
	w.kept.Add(int64(len(rest)))
	w.total.Add(int64(len(rest)))
	if !w.behind {
		w.behind = true
		w.writing.Go(w.catchUp)
	}
	return len(b), nil
}

// try writes what the kernel takes at once. The caller holds w.mu.
func (w *wire) try(b []byte) (int, error) {
	w.chunk = b
	err := w.raw.Write(w.attempt)
	w.chunk = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(w.failure, syscall.EAGAIN):
		return 0, nil
	case w.failure != nil:
		return 0, w.failure
	}
	return w.written, nil
}

// catchUp writes unsent bytes until there are none or the connection fails.
func (w *wire) catchUp() {
	for {
		w.mu.Lock()
		chunk := w.pending
		w.pending = nil
		if len(chunk) == 0 || w.closed {
			_ = w.SetWriteDeadline(time.Time{}) // else it would end the connection at the first write after it
			w.behind = false
			w.mu.Unlock()
			w.forget(len(chunk))
			return
		}
		w.mu.Unlock()
		err := w.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err == nil {
			_, err = w.Conn.Write(chunk)
		}
		w.forget(len(chunk))
		if err != nil {
			w.Close() //nolint:errcheck // the reader notices the loss
		}
	}
}

func (w *wire) forget(size int) {
	w.kept.Add(-int64(size))
	w.total.Add(-int64(size))
}

// Close closes the connection at once and drops unsent bytes.
func (w *wire) Close() error {
	w.mu.Lock()
	w.closed = true
	pending := len(w.pending)
	w.pending = nil
	w.mu.Unlock()
	w.forget(pending)
	return w.Conn.Close()
}

// wait returns when the goroutine has ended, soon after Close.
func (w *wire) wait() { w.writing.Wait() }
