package p2p

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/utils/compression"
	"github.com/ava-labs/avalanchego/utils/set"
)

func testNodes(n int) []ids.NodeID {
	nodes := make([]ids.NodeID, n)
	for i := range nodes {
		nodes[i] = ids.NodeID{byte(i), byte(i >> 8), 1}
	}
	return nodes
}

func TestCallIsForgotten(t *testing.T) {
	nodes := testNodes(3)
	taken := set.Of(nodes...)
	for _, tc := range []struct {
		name string
		do   func(cs *calls, id uint32, c *call, cancel context.CancelFunc)
	}{
		{"all answered", func(cs *calls, id uint32, c *call, _ context.CancelFunc) {
			cs.handed(id, c, taken)
			for _, nodeID := range nodes {
				cs.answer(nodeID, testChain[:], id, Answer{})
			}
		}},
		{"all answered before sending returns", func(cs *calls, id uint32, c *call, _ context.CancelFunc) {
			for _, nodeID := range nodes {
				cs.answer(nodeID, testChain[:], id, Answer{})
			}
			cs.handed(id, c, taken)
		}},
		{"some lost", func(cs *calls, id uint32, c *call, _ context.CancelFunc) {
			cs.handed(id, c, taken)
			cs.answer(nodes[0], testChain[:], id, Answer{})
			cs.disconnected(nodes[1])
			cs.disconnected(nodes[2])
		}},
		{"some not sent to", func(cs *calls, id uint32, c *call, _ context.CancelFunc) {
			cs.handed(id, c, set.Of(nodes[0]))
			cs.answer(nodes[0], testChain[:], id, Answer{})
		}},
		{"none sent to", func(cs *calls, id uint32, c *call, _ context.CancelFunc) {
			cs.handed(id, c, nil)
		}},
		{"silence until the end", func(cs *calls, id uint32, c *call, cancel context.CancelFunc) {
			cs.handed(id, c, taken)
			cancel()
		}},
		{"end while sending", func(cs *calls, id uint32, c *call, cancel context.CancelFunc) {
			cancel()
			cs.handed(id, c, taken)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cs := newCalls()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				id, c := cs.open(ctx, testChain, nodes, func(Answer) {})
				tc.do(cs, id, c, cancel)
				synctest.Wait()
				require.Zero(t, cs.len(), "calls that wait")
			})
		})
	}
}

// onAnswer is only called for nodes that are returned as sent to.
func TestSentAreThoseThatMayAnswer(t *testing.T) {
	nodes := testNodes(4)
	cs := newCalls()
	var told []Answer
	id, c := cs.open(t.Context(), testChain, nodes, func(a Answer) { told = append(told, a) })
	cs.disconnected(nodes[1]) // while sending
	sent := cs.handed(id, c, set.Of(nodes[0], nodes[2]))
	require.Equal(t, nodes[:3], sent)
	require.False(t, cs.answer(nodes[3], testChain[:], id, Answer{}), "answer of a node that was not sent to")
	require.False(t, cs.answer(nodes[1], testChain[:], id, Answer{}), "answer after a loss")
	require.True(t, cs.answer(nodes[0], testChain[:], id, Answer{}))
	require.Len(t, told, 2)
	require.Equal(t, nodes[1], told[0].NodeID)
	require.ErrorIs(t, told[0].Err, ErrDisconnected)
	require.Equal(t, nodes[0], told[1].NodeID)
}

func TestElapsedAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(2)
		cs := newCalls()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var told []Answer
		id, c := cs.open(ctx, testChain, nodes, func(a Answer) { told = append(told, a) })
		cs.handed(id, c, set.Of(nodes...))
		time.Sleep(3 * time.Second)
		require.True(t, cs.answer(nodes[0], testChain[:], id, Answer{Bytes: []byte{1}}))
		require.Equal(t, []Answer{{NodeID: nodes[0], Bytes: []byte{1}, Elapsed: 3 * time.Second}}, told)
		time.Sleep(3 * time.Second)
		require.False(t, cs.answer(nodes[1], testChain[:], id, Answer{}), "answer after the end")
		cs.disconnected(nodes[1])
		require.Len(t, told, 1)
	})
}

// Answers, lost connections and the end race: each node has at most one answer, and no call remains.
func TestCallsUnderConcurrency(t *testing.T) {
	cs := newCalls()
	nodes := testNodes(50)
	var wg sync.WaitGroup
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		heard := make(map[ids.NodeID]int)
		id, c := cs.open(ctx, testChain, nodes, func(a Answer) {
			mu.Lock()
			defer mu.Unlock()
			heard[a.NodeID]++
		})
		var racers sync.WaitGroup
		for range 3 {
			racers.Go(func() {
				for _, nodeID := range nodes {
					cs.answer(nodeID, testChain[:], id, Answer{})
				}
			})
		}
		racers.Go(func() {
			for _, nodeID := range nodes[10:20] {
				cs.disconnected(nodeID)
			}
		})
		racers.Go(func() { cs.handed(id, c, set.Of(nodes[:40]...)) })
		wg.Go(func() {
			racers.Wait()
			cancel()
			mu.Lock()
			defer mu.Unlock()
			for nodeID, times := range heard {
				if times != 1 {
					t.Errorf("node %s was heard %d times, want once", nodeID, times)
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { return cs.len() == 0 }, timeout, time.Millisecond, "calls that wait")
}

func TestRequestRefusesWhatCannotBeSent(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	never := func(Answer) { t.Error("called") }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	require.Empty(t, n.Request(ended, testChain, testNodes(1), nil, never), "after the end")
	require.Empty(t, n.Request(expired, testChain, testNodes(1), nil, never), "after the deadline")
	require.Empty(t, n.Request(t.Context(), testChain, nil, nil, never), "no nodes")
	require.Empty(t, n.Request(t.Context(), testChain, testNodes(1), make([]byte, maxRequest+1), never), "too large")
	require.Empty(t, n.Request(t.Context(), testChain, testNodes(1), nil, never), "not connected")
	require.Zero(t, n.calls.len())
}

func TestLongRefusalIsCut(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	codec, err := testCodec()
	require.NoError(t, err)
	nodes := testNodes(1)
	var told Answer
	id, _ := n.calls.open(t.Context(), testChain, nodes, func(a Answer) { told = a })
	long := make([]byte, 0, 3*maxRefusalText)
	for len(long) < 3*maxRefusalText-3 {
		long = append(long, "é€"...)
	}
	out, err := codec.AppError(testChain, id, 3, string(long))
	require.NoError(t, err)
	require.NoError(t, connectedSession(n, nodes[0]).handle(out.Bytes))
	require.Error(t, told.Err)
	require.LessOrEqual(t, len(told.Err.Error()), maxRefusalText+len("3: "))
	require.False(t, errors.Is(told.Err, ErrDisconnected))
}

// The way of one answer from the bytes of the message to the caller, as nodes
// send it that compress and as those that do not.
func BenchmarkAnswer(b *testing.B) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(b, err)
	for name, compress := range map[string]compression.Type{"plain": compression.TypeNone, "zstd": compression.TypeZstd} {
		b.Run(name, func(b *testing.B) {
			codec, err := message.NewCreator(prometheus.NewRegistry(), compress, time.Second)
			require.NoError(b, err)
			nodes := testNodes(1000)
			var sessions []*session
			for _, nodeID := range nodes {
				sessions = append(sessions, connectedSession(n, nodeID))
			}
			heard := 0
			b.ReportAllocs()
			for i := 0; i < b.N; {
				b.StopTimer()
				id, c := n.calls.open(b.Context(), testChain, nodes, func(Answer) { heard++ })
				n.calls.handed(id, c, set.Of(nodes...))
				out, err := codec.AppResponse(testChain, id, make([]byte, 98))
				require.NoError(b, err)
				b.StartTimer()
				for _, s := range sessions {
					if err := s.handle(out.Bytes); err != nil {
						b.Fatal(err)
					}
					if i++; i == b.N {
						break
					}
				}
				b.StopTimer()
				for _, nodeID := range nodes {
					n.calls.disconnected(nodeID)
				}
				b.StartTimer()
			}
			if heard < b.N {
				b.Fatalf("%d answers, want %d", heard, b.N)
			}
		})
	}
}

// A request ID is easily guessed, and a node may be lost at any moment: an answer may arrive
// before open has returned the call.
func TestAnswerWhileTheCallIsOpened(t *testing.T) {
	cs := newCalls()
	nodes := testNodes(1)
	stop := make(chan struct{})
	var guessing sync.WaitGroup
	for range 2 {
		guessing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					cs.disconnected(nodes[0])
				}
			}
		})
	}
	for range 200_000 {
		id, c := cs.open(t.Context(), testChain, nodes, func(Answer) {})
		cs.handed(id, c, set.Of(nodes...))
		cs.deliver(id, c, nodes[0], Answer{})
	}
	close(stop)
	guessing.Wait()
	require.Zero(t, cs.len(), "all were answered")
}

// ending is a connection whose second write ends a context.
type ending struct {
	io.ReadWriter
	writes int
	end    func()
}

func (e *ending) Write(b []byte) (int, error) {
	if e.writes++; e.writes == 2 {
		e.end()
	}
	return len(b), nil
}

// A request that ends while it is sent reaches no further node.
func TestSendingEndsWithTheRequest(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		conn := &ending{end: cancel}
		nodes := testNodes(20)
		for _, nodeID := range nodes {
			n.connected[nodeID] = &session{n: n, nodeID: nodeID, conn: conn, wire: newWire(nil, &n.backlog)}
		}
		sent := n.Request(ctx, testChain, nodes, []byte("m"), func(Answer) { t.Error("an answer") })
		require.Equal(t, nodes[:2], sent)
		require.Equal(t, 2, conn.writes)
		synctest.Wait()
		require.Zero(t, n.calls.len(), "calls that wait")
	})
}
