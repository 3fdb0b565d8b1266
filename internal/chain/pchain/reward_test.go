package pchain_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	platformreward "github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
)

const (
	avaxUnit = 1_000_000_000
	day      = 24 * time.Hour
	// supplied is the supply without the genesis validators.
	supplied = 360_000_000 * avaxUnit
)

// rewarding is a chain whose rewards no node lists.
type rewarding struct {
	*history
	network     uint32
	at          time.Time
	supply      map[ids.ID]uint64
	differences []*pchain.DifferenceError
}

func newRewarding(t testing.TB, networkID uint32, at time.Time, upgrades *upgrade.Config) *rewarding {
	return newRewardingFrom(t, networkID, supplied, at, upgrades)
}

func newRewardingFrom(t testing.TB, networkID uint32, supplied uint64, at time.Time, upgrades *upgrade.Config) *rewarding {
	r := &rewarding{network: networkID, at: at, supply: map[ids.ID]uint64{constants.PrimaryNetworkID: supplied}}
	first := must(block.NewApricotCommitBlock(ids.ID{'g'}, 0))
	n := &answers{rewards: make(map[ids.ID][][]byte), err: pchain.ErrNotOffered}
	d, err := pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: networkID, Genesis: &ledger.Block{ChainID: constants.PlatformChainID, ID: first.ID(), Time: at},
		AVAXAssetID: avaxID, Node: n, Supply: supplied, Upgrades: upgrades,
		Disagree: func(d *pchain.DifferenceError) { r.differences = append(r.differences, d) },
	})
	require.NoError(t, err)
	r.history = &history{t: t, decoder: d, state: pchain.NewState(), node: n, parent: first.ID()}
	_, err = d.Ledger(t.Context(), r.state, must(pchain.ParseBlock(first.Bytes())))
	require.NoError(t, err)
	return r
}

// requireSupply compares the supply with the expected result of platform.getCurrentSupply.
func (r *rewarding) requireSupply(subnetID ids.ID) {
	r.t.Helper()
	require.Equal(r.t, r.supply[subnetID], r.state.Supply(subnetID), "supply of %s", subnetID)
}

// potential returns the reward of a period and adds it to the expected supply.
func (r *rewarding) potential(config platformreward.Config, start time.Time, period time.Duration, weight uint64, subnetID ids.ID) uint64 {
	amount := platformreward.NewCalculator(config).Calculate(start, period, weight, r.supply[subnetID])
	require.NotZero(r.t, amount)
	r.supply[subnetID] += amount
	return amount
}

// end decides a reward and returns its outputs as index, amount and role.
func (r *rewarding) end(at time.Time, unsigned txs.UnsignedTx, commit bool) (made [][3]uint64, tx ledger.Tx) {
	r.t.Helper()
	r.add(proposal(at, accepted(unsigned)))
	tx = r.add(option(at, commit)).Txs[0]
	for _, out := range tx.Made {
		made = append(made, [3]uint64{uint64(out.Index), out.Amount, uint64(out.Role)})
	}
	return made, tx
}

func staked(weight uint64) []*avax.TransferableOutput {
	return []*avax.TransferableOutput{pay(weight, alice)}
}

func (r *rewarding) validator(node byte, weight uint64, until time.Time, shares uint32, subnet ids.ID) *txs.Tx {
	add := &txs.AddPermissionlessValidatorTx{
		BaseTx: common(), Validator: txs.Validator{NodeID: ids.NodeID{node}, Start: uint64(r.at.Unix()) + 60, End: uint64(until.Unix()), Wght: weight},
		Subnet: subnet, Signer: proof, StakeOuts: staked(weight), ValidatorRewardsOwner: owners(alice), DelegatorRewardsOwner: owners(bob), DelegationShares: shares,
	}
	return accepted(add)
}

func (r *rewarding) delegator(node byte, weight uint64, until time.Time) *txs.Tx {
	return accepted(&txs.AddPermissionlessDelegatorTx{
		BaseTx: common(), Validator: txs.Validator{NodeID: ids.NodeID{node}, Start: uint64(r.at.Unix()) + 60, End: uint64(until.Unix()), Wght: weight},
		StakeOuts: staked(weight), DelegationRewardsOwner: owners(bob),
	})
}

// before returns the reward configuration before Helicon.
func before(networkID uint32) platformreward.Config {
	return avagenesis.GetStakingConfig(networkID).RewardConfig
}

// TestComputedRewards computes rewards of a validator and delegators on mainnet, one of them denied, without a node
// that lists rewards.
func TestComputedRewards(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC) // Etna, not Helicon
	r := newRewarding(t, constants.MainnetID, at, nil)
	config, primary := before(constants.MainnetID), constants.PrimaryNetworkID
	validator, one, two := r.validator(1, 2000*avaxUnit, at.Add(300*day), 20_000, primary), r.delegator(1, 777*avaxUnit+3, at.Add(100*day)), r.delegator(1, 25*avaxUnit, at.Add(200*day))
	r.add(standard(at, validator, one))
	own := r.potential(config, at, 300*day, 2000*avaxUnit, primary)
	first := r.potential(config, at, 100*day, 777*avaxUnit+3, primary)
	r.requireSupply(primary)
	later := at.Add(50 * day)
	r.add(standard(later, two))
	second := r.potential(config, later, 150*day, 25*avaxUnit, primary)
	r.requireSupply(primary)

	const index = 3 // two ordinary outputs and one of stake come before
	commission, rest := platformreward.Split(first, 20_000)
	made, tx := r.end(at.Add(100*day), &txs.RewardValidatorTx{TxID: one.ID()}, true)
	require.Equal(t, [][3]uint64{{index, rest, uint64(ledger.DelegationReward)}}, made)
	require.Equal(t, first, tx.Settled.PotentialReward)
	r.requireSupply(primary)
	made, tx = r.end(at.Add(200*day), &txs.RewardValidatorTx{TxID: two.ID()}, false)
	require.Empty(t, made, "the reward is denied")
	require.Equal(t, second, tx.Settled.PotentialReward)
	r.supply[primary] -= second
	r.requireSupply(primary)
	made, tx = r.end(at.Add(300*day), &txs.RewardValidatorTx{TxID: validator.ID()}, true)
	require.Equal(t, own, tx.Settled.PotentialReward)
	require.Equal(t, [][3]uint64{{index, own, uint64(ledger.ValidationReward)}, {index + 1, commission, uint64(ledger.Commission)}}, made)
	require.Equal(t, []ids.ShortID{alice}, tx.Made[0].Addresses)
	require.Equal(t, []ids.ShortID{bob}, tx.Made[1].Addresses)
	require.Equal(t, avaxID, tx.Made[0].AssetID)
	r.requireSupply(primary)
	require.Empty(t, r.differences)
	_, err := r.try(proposal(at.Add(300*day), accepted(&txs.RewardValidatorTx{TxID: validator.ID()})))
	require.NoError(t, err)
	_, err = r.try(option(at.Add(300*day), true))
	require.ErrorIs(t, err, pchain.ErrTransaction, "the stake has ended")
}

// TestAllIsCommission has a validator that keeps all of what its delegator earns, once with a node that lists rewards.
func TestAllIsCommission(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	for _, lists := range []bool{false, true} {
		r := newRewarding(t, constants.MainnetID, at, nil)
		config, primary := before(constants.MainnetID), constants.PrimaryNetworkID
		validator, one := r.validator(1, 2000*avaxUnit, at.Add(300*day), platformreward.PercentDenominator, primary), r.delegator(1, 777*avaxUnit, at.Add(100*day))
		r.add(standard(at, validator, one))
		r.potential(config, at, 300*day, 2000*avaxUnit, primary)
		earned := r.potential(config, at, 100*day, 777*avaxUnit, primary)
		if lists {
			r.node.err = nil
		}
		made, tx := r.end(at.Add(100*day), &txs.RewardValidatorTx{TxID: one.ID()}, true)
		require.Empty(t, made)
		require.Equal(t, earned, tx.Settled.PotentialReward)
		require.Empty(t, r.differences)
	}
}

// TestCommissionIsPaidThoughRefused denies the reward of a validator with insufficient uptime.
func TestCommissionIsPaidThoughRefused(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	r := newRewarding(t, constants.MainnetID, at, nil)
	config, primary := before(constants.MainnetID), constants.PrimaryNetworkID
	validator, one := r.validator(1, 2000*avaxUnit, at.Add(300*day), 500_000, primary), r.delegator(1, 777*avaxUnit, at.Add(100*day))
	r.add(standard(at, validator, one))
	own := r.potential(config, at, 300*day, 2000*avaxUnit, primary)
	commission, _ := platformreward.Split(r.potential(config, at, 100*day, 777*avaxUnit, primary), 500_000)
	r.end(at.Add(100*day), &txs.RewardValidatorTx{TxID: one.ID()}, true)
	made, _ := r.end(at.Add(300*day), &txs.RewardValidatorTx{TxID: validator.ID()}, false)
	require.Equal(t, [][3]uint64{{3, commission, uint64(ledger.Commission)}}, made, "without a reward the commission is the first output")
	r.supply[primary] -= own
	r.requireSupply(primary)
}

// TestPendingPeriods starts periods later, before Durango. Rewards use the supply at the start of a period, and pending
// periods start in the order of nodes. A validator from before Cortina gets commission with each delegation.
func TestPendingPeriods(t *testing.T) {
	at := time.Date(2022, time.November, 1, 0, 0, 0, 0, time.UTC) // Banff, not Cortina
	r := newRewarding(t, constants.MainnetID, at, nil)
	config, primary := before(constants.MainnetID), constants.PrimaryNetworkID
	validator, one, two := r.validator(1, 2000*avaxUnit, at.Add(300*day), 100_000, primary), r.delegator(1, 500*avaxUnit, at.Add(100*day)), r.delegator(1, 600*avaxUnit, at.Add(90*day))
	r.add(standard(at, one, two, validator))
	r.requireSupply(primary)
	begin := at.Add(time.Minute)
	r.add(standard(begin))
	own := r.potential(config, begin, 300*day-time.Minute, 2000*avaxUnit, primary)
	rewards := make(map[ids.ID]uint64)
	delegators := []*txs.Tx{one, two}
	slices.SortFunc(delegators, func(a, b *txs.Tx) int { x, y := a.ID(), b.ID(); return bytes.Compare(x[:], y[:]) })
	for _, tx := range delegators {
		d := tx.Unsigned.(*txs.AddPermissionlessDelegatorTx)
		rewards[tx.ID()] = r.potential(config, begin, d.EndTime().Sub(begin), d.Wght, primary)
	}
	r.requireSupply(primary)
	for _, tx := range []*txs.Tx{two, one} {
		commission, rest := platformreward.Split(rewards[tx.ID()], 100_000)
		end := tx.Unsigned.(*txs.AddPermissionlessDelegatorTx).EndTime()
		made, _ := r.end(end, &txs.RewardValidatorTx{TxID: tx.ID()}, true)
		require.Equal(t, [][3]uint64{{3, rest, uint64(ledger.DelegationReward)}, {4, commission, uint64(ledger.Commission)}}, made)
	}
	made, _ := r.end(at.Add(300*day), &txs.RewardValidatorTx{TxID: validator.ID()}, true)
	require.Equal(t, [][3]uint64{{3, own, uint64(ledger.ValidationReward)}}, made)
	r.requireSupply(primary)
}

// TestTransformedSubnet pays rewards in the subnet's own asset from its own supply.
func TestTransformedSubnet(t *testing.T) {
	at := time.Date(2024, time.May, 1, 0, 0, 0, 0, time.UTC) // Durango, not Etna
	r := newRewarding(t, constants.MainnetID, at, nil)
	subnet := ids.ID{9}
	r.add(standard(at, accepted(&txs.TransformSubnetTx{
		BaseTx: common(), Subnet: subnet, AssetID: ids.ID{8}, InitialSupply: 5000, MaximumSupply: 9000,
		MinConsumptionRate: 300_000, MaxConsumptionRate: 900_000, SubnetAuth: &secp256k1fx.Input{},
	})))
	r.supply[subnet] = 5000
	validator := r.validator(1, 4000, at.Add(200*day), 20_000, subnet)
	validator.Unsigned.(*txs.AddPermissionlessValidatorTx).StakeOuts[0].Asset.ID = ids.ID{8}
	validator = accepted(validator.Unsigned)
	r.add(standard(at, validator))
	own := r.potential(platformreward.Config{
		MinConsumptionRate: 300_000, MaxConsumptionRate: 900_000, MintingPeriod: 365 * day, SupplyCap: 9000,
	}, at, 200*day, 4000, subnet)
	made, tx := r.end(at.Add(200*day), &txs.RewardValidatorTx{TxID: validator.ID()}, true)
	require.Equal(t, [][3]uint64{{3, own, uint64(ledger.ValidationReward)}}, made)
	require.Equal(t, ids.ID{8}, tx.Made[0].AssetID)
	r.requireSupply(subnet)
	r.requireSupply(constants.PrimaryNetworkID)
}

// TestRenewedPeriods follows an auto-renewed validator (ACP-236) under Helicon's lower rate (ACP-285): it restakes half
// of its rewards, then stops.
func TestRenewedPeriods(t *testing.T) {
	at := time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC)
	upgrades := upgrade.GetConfig(constants.MainnetID)
	upgrades.HeliconTime = at.Add(-45 * day) // half way to the lower rate
	r := newRewarding(t, constants.MainnetID, at, &upgrades)
	primary, period := constants.PrimaryNetworkID, 30*day
	rate := func(start time.Time) platformreward.Config {
		config := before(constants.MainnetID)
		const lower = 75_000
		passed := min(start.Sub(upgrades.HeliconTime), 90*day)
		config.MinConsumptionRate -= (config.MinConsumptionRate - lower) * uint64(passed/time.Second) / uint64(90*day/time.Second)
		return config
	}
	weight := uint64(2_999_999) * avaxUnit // about 1 AVAX below the maximum
	add := accepted(&txs.AddAutoRenewedValidatorTx{
		BaseTx: common(), ValidatorNodeID: append(make([]byte, 19), 1), Signer: proof, StakeOuts: staked(weight), ValidatorRewardsOwner: owners(alice),
		DelegatorRewardsOwner: owners(bob), ValidatorAuthority: owners(bob), DelegationShares: 20_000, AutoCompoundRewardShares: 500_000, Period: uint64(period / time.Second),
	})
	r.add(standard(at, add))
	own := r.potential(rate(at), at, period, weight, primary)
	r.requireSupply(primary)

	// Half of the reward would exceed the maximum, so the validator restakes up to the maximum.
	const room = 1 * avaxUnit
	end := at.Add(period)
	made, tx := r.end(end, &txs.RewardAutoRenewedValidatorTx{TxID: add.ID(), Timestamp: uint64(end.Unix())}, true)
	require.Equal(t, [][3]uint64{{0, own - room, uint64(ledger.ValidationReward)}}, made)
	require.Equal(t, end.Add(period), tx.Settled.RenewedUntil)
	requirePeriod := func(weight uint64, start time.Time) {
		t.Helper()
		require.Equal(t, []any{weight, start, start.Add(period)}, []any{tx.Settled.Weight, tx.Settled.Start, tx.Settled.End})
	}
	requirePeriod(weight, at)
	require.NotEqual(t, add.ID(), tx.Made[0].TxID)
	own = r.potential(rate(end), end, period, weight+room, primary)
	r.requireSupply(primary)

	r.add(standard(end, accepted(&txs.SetAutoRenewedValidatorConfigTx{BaseTx: common(), TxID: add.ID(), Auth: &secp256k1fx.Input{}})))
	end = end.Add(period)
	made, tx = r.end(end, &txs.RewardAutoRenewedValidatorTx{TxID: add.ID(), Timestamp: uint64(end.Unix())}, true)
	require.Equal(t, [][3]uint64{{0, own + room, uint64(ledger.ValidationReward)}}, made, "includes the restaked part")
	require.Zero(t, tx.Settled.RenewedUntil)
	requirePeriod(weight+room, at.Add(period))
	r.requireSupply(primary)
}

// TestStakeBeyondTheKnownMaximum has a private network whose validators may stake more than by default: a renewing one restakes
// the whole part that it asked for.
func TestStakeBeyondTheKnownMaximum(t *testing.T) {
	at := time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC)
	upgrades := upgrade.GetConfig(99999)
	upgrades.HeliconTime = at.Add(-365 * day)
	r := newRewarding(t, 99999, at, &upgrades)
	period, weight := 30*day, uint64(4_000_000)*avaxUnit
	r.add(standard(at, accepted(&txs.AddAutoRenewedValidatorTx{
		BaseTx: common(), ValidatorNodeID: append(make([]byte, 19), 1), Signer: proof, StakeOuts: staked(weight), ValidatorRewardsOwner: owners(alice),
		DelegatorRewardsOwner: owners(bob), ValidatorAuthority: owners(bob), DelegationShares: 20_000, AutoCompoundRewardShares: 500_000, Period: uint64(period / time.Second),
	})))
	one := r.state.StakerChanges()[0]
	require.NotZero(t, one.PotentialReward)
	r.state.TakeChanges()
	end := at.Add(period)
	made, _ := r.end(end, &txs.RewardAutoRenewedValidatorTx{TxID: one.TxID, Timestamp: uint64(end.Unix())}, true)
	restaked, _ := platformreward.Split(one.PotentialReward, 500_000)
	require.Equal(t, [][3]uint64{{0, one.PotentialReward - restaked, uint64(ledger.ValidationReward)}}, made)
	require.Equal(t, weight+restaked, r.state.StakerChanges()[0].Weight)
}

// TestDifferentRewards has a node with other outputs. The ledger takes them and the decoder reports the difference.
func TestDifferentRewards(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	r := newRewarding(t, constants.MainnetID, at, nil)
	validator := r.validator(1, 2000*avaxUnit, at.Add(300*day), 20_000, constants.PrimaryNetworkID)
	r.add(standard(at, validator))
	own := r.potential(before(constants.MainnetID), at, 300*day, 2000*avaxUnit, constants.PrimaryNetworkID)
	r.node.err, r.node.rewards[validator.ID()] = nil, [][]byte{reward(validator.ID(), 3, 12345, alice)}
	made, tx := r.end(at.Add(300*day), &txs.RewardValidatorTx{TxID: validator.ID()}, true)
	require.Equal(t, [][3]uint64{{3, 12345, uint64(ledger.ValidationReward)}}, made)
	require.Zero(t, tx.Settled.PotentialReward, "what the node computed is unknown")
	require.Equal(t, []*pchain.DifferenceError{{
		Height: 3, StakingTxID: validator.ID(), Node: []pchain.Payment{{Index: 3, Amount: 12345, Role: ledger.ValidationReward}},
		Computed: []pchain.Payment{{Index: 3, Amount: own, Role: ledger.ValidationReward}},
	}}, r.differences)
	require.ErrorContains(t, r.differences[0], "the node paid 12345 as output 3, the supply gives ")
}

// TestSupplyBeyondTheKnownCap has a network whose nodes have a larger cap than private networks have by default: its
// rewards are those that the node lists, and a node that lists none is asked again.
func TestSupplyBeyondTheKnownCap(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	end := at.Add(300 * day)
	r := newRewardingFrom(t, 99999, 2*before(99999).SupplyCap, at, nil)
	validator := r.validator(1, 2000*avaxUnit, end, 20_000, constants.PrimaryNetworkID)
	r.add(standard(at, validator))
	require.Zero(t, r.state.Supply(constants.PrimaryNetworkID), "unknown")
	r.node.err = nil
	r.add(proposal(end, accepted(&txs.RewardValidatorTx{TxID: validator.ID()})))
	for range 20 {
		_, err := r.try(option(end, true))
		require.ErrorContains(t, err, "it may not have executed the block yet", "whether outputs are missing is unknown")
		require.NotErrorIs(t, err, pchain.ErrReward)
	}
	r.node.rewards[validator.ID()] = [][]byte{reward(validator.ID(), 3, 12345, alice)}
	tx := r.add(option(end, true)).Txs[0]
	require.Len(t, tx.Made, 1)
	require.Equal(t, []uint64{3, 12345, uint64(ledger.ValidationReward)}, []uint64{uint64(tx.Made[0].Index), tx.Made[0].Amount, uint64(tx.Made[0].Role)})
	require.Zero(t, tx.Settled.PotentialReward, "unknown")
	require.Empty(t, r.differences, "nothing was computed")
}

// TestPartOfARewardIsDoubted retries a node that lists the validator's own reward without the commission. If it never lists
// both, the computed outputs are used where the computation is known to be right.
func TestPartOfARewardIsDoubted(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	half, end := at.Add(100*day), at.Add(300*day)
	for name, test := range map[string]struct {
		network uint32
		later   bool // the node lists both later
		made    int
	}{
		"listed late":     {constants.FujiID, true, 2},
		"public network":  {constants.FujiID, false, 2},
		"private network": {99999, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRewarding(t, test.network, at, nil)
			validator, delegator := r.validator(1, 2000*avaxUnit, end, 20_000, constants.PrimaryNetworkID), r.delegator(1, 777*avaxUnit, half)
			r.add(standard(at, validator, delegator))
			own := r.potential(before(test.network), at, 300*day, 2000*avaxUnit, constants.PrimaryNetworkID)
			earned := r.potential(before(test.network), at, 100*day, 777*avaxUnit, constants.PrimaryNetworkID)
			commission, _ := platformreward.Split(earned, 20_000)
			made, _ := r.end(half, &txs.RewardValidatorTx{TxID: delegator.ID()}, true) // computed
			require.Len(t, made, 1)

			r.node.err = nil
			list := [][]byte{reward(validator.ID(), 3, own, alice), reward(validator.ID(), 4, commission, bob)}
			r.node.rewards[validator.ID()] = list[:1]
			r.add(proposal(end, accepted(&txs.RewardValidatorTx{TxID: validator.ID()})))
			for range 20 {
				_, err := r.try(option(end, true))
				require.ErrorContains(t, err, "lists a part")
				require.NotErrorIs(t, err, pchain.ErrReward)
			}
			if test.later {
				r.node.rewards[validator.ID()] = list
			}
			require.Len(t, r.add(option(end, true)).Txs[0].Made, test.made)
			if test.later {
				require.Empty(t, r.differences)
				return
			}
			require.Len(t, r.differences, 1)
			require.Len(t, r.differences[0].Node, 1, "what the node listed")
			require.Equal(t, test.made == 2, r.differences[0].ComputedUsed)
		})
	}
}

// TestNoOutputsAreDoubted retries a node that lists no outputs, because it may not have executed the block. If it never
// lists them, the computed outputs are used where the computation is known to be right.
func TestNoOutputsAreDoubted(t *testing.T) {
	at := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	end := at.Add(300 * day)
	for _, test := range []struct {
		name    string
		network uint32
		agreed  bool // the node listed an earlier reward as computed
		partly  bool // until then it lists one of two outputs
		listed  bool // the node lists the reward later
		used    bool // the computed outputs are used
	}{
		{"listed late", constants.MainnetID, false, false, true, true},
		{"listed late, partly before", 99999, false, true, true, true},
		{"never, public network", constants.FujiID, false, false, false, true},
		{"partly for ever, public network", constants.FujiID, false, true, false, true},
		{"never, own network", 99999, false, false, false, false},
		{"never, own network that agreed", 99999, true, false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRewarding(t, test.network, at, nil)
			var all []*txs.Tx
			for node := range byte(3) {
				all = append(all, r.validator(1+node, 2000*avaxUnit, end, 20_000, constants.PrimaryNetworkID))
			}
			r.add(standard(at, all...))
			r.node.err = nil
			own := make([]uint64, len(all))
			for i := range own {
				own[i] = r.potential(before(test.network), at, 300*day, 2000*avaxUnit, constants.PrimaryNetworkID)
			}
			list := func(i int) {
				r.node.rewards[all[i].ID()] = [][]byte{reward(all[i].ID(), 3, own[i], alice)}
			}
			if test.agreed {
				list(0)
				r.add(proposal(end, accepted(&txs.RewardValidatorTx{TxID: all[0].ID()})))
				require.Len(t, r.add(option(end, true)).Txs[0].Made, 1)
				require.Empty(t, r.differences)
			}
			r.add(proposal(end, accepted(&txs.RewardValidatorTx{TxID: all[1].ID()})))
			doubt := "it may not have executed the block yet"
			if test.partly {
				doubt = "retrying"
				for _, tx := range all[1:] {
					r.node.rewards[tx.ID()] = [][]byte{reward(tx.ID(), 4, own[1], alice)} // no place of an output
				}
			}
			for range 20 {
				_, err := r.try(option(end, true))
				require.ErrorContains(t, err, doubt)
				require.NotErrorIs(t, err, pchain.ErrReward)
			}
			if test.listed {
				list(1)
			}
			want := 0
			if test.used {
				want = 1
			}
			made := r.add(option(end, true)).Txs[0].Made
			require.Len(t, made, want)
			if test.used {
				require.Equal(t, own[1], made[0].Amount)
			}
			if test.listed {
				require.Empty(t, r.differences)
				return
			}
			require.Len(t, r.differences, 1)
			require.Equal(t, test.used, r.differences[0].ComputedUsed)
			r.add(proposal(end, accepted(&txs.RewardValidatorTx{TxID: all[2].ID()})))
			if test.partly { // such an answer is doubted each time
				_, err := r.try(option(end, true))
				require.ErrorContains(t, err, doubt)
				return
			}
			require.Len(t, r.add(option(end, true)).Txs[0].Made, want, "the next one is not doubted")
			require.Len(t, r.differences, 2)
		})
	}
}
