package peernode

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/vms/platformvm/block"
)

// TestOffersAndBlockIDs: the service relies on what a Node offers when, and compares blocks with the executed ones.
func TestOffersAndBlockIDs(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	node, err := New(options(r, g, n))
	require.NoError(t, err)
	requireOffers := func(path, method string, offers, now bool) {
		t.Helper()
		gotOffers, gotNow := node.Offers(path, method)
		require.Equal(t, []bool{offers, now}, []bool{gotOffers, gotNow}, "%s %s", path, method)
	}
	requireAll := func(ready bool) {
		t.Helper()
		for _, method := range []string{"platform.getHeight", "platform.getValidatorsAt", "platform.getBlockByHeight"} {
			requireOffers("/ext/bc/P", method, true, ready)
			requireOffers("/ext/P", method, true, ready)
		}
		requireOffers("/ext/bc/C/proposervm", "proposervm.getCurrentEpoch", true, ready)
		requireOffers("/ext/info", "info.getNetworkID", true, true)
		requireOffers("/ext/info", "info.peers", false, false)
		requireOffers("/ext/bc/P", "platform.issueTx", false, false)
		requireOffers("/ext/bc/P", "getHeight", false, false)
		requireOffers("/ext/bc/C/rpc", "eth_blockNumber", false, false)
		requireOffers("/ext/index/P/block", "index.getContainerRange", false, false)
	}
	requireAll(false)
	_, err = node.BlockID(t.Context(), 0)
	require.ErrorIs(t, err, ErrBehind)
	_, ok := node.Executed()
	require.False(t, ok)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx, n) }()
	require.Eventually(t, func() bool { return confirmedAt(len(r.P))(node.Status()) }, time.Minute, time.Millisecond)
	requireAll(true)
	height, ok := node.Executed()
	require.True(t, ok)
	require.Equal(t, uint64(len(r.P)), height)
	for i, container := range r.P {
		parsed, err := block.Parse(block.Codec, open(container).Block)
		require.NoError(t, err)
		id, err := node.BlockID(ctx, uint64(i+1))
		require.NoError(t, err)
		require.Equal(t, parsed.ID(), id)
		if i == 0 {
			id, err = node.BlockID(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, parsed.Parent(), id)
		}
	}
	_, err = node.BlockID(ctx, height+1)
	require.ErrorIs(t, err, ErrBehind)
	cancel()
	require.NoError(t, <-ended)
	requireAll(true) // URLs are not asked any more, even without an answer
}
