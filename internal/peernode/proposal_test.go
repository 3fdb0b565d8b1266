package peernode

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/database/prefixdb"
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

// TestKilledAfterProposal ends the process when a proposal was executed, and the block that decides about it was
// downloaded. The VM then begins at the block below the proposal.
func TestKilledAfterProposal(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	n.accept(proposal)
	run(t, o, n, confirmedAt(proposal))
	db, err := openDatabase(o.Dir)
	require.NoError(t, err)
	decision := open(r.P[proposal])
	blocks := &spool{"P-Chain", prefixdb.New([]byte("blocks"), db)}
	require.NoError(t, blocks.put([]*descent{{top: decision.ID, wanted: decision.ParentID, height: proposal + 1, lowest: proposal + 1}}, map[uint64][]byte{proposal + 1: decision.Block}))
	require.NoError(t, db.Close())
	n.accept(len(r.P))
	node, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.NoError(t, node.Run(ctx, n))
	require.EqualValues(t, len(r.P), node.Status().Height)
}
