package peernode

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
)

// twoExchanges are peers of which each has at most two questions to answer at a time, as with package p2p.
type twoExchanges struct {
	*network
	asked, open, most atomic.Int64
}

func (p *twoExchanges) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	if nodeID == p.nodes[0] {
		p.asked.Add(1)
		if open := p.open.Add(1); open > p.most.Load() {
			p.most.Store(open)
		}
		defer p.open.Add(-1)
		time.Sleep(10 * time.Millisecond)
	}
	return p.network.AcceptedFrontier(ctx, nodeID, chainID)
}

// TestEpochsLeaveExchanges makes many calls for an epoch. They share a poll, and leave an exchange to the follower.
func TestEpochsLeaveExchanges(t *testing.T) {
	r, g := record(t)
	peers := &twoExchanges{network: newNetwork(r, g)}
	node, err := New(options(r, g, peers.network))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx, peers) }()
	require.Eventually(t, func() bool { return confirmedAt(len(r.P))(node.Status()) }, time.Minute, time.Millisecond)
	before := peers.asked.Load()
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			_, err := node.epoch(t.Context(), constants.PlatformChainID)
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	require.LessOrEqual(t, peers.asked.Load()-before, int64(10))
	require.LessOrEqual(t, peers.most.Load(), int64(2))

	// A minority that stays behind does not hold the epoch back.
	time.Sleep(pollInterval)
	peers.accept(20, peers.nodes[:2]...)
	status, answer := call(t, node, "/ext/bc/P/proposervm", "proposervm.getCurrentEpoch", "{}")
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	require.Contains(t, answer, errNewer.Error())
	cancel()
	require.NoError(t, <-ended)
}
