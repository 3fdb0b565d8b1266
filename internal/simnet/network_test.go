package simnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/proposervm"
	"github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/simnet/evmchain"
	"quorate/internal/simnet/history"
)

func start(t *testing.T, o Options) *Network {
	t.Helper()
	n, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

func TestSameSeedSameNetwork(t *testing.T) {
	o := Options{Seed: 9, Validators: 40, Weights: HeavyTailed, Latency: Latency{Median: 40 * time.Millisecond, P99: 400 * time.Millisecond}, Faults: Faults{Silent: 0.1, Refusing: 0.2}}
	a, b := start(t, o), start(t, o)
	o.Seed++
	other := start(t, o)
	id := a.Message([]byte("m")).ID()
	require.Equal(t, id, b.Message([]byte("m")).ID())
	different := 0
	for i, v := range a.Validators() {
		w := b.Validators()[i]
		require.Equal(t, v.NodeID, w.NodeID)
		require.Equal(t, v.Behaviour(), w.Behaviour())
		require.Equal(t, a.AnswerTime(i, id), b.AnswerTime(i, id))
		if v.NodeID != other.Validators()[i].NodeID {
			different++
		}
	}
	require.Equal(t, 40, different)
	require.Equal(t, a.Set(constants.PrimaryNetworkID, 1), b.Set(constants.PrimaryNetworkID, 1))
}

func TestFaultsAreDealtInTheSharesAskedFor(t *testing.T) {
	n := start(t, Options{Seed: 1, Validators: 100, Faults: Faults{Offline: 0.1, Refusing: 0.2, Silent: 0.05, WrongSignature: 0.15, Malformed: 0.5}})
	counts := make(map[Behaviour]int)
	for _, v := range n.Validators() {
		counts[v.Behaviour()]++
	}
	require.Equal(t, map[Behaviour]int{Offline: 10, Refusing: 20, Silent: 5, WrongSignature: 15, Malformed: 50}, counts)
}

func TestSignaturesAreGenuine(t *testing.T) {
	n := start(t, Options{Seed: 1, Validators: 30})
	m := n.Message([]byte("m"))
	for i, v := range n.Validators() {
		signature, err := bls.SignatureFromBytes(n.signature(m, i))
		require.NoError(t, err)
		key, err := bls.PublicKeyFromCompressedBytes(bls.PublicKeyToCompressedBytes(v.signer.PublicKey()))
		require.NoError(t, err)
		require.True(t, bls.Verify(key, signature, m.Bytes()), "validator %d", i)
		require.False(t, bls.Verify(key, signature, []byte("another")))
	}
}

func TestAnswerTimesHaveTheDistributionAskedFor(t *testing.T) {
	o := Options{Seed: 1, Latency: Latency{Median: 40 * time.Millisecond, P99: 400 * time.Millisecond}}
	for _, persistent := range []float64{0, 0.5} {
		o.Latency.Persistent = persistent
		below := func(limit time.Duration) (share float64) {
			const n = 20_000
			for i := range n {
				if o.AnswerTime(i, ids.ID{byte(i), byte(i >> 8)}) < limit {
					share += 1.0 / n
				}
			}
			return share
		}
		require.InDelta(t, 0.5, below(40*time.Millisecond), 0.02)
		require.InDelta(t, 0.99, below(400*time.Millisecond), 0.005)
	}
	o.Latency.Persistent = 1
	require.Equal(t, o.AnswerTime(3, ids.ID{1}), o.AnswerTime(3, ids.ID{2}))
}

// The library's own clients can read the node API.
func TestNodeAPI(t *testing.T) {
	n := start(t, Options{Seed: 2, Validators: 7, Weights: HeavyTailed, Keyless: 1_000, L1Validators: 3, ProposedAfter: 2 * time.Second, EpochDuration: time.Second})
	ctx := t.Context()
	networkID, err := info.NewClient(n.NodeURL()).GetNetworkID(ctx)
	require.NoError(t, err)
	require.Equal(t, uint32(DefaultNetworkID), networkID)
	peers, err := info.NewClient(n.NodeURL()).Peers(ctx, nil)
	require.NoError(t, err)
	require.Len(t, peers, 6)

	p := platformvm.NewClient(n.NodeURL())
	l1, l1Chain := n.L1()
	for _, subnetID := range []ids.ID{constants.PrimaryNetworkID, l1} {
		outputs, err := p.GetValidatorsAt(ctx, subnetID, 1)
		require.NoError(t, err)
		flat, err := validators.FlattenValidatorSet(outputs)
		require.NoError(t, err)
		require.Equal(t, n.Set(subnetID, 1), flat)
		all, err := p.GetAllValidatorsAt(ctx, platformapi.Height(platformapi.ProposedHeight))
		require.NoError(t, err)
		require.Equal(t, flat.TotalWeight, all[subnetID].TotalWeight)
		require.Len(t, all[subnetID].Validators, len(flat.Validators))
	}
	subnetID, err := p.ValidatedBy(ctx, l1Chain)
	require.NoError(t, err)
	require.Equal(t, l1, subnetID)
	_, err = p.ValidatedBy(ctx, ids.ID{1})
	require.Error(t, err)
	subnet, err := p.GetSubnet(ctx, l1)
	require.NoError(t, err)
	require.NotEqual(t, ids.Empty, subnet.ConversionID)
	_, err = p.GetSubnet(ctx, ids.ID{1})
	require.Error(t, err)
	_, err = p.GetValidatorsAt(ctx, constants.PrimaryNetworkID, 2)
	require.ErrorContains(t, err, "failed to get validator set at 2: failed to fetch validator set at unfinalized height with SubnetID = "+
		constants.PrimaryNetworkID.String()+": current P-chain height (1) < requested P-Chain height (2)")
	_, err = p.GetAllValidatorsAt(ctx, 2)
	require.ErrorContains(t, err, "failed to get validator sets at 2: failed to fetch validator set at unfinalized height: current P-chain height (1) < requested P-Chain height (2)")

	proposed := proposervm.NewJSONRPCClient(n.NodeURL(), "P")
	first, err := proposed.GetCurrentEpoch(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(1), first.PChainHeight)
	n.Advance(constants.PrimaryNetworkID, func(members map[ids.NodeID]Member) {
		delete(members, n.Validators()[0].NodeID)
	})
	atProposed := func() int {
		outputs, err := p.GetValidatorsAt(ctx, constants.PrimaryNetworkID, platformapi.Height(platformapi.ProposedHeight))
		require.NoError(t, err)
		return len(outputs)
	}
	proposes := func() uint64 {
		height, err := p.GetProposedHeight(ctx)
		require.NoError(t, err)
		same, err := proposed.GetProposedHeight(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, same, height)
		return height
	}
	height, err := p.GetHeight(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(2), height)
	require.Equal(t, uint64(1), proposes(), "the block is new")
	require.Equal(t, 8, atProposed())
	current, err := p.GetCurrentValidators(ctx, constants.PrimaryNetworkID, nil)
	require.NoError(t, err)
	require.Len(t, current, 7)
	require.Eventually(t, func() bool { return proposes() == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 7, atProposed())
	now, err := p.GetValidatorsAt(ctx, constants.PrimaryNetworkID, 2)
	require.NoError(t, err)
	require.Len(t, now, 7)
	before, err := p.GetValidatorsAt(ctx, constants.PrimaryNetworkID, 1)
	require.NoError(t, err)
	require.Len(t, before, 8)
	epochOf := func(chain string) block.Epoch {
		epoch, err := proposervm.NewJSONRPCClient(n.NodeURL(), chain).GetCurrentEpoch(ctx)
		require.NoError(t, err)
		return epoch
	}
	require.Eventually(t, func() bool {
		epoch := epochOf("C")
		return epoch.PChainHeight == 2 && epoch.Number > first.Number
	}, time.Minute, 10*time.Millisecond, "a chain that is not simulated counts as making blocks")
	idle := epochOf("P")
	require.Equal(t, uint64(1), idle.PChainHeight, "the last block of the P-Chain was made when 1 was proposed")
	n.Advance(constants.PrimaryNetworkID, nil)
	sealed := epochOf("P")
	require.Equal(t, idle.Number+1, sealed.Number, "a block seals the epoch")
	require.Equal(t, uint64(2), sealed.PChainHeight)

	n.SetAPIFault(&APIFault{Status: 503})
	_, err = p.GetHeight(ctx)
	require.Error(t, err)
	n.SetAPIFault(nil)
	_, err = p.GetHeight(ctx)
	require.NoError(t, err)
}

// Each block of a simulated chain can seal the epoch of that chain, and of no other.
func TestBlocksSealEpochs(t *testing.T) {
	n := start(t, Options{Seed: 3, Validators: 1, EpochDuration: time.Second,
		History: &History{Options: history.Options{Txs: 20}}, EVM: []EVM{{Options: evmchain.Options{L1: true, Txs: 20}}, {Options: evmchain.Options{L1: true, Txs: 20}}}})
	evm := n.EVM()[0]
	l1, idle := evm.Generator().BlockchainID(), n.EVM()[1].Generator().BlockchainID()
	number := func(chainID ids.ID) uint64 {
		epoch, err := proposervm.NewJSONRPCClient(n.NodeURL(), chainID.String()).GetCurrentEpoch(t.Context())
		require.NoError(t, err)
		return epoch.Number
	}
	height := n.History().Height(history.C)
	require.Eventually(t, func() bool {
		require.NoError(t, evm.Grow(t.Context(), 1))
		return number(l1) > 1
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, uint64(1), number(n.Blockchain()))
	require.Eventually(t, func() bool {
		require.NoError(t, n.History().Grow(t.Context(), 1))
		return n.History().Height(history.C) > height
	}, time.Minute, time.Millisecond)
	require.Equal(t, uint64(2), number(n.Blockchain()))
	require.Equal(t, uint64(1), number(idle))
}

func TestNothingIsLeftRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	n, err := Start(Options{Validators: 20})
	require.NoError(t, err)
	n.Close()
	for range 20 { // they may take a while on a busy machine
		if err = goleak.Find(before); err == nil {
			break
		}
	}
	require.NoError(t, err)
}
