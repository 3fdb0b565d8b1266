package p2p

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
)

// sockets are two ends of a TCP connection.
func sockets(t testing.TB) (ours, theirs net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	ours, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	theirs, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
	})
	return ours, theirs
}

// Whatever the other side reads and when, it gets all bytes in order, and writing
// never waits.
func TestWireKeepsOrder(t *testing.T) {
	// Made before, and little of it: a wire is only so patient, and a machine may be busy.
	sent := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(sent)
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"socket":       func(c net.Conn) net.Conn { return c },
		"not a socket": func(c net.Conn) net.Conn { return struct{ net.Conn }{c} },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := sockets(t)
			// So that the kernel keeps less.
			require.NoError(t, ours.(*net.TCPConn).SetWriteBuffer(64<<10))
			require.NoError(t, theirs.(*net.TCPConn).SetReadBuffer(64<<10))
			var total atomic.Int64
			w := newWire(wrap(ours), &total)
			random := rand.New(rand.NewPCG(1, 2))
			for rest := sent; len(rest) > 0; {
				b := rest[:min(len(rest), random.IntN(256<<10))]
				n, err := w.Write(b)
				require.NoError(t, err)
				require.Equal(t, len(b), n)
				rest = rest[n:]
			}
			require.Positive(t, total.Load(), "bytes kept while the peer does not read")
			require.Equal(t, total.Load(), w.kept.Load())
			got := make([]byte, len(sent))
			_, err := io.ReadFull(theirs, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, got), "bytes differ from what was written")
			w.wait()
			require.Zero(t, total.Load(), "bytes kept afterwards")

			_, err = w.Write([]byte("more"))
			require.NoError(t, err)
			_, err = io.ReadFull(theirs, got[:4])
			require.NoError(t, err)
			require.Equal(t, "more", string(got[:4]))
			require.NoError(t, w.Close())
			_, err = w.Write([]byte("too late"))
			require.ErrorIs(t, err, errWireClosed)
			w.wait()
		})
	}
}

// hasty is a socket whose write deadlines pass at once.
type hasty struct{ *net.TCPConn }

func (h hasty) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		t = time.Now().Add(500 * time.Millisecond)
	}
	return h.TCPConn.SetWriteDeadline(t)
}

// A node that was slow once has as much time for later messages as others.
func TestWireOutlivesItsDeadline(t *testing.T) {
	ours, theirs := sockets(t)
	var total atomic.Int64
	w := newWire(hasty{ours.(*net.TCPConn)}, &total)
	sent := 0
	for total.Load() == 0 {
		n, err := w.Write(make([]byte, 256<<10))
		require.NoError(t, err)
		sent += n
	}
	_, err := io.CopyN(io.Discard, theirs, int64(sent))
	require.NoError(t, err)
	w.wait()
	require.Zero(t, total.Load(), "bytes kept")
	time.Sleep(600 * time.Millisecond)
	_, err = w.Write([]byte("more"))
	require.NoError(t, err, "a deadline of earlier bytes ended the connection")
	require.NoError(t, w.Close())
}

func TestWireForgetsWhenClosed(t *testing.T) {
	ours, _ := sockets(t)
	var total atomic.Int64
	w := newWire(ours, &total)
	for total.Load() < 1<<20 {
		_, err := w.Write(make([]byte, 256<<10))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	w.wait()
	require.Zero(t, total.Load(), "bytes kept after Close")
	require.Zero(t, w.kept.Load())
}

// TLS also writes on its own, without reserving room.
func TestWireIsBounded(t *testing.T) {
	ours, _ := sockets(t)
	var total atomic.Int64
	w := newWire(ours, &total)
	var err error
	for sent := 0; err == nil; sent += 256 << 10 {
		require.Less(t, sent, 64<<20, "bytes taken for a node that does not read")
		_, err = w.Write(make([]byte, 256<<10))
	}
	require.ErrorIs(t, err, errUnread)
	_, err = w.Conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	w.wait()
	require.Zero(t, total.Load(), "bytes kept afterwards")
}

func TestWireFailsWithTheConnection(t *testing.T) {
	ours, theirs := sockets(t)
	var total atomic.Int64
	w := newWire(ours, &total)
	require.NoError(t, theirs.Close())
	require.Eventually(t, func() bool {
		_, err := w.Write([]byte("hello"))
		return err != nil
	}, timeout, time.Millisecond, "writes to a closed connection succeed")
	require.NoError(t, w.Close())
	w.wait()
	require.Zero(t, total.Load())
}

// The service disconnects a node that reads nothing.
func TestWireGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		var total atomic.Int64
		w := newWire(ours, &total)
		began := time.Now()
		_, err := w.Write([]byte("hello"))
		require.NoError(t, err)
		require.Zero(t, time.Since(began), "time that Write took")
		w.wait()
		require.Equal(t, writeTimeout, time.Since(began))
		_, err = w.Write([]byte("more"))
		require.ErrorIs(t, err, errWireClosed)
		require.Zero(t, total.Load())
	})
}

func TestBacklogIsBounded(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	ours, _ := sockets(t)
	w := newWire(ours, &n.backlog)
	s := n.newSession(w, w, nil, ids.NodeID{1}, netip.AddrPort{})
	framed := make([]byte, 64<<10)
	sent := 0
	for s.send(framed) {
		sent += len(framed)
		require.Less(t, sent, 64<<20, "bytes taken for a node that does not read")
	}
	require.LessOrEqual(t, n.backlog.Load(), int64(maxBacklog))
	require.Greater(t, n.backlog.Load(), int64(maxBacklog-2*len(framed)))
	require.False(t, s.send(framed[:1<<10]) && s.send(framed), "sent beyond the bound")

	// When all nodes together do not read, only those that do are sent to.
	n.backlog.Add(maxTotalBacklog)
	other, reading := sockets(t)
	fresh := newWire(other, &n.backlog)
	require.True(t, fresh.room(len(framed)))
	slow := newWire(other, &n.backlog)
	slow.kept.Store(1)
	require.False(t, slow.room(len(framed)))
	_ = reading
	s.end(nil)
	w.wait()
	require.Equal(t, int64(maxTotalBacklog), n.backlog.Load())
	require.False(t, s.send(framed), "sent after the end")
}

// A request goes at once to all nodes that read, whatever the others do. A connected node that does not read is one that
// has not answered.
func TestRequestDoesNotWaitForSlowNodes(t *testing.T) {
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	slow := newRemote(t, func(r *remote) {
		r.beforeRead = func() { <-hold }
	})
	quick := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) { c.respond(m, nil) }
	})
	n, _ := start(t, Config{Seeds: seeds(slow, quick)})
	awaitConnected(t, n, slow, quick)
	slow.pause.Store(true)
	body := make([]byte, 1<<20)
	var took []ids.NodeID
	got := make(answers, 100)
	for range 30 {
		began := time.Now()
		took = n.Request(t.Context(), testChain, []ids.NodeID{slow.id, quick.id}, body, func(a Answer) { got <- a })
		require.Less(t, time.Since(began), writeTimeout, "time that Request took")
		a := got.next(t)
		require.Equal(t, quick.id, a.NodeID)
		require.NoError(t, a.Err)
	}
	require.Equal(t, []ids.NodeID{slow.id, quick.id}, took)
	require.LessOrEqual(t, n.backlog.Load(), int64(maxBacklog))
	release()
}
