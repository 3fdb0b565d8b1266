package p2p

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
)

func manyRemotes(t testing.TB, n int) ([]*remote, []ids.NodeID) {
	t.Helper()
	remotes := make([]*remote, n)
	nodes := make([]ids.NodeID, n)
	for i := range remotes {
		remotes[i] = newRemote(t, echo)
		nodes[i] = remotes[i].id
	}
	return remotes, nodes
}

// round asks all nodes and waits for all answers.
func round(t testing.TB, n *Network, nodes []ids.NodeID, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var left atomic.Int64
	left.Store(int64(len(nodes)))
	done := make(chan struct{})
	sent := n.Request(ctx, testChain, nodes, body, func(a Answer) {
		if a.Err != nil {
			t.Errorf("answer of %s: %v", a.NodeID, a.Err)
		}
		if left.Add(-1) == 0 {
			close(done)
		}
	})
	if len(sent) != len(nodes) {
		t.Fatalf("sent to %d nodes, want %d", len(sent), len(nodes))
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%d of %d answers are missing", left.Load(), len(nodes))
	}
}

// Many requests at once to a hundred nodes are not throttled.
func TestManyRequestsAtOnce(t *testing.T) {
	remotes, nodes := manyRemotes(t, 100)
	n, _ := start(t, Config{Seeds: seeds(remotes...)})
	awaitConnected(t, n, remotes...)
	done := make(chan struct{})
	const askers = 20
	for range askers {
		go func() {
			round(t, n, nodes, make([]byte, 400))
			done <- struct{}{}
		}()
	}
	for range askers {
		<-done
	}
	require.Zero(t, n.calls.len())
}

// The time until a thousand validators are connected whose addresses are known.
// Both sides share the machine.
func BenchmarkConnectThousand(b *testing.B) {
	remotes, nodes := manyRemotes(b, 1000)
	for b.Loop() {
		n, stop := start(b, Config{Seeds: seeds(remotes...)})
		n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, nodes...)})
		awaitConnected(b, n, remotes...)
		stop()
	}
}

// The time from asking a thousand connected validators to the last answer.
func BenchmarkRoundThousand(b *testing.B) {
	var empty, full runtime.MemStats
	remotes, nodes := manyRemotes(b, 1000)
	runtime.GC()
	runtime.ReadMemStats(&empty)
	n, _ := start(b, Config{Seeds: seeds(remotes...)})
	awaitConnected(b, n, remotes...)
	runtime.GC()
	runtime.ReadMemStats(&full)
	b.ReportAllocs()
	body := make([]byte, 400)
	for b.Loop() {
		round(b, n, nodes, body)
	}
	b.ReportMetric(float64(full.HeapInuse+full.StackInuse-empty.HeapInuse-empty.StackInuse)/1000/1024, "KiB/connection-both-sides")
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*len(nodes)), "µs/answer")
}
