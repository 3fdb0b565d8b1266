package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/constants"
	platformblock "github.com/ava-labs/avalanchego/vms/platformvm/block"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/e2e/liar"
	"quorate/e2e/localnet"
)

// lyingValidators starts a service that reaches two of five validators at liars, which present the certificates of these
// validators. The real ones go on validating.
func lyingValidators(t *testing.T, ctx context.Context, program string, network *localnet.Network, chains ...*cChain) {
	index := indexer.NewClient(network.Node(0).URL + "/ext/index/P/block")
	first, err := index.GetContainerByIndex(ctx, 0)
	require.NoError(t, err)
	last, _, err := index.GetLastAccepted(ctx)
	require.NoError(t, err)
	forged := forgedChild(t, last.Bytes)
	require.NotEqual(t, first.ID, last.ID)

	// One names the first block and denies all others. The other invents a tip each time, and agrees with every vote.
	old := func(chainID ids.ID) liar.Story {
		if chainID != constants.PlatformChainID {
			return liar.Story{}
		}
		return liar.Story{Tip: first.ID, Accepted: func(id ids.ID) bool { return id == first.ID }}
	}
	inventing := func(ids.ID) liar.Story {
		return liar.Story{Tip: ids.GenerateTestID(), Accepted: func(ids.ID) bool { return true }, Container: forged.Bytes()}
	}
	liars := []*liar.Liar{
		liar.Start(t, network.ID, network.Keys(), 4, old),
		liar.Start(t, network.ID, network.Keys(), 5, inventing),
	}
	s := startWithPeers(t, ctx, program, network, withPeers{address: func(i int) string {
		if i >= 3 {
			return liars[i-3].Addr.String()
		}
		return network.StakingAddress(i)
	}})
	right := func(what string) {
		t.Helper()
		s.signEpochs(ctx, what, chains...)
		s.compareSets(ctx, network.Node(0).URL)
		for i, l := range liars {
			require.Positive(t, l.Asked(), "liar %d was not asked, so the test shows nothing", i)
		}
	}
	unconfirmed := func() float64 { return s.metric("quorate_peernode_unconfirmed_tips_total") }
	confirmed := func() float64 { return s.metric("quorate_peernode_confirmed_timestamp_seconds") }
	right("two validators lie: " + t.Name())
	require.Positive(t, unconfirmed())

	// Now both name one forged block, with two fifths of the stake. Nothing becomes of it, and there is no new tip while
	// they deny all others.
	height := s.metric("quorate_peernode_height")
	require.Positive(t, height)
	for _, l := range liars {
		l.Tell(func(ids.ID) liar.Story {
			return liar.Story{Tip: forged.ID(), Accepted: func(id ids.ID) bool { return id == forged.ID() }, Container: forged.Bytes()}
		})
	}
	for _, l := range liars { // until questions that were under way have ended
		asked := l.Asked()
		require.Eventually(t, func() bool { return l.Asked() >= asked+4 }, time.Minute, 50*time.Millisecond)
	}
	before, at := unconfirmed(), confirmed()
	require.Eventually(t, func() bool { return unconfirmed() >= before+6 }, time.Minute, 100*time.Millisecond)
	require.Equal(t, at, confirmed(), "a tip was confirmed without 80% of the stake")
	require.Equal(t, height, s.metric("quorate_peernode_height"))
	s.compareSets(ctx, network.Node(0).URL)

	liars[0].Tell(old)
	liars[1].Tell(inventing)
	require.Eventually(t, func() bool { return confirmed() > at }, time.Minute, 100*time.Millisecond, "it does not go on")
	right("they disagree again: " + t.Name())
}

// forgedChild returns a block that would follow a container.
func forgedChild(t *testing.T, container []byte) proposer.Block {
	t.Helper()
	parent, err := proposer.ParseWithoutVerification(container)
	require.NoError(t, err)
	inner, err := platformblock.Parse(platformblock.Codec, parent.Block())
	require.NoError(t, err)
	made, err := platformblock.NewBanffStandardBlock(time.Now(), inner.ID(), inner.Height()+1, nil)
	require.NoError(t, err)
	var epoch proposer.Epoch
	var height uint64
	if signed, ok := parent.(proposer.SignedBlock); ok {
		epoch, height = signed.PChainEpoch(), signed.PChainHeight()
	}
	forged, err := proposer.BuildUnsigned(parent.ID(), time.Now(), height, epoch, made.Bytes())
	require.NoError(t, err)
	return forged
}
