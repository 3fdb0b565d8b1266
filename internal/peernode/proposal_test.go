package peernode

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

)

// proposal is the height of a proposal in the recording. The block above it decides about it.
const proposal = 31

// TestProposalIsTip has the network's last accepted block be a proposal for some polls.
func TestProposalIsTip(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(proposal)
	node, err := New(options(r, g, n))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx, n) }()
	var first time.Time
	require.Eventually(t, func() bool {
		s := node.Status()
		if first.IsZero() && confirmedAt(proposal)(s) {
			first = s.Confirmed
		}
		return !first.IsZero() && s.Confirmed.After(first) // the validators confirmed it, not the beacons
	}, 10*time.Second, time.Millisecond)
	_, answer := call(t, node, "/ext/bc/P", "platform.getHeight", "{}")
	require.JSONEq(t, `{"jsonrpc":"2.0","id":7,"result":{"height":"30"}}`, answer) // as a node's
	status, answer := call(t, node, "/ext/bc/P/proposervm", "proposervm.getCurrentEpoch", "{}")
	require.Equal(t, 200, status, answer)
	n.accept(len(r.P))
	require.Eventually(t, func() bool { return confirmedAt(len(r.P))(node.Status()) }, 10*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}
