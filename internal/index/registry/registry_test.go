package registry_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/gas"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/index"
	"quorate/internal/index/registry"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

const network = 12345

// feeConfig makes prices move: two validators are the target.
var feeConfig = fee.Config{Capacity: 1000, Target: 2, MinPrice: 1, ExcessConversionConstant: 100_000}

// chain is a generated P-Chain.
type chain struct {
	genesis *genesis.Genesis
	blocks  []*pchain.Block
	made    []*history.Block
}

func newChain(t testing.TB, seed uint64, transactions int) *chain {
	t.Helper()
	g, err := history.New(history.Options{Seed: seed, NetworkID: network, Txs: transactions, Span: 10 * 24 * time.Hour})
	require.NoError(t, err)
	c := new(chain)
	for g.Txs() < transactions || g.Pending() > 0 {
		b, err := g.Next()
		require.NoError(t, err)
		if b.Chain != history.P {
			continue
		}
		parsed, err := pchain.ParseBlock(b.Bytes)
		require.NoError(t, err)
		c.blocks, c.made = append(c.blocks, parsed), append(c.made, b)
	}
	c.genesis, err = genesis.Of(network, c.blocks[0].ID)
	require.NoError(t, err)
	return c
}

func (c *chain) projection(t testing.TB, config fee.Config) *registry.Projection {
	t.Helper()
	d, err := pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: network, Genesis: c.genesis.P, AVAXAssetID: c.genesis.AVAXAssetID, Validators: c.genesis.Validators, Supply: c.genesis.Supply,
		ValidatorFees: &config, WithoutOutputs: true,
	})
	require.NoError(t, err)
	return registry.NewProjection(network, d)
}

// libraryConfig is the configuration that the history charges fees with.
func libraryConfig() fee.Config { return avagenesis.GetTxFeeConfig(network).ValidatorFeeConfig }

// l1Validator is an L1 validator of the oracle, whose balance is charged block by block.
type l1Validator struct {
	subnetID        ids.ID
	nodeID          []byte
	weight, balance uint64
	active, removed bool
	nonce           uint64
}

// period is a validation of the oracle.
type period struct {
	txID                              ids.ID
	subnetID                          ids.ID
	nodeID                            ids.NodeID
	weight, reward                    uint64
	delegators, delegated, all, whole uint64
	end                               time.Time
	permissioned, ended, removed      bool
}

// oracle replays blocks by the rules of a node, in the plainest way.
type oracle struct {
	chains   []ids.ID
	periods  map[ids.ID]*period
	delegate map[ids.ID]*period // the validation of a delegation
	weights  map[ids.ID]uint64  // of delegations
	l1       map[ids.ID]*l1Validator
	excess   gas.Gas
	time     time.Time
	config   fee.Config
	proposal *txs.Tx
	last     *txs.Tx                  // the proposal, for expect
	staked   map[ids.ID]history.Stake // each stake in its last period, for expect
}

func newOracle(config fee.Config) *oracle {
	return &oracle{
		periods: make(map[ids.ID]*period), delegate: make(map[ids.ID]*period), weights: make(map[ids.ID]uint64),
		l1: make(map[ids.ID]*l1Validator), config: config, staked: make(map[ids.ID]history.Stake),
	}
}

func (o *oracle) fees() fee.State {
	n := 0
	for _, v := range o.l1 {
		if v.active {
			n++
		}
	}
	return fee.State{Current: gas.Gas(n), Excess: o.excess}
}

// charge takes the fees of some seconds. Validators that cannot pay become inactive.
func (o *oracle) charge(seconds uint64) {
	fees := o.fees()
	cost := fees.CostOf(o.config, seconds)
	o.excess = fees.AdvanceTime(o.config.Target, seconds).Excess
	for _, v := range o.l1 {
		if v.balance <= cost {
			v.active, v.balance = false, 0
		} else {
			v.balance -= cost
		}
	}
}

func (o *oracle) apply(t testing.TB, b *pchain.Block, made *history.Block) {
	t.Helper()
	if !b.Time.IsZero() {
		if o.time.IsZero() {
			o.time = made.Time
		}
	}
	if seconds := made.Time.Unix() - o.time.Unix(); !o.time.IsZero() && seconds > 0 {
		o.charge(uint64(seconds))
	}
	o.time = made.Time
	for _, p := range o.periods {
		if p.permissioned && !p.end.After(o.time) {
			p.ended = true
		}
	}
	for _, tx := range b.Txs {
		o.tx(t, tx)
	}
	if b.Kind == pchain.Commit && o.proposal != nil {
		o.tx(t, o.proposal)
	}
	o.proposal = b.Proposal
	if !b.Time.IsZero() && (b.Kind == pchain.Standard || b.Kind == pchain.Proposal) {
		next := o.fees().CostOf(o.config, 1)
		for _, v := range o.l1 {
			if v.active && v.balance < next {
				v.active, v.balance = false, 0
			}
		}
	}
	o.stakes(made)
}

// stakes applies what the generator says about stakers of the primary network.
func (o *oracle) stakes(made *history.Block) {
	for _, id := range made.Ended {
		if v := o.delegate[id]; v != nil {
			v.delegators, v.delegated = v.delegators-1, v.delegated-o.weights[id]
			delete(o.delegate, id)
		} else {
			p := o.periods[id]
			p.ended, p.delegators, p.delegated, p.reward = true, 0, 0, 0
		}
	}
	for _, s := range made.Began {
		if !s.Delegator {
			p := o.periods[s.TxID]
			if p == nil {
				p = &period{txID: s.TxID, nodeID: s.NodeID}
				o.periods[s.TxID] = p
			}
			p.weight, p.reward, p.end, p.ended = s.Weight, s.PotentialReward, s.End, false
			continue
		}
		for _, p := range o.periods {
			if p.nodeID == s.NodeID && p.subnetID == constants.PrimaryNetworkID && !p.ended {
				o.delegate[s.TxID], o.weights[s.TxID] = p, s.Weight
				p.delegators, p.delegated, p.all, p.whole = p.delegators+1, p.delegated+s.Weight, p.all+1, p.whole+s.Weight
			}
		}
	}
}

func (o *oracle) tx(t testing.TB, tx *txs.Tx) {
	t.Helper()
	switch u := tx.Unsigned.(type) {
	case *txs.CreateChainTx:
		o.chains = append(o.chains, tx.ID())
	case *txs.AddSubnetValidatorTx:
		o.periods[tx.ID()] = &period{
			txID: tx.ID(), subnetID: u.Subnet, nodeID: u.NodeID(), weight: u.Wght, end: u.EndTime().UTC(), permissioned: true,
		}
	case *txs.RemoveSubnetValidatorTx:
		for _, p := range o.periods {
			if p.subnetID == u.Subnet && p.nodeID == u.NodeID && !p.ended {
				p.ended, p.removed = true, true
			}
		}
	case *txs.ConvertSubnetToL1Tx:
		for i, v := range u.Validators {
			o.l1[u.Subnet.Append(uint32(i))] = &l1Validator{subnetID: u.Subnet, nodeID: v.NodeID, weight: v.Weight, balance: v.Balance, active: v.Balance > 0}
		}
	case *txs.IncreaseL1ValidatorBalanceTx:
		v := o.l1[u.ValidationID]
		v.active, v.balance = true, v.balance+u.Balance
	case *txs.DisableL1ValidatorTx:
		v := o.l1[u.ValidationID]
		v.active, v.balance = false, 0
	case *txs.RegisterL1ValidatorTx, *txs.SetL1ValidatorWeightTx:
		event, err := pchain.L1EventOf(u)
		require.NoError(t, err)
		switch e := event.(type) {
		case *pchain.Registration:
			m, err := message.ParseRegisterL1Validator(e.Message)
			require.NoError(t, err)
			balance := u.(*txs.RegisterL1ValidatorTx).Balance
			o.l1[e.ValidationID] = &l1Validator{subnetID: m.SubnetID, nodeID: m.NodeID, weight: m.Weight, balance: balance, active: balance > 0}
		case *pchain.WeightChange:
			v := o.l1[e.ValidationID]
			v.weight, v.nonce = e.Weight, e.Nonce+1
			if e.Weight == 0 {
				v.active, v.balance, v.removed = false, 0, true
			}
		}
	}
}

// TestRegistryEqualsReplay indexes random histories with restarts between commits of any size, and compares all states,
// counts and balances with a plain replay at random heights.
//
//test:plain
func TestRegistryEqualsReplay(t *testing.T) {
	seen := make(map[any]int)
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			c := newChain(t, seed, 3000)
			config := libraryConfig()
			if seed%2 == 1 {
				config = feeConfig
			}
			s := store.NewMemory()
			defer s.Close()
			projection, x, o := c.projection(t, config), registry.New(s, network, config), newOracle(config)
			var batch store.Batch
			size := 1
			for i, b := range c.blocks {
				require.NoError(t, projection.Apply(t.Context(), s, b, &batch), "block %d", b.Height)
				o.apply(t, b, c.made[i])
				if size--; size > 0 && i+1 < len(c.blocks) {
					continue
				}
				require.NoError(t, s.Commit(t.Context(), &batch))
				batch.Reset()
				if rng.IntN(3) == 0 {
					projection = c.projection(t, config)
				}
				if size = 1 + rng.IntN(40); rng.IntN(4) == 0 {
					checkValidations(t, x, o, seen)
					checkL1(t, x, o, rng, seen)
				}
			}
			checkValidations(t, x, o, seen)
			checkL1(t, x, o, rng, seen)
			checkBlockchains(t, x, c, o, rng)
		})
	}
	for _, state := range []any{
		registry.Active, registry.Completed, registry.Removed, registry.L1Active, registry.L1Inactive, registry.L1Removed, "delegated",
	} {
		require.Positive(t, seen[state], "histories without %T %v show nothing", state, state)
	}
}

func all(t testing.TB, x *registry.Index, q registry.Query) (found []*registry.Validation, head registry.Head) {
	t.Helper()
	for {
		page, err := x.Validations(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Validations), q.Limit)
		found = append(found, page.Validations...)
		if page.Next == nil {
			return found, page.Head
		}
		require.Len(t, page.Validations, q.Limit)
		q.After, err = registry.ParsePosition(page.Next.Bytes())
		require.NoError(t, err)
		require.Equal(t, page.Next, q.After)
	}
}

func checkValidations(t testing.TB, x *registry.Index, o *oracle, seen map[any]int) {
	t.Helper()
	found, head := all(t, x, registry.Query{Limit: 50})
	require.Equal(t, o.time, head.Time)
	require.True(t, slices.IsSortedFunc(found, func(a, b *registry.Validation) int {
		return -cmp.Or(cmp.Compare(a.Height, b.Height), cmp.Compare(a.Number, b.Number))
	}), "order of creation, newest first")
	for _, v := range found {
		p := o.periods[v.TxID]
		require.NotNil(t, p, "validation %s", v.TxID)
		want := registry.Active
		switch {
		case p.removed:
			want = registry.Removed
		case p.ended:
			want = registry.Completed
		}
		require.Equal(t, want, v.StatusAt(head.Time), "validation %s at height %d", v.TxID, head.Height)
		seen[want]++
		if v.Delegators > 0 {
			seen["delegated"]++
		}
		require.Equal(t, []any{p.subnetID, p.nodeID, p.permissioned}, []any{v.SubnetID, v.NodeID, v.Permissioned})
		require.Equal(t, []uint64{p.delegators, p.delegated, p.all, p.whole}, []uint64{v.Delegators, v.Delegated, v.AllDelegators, v.AllDelegated}, "delegations of %s", v.TxID)
		if want == registry.Active {
			require.Equal(t, []any{p.weight, p.reward, p.end}, []any{v.Weight, v.PotentialReward, v.End}, "validation %s", v.TxID)
		}
		if !v.Permissioned && want == registry.Active {
			require.Equal(t, min(5*v.Weight, 3_000_000_000_000_000)-min(v.Weight+v.Delegated, min(5*v.Weight, 3_000_000_000_000_000)), v.Capacity())
		}
	}
	require.Len(t, found, len(o.periods))
}

func checkL1(t testing.TB, x *registry.Index, o *oracle, rng *rand.Rand, seen map[any]int) {
	t.Helper()
	for _, inactive := range []bool{false, true} {
		want := make(map[ids.ID]*l1Validator)
		for id, v := range o.l1 {
			if v.active || inactive {
				want[id] = v
			}
		}
		q := registry.L1Query{Limit: 1 + rng.IntN(30), Inactive: inactive}
		for {
			page, err := x.L1Validators(t.Context(), q)
			require.NoError(t, err)
			for _, v := range page.Validators {
				p := want[v.ValidationID]
				require.NotNil(t, p, "L1 validator %s, %s", v.ValidationID, v.Status())
				delete(want, v.ValidationID)
				require.Equal(t, []any{p.subnetID, p.nodeID, p.weight, p.nonce, p.balance, p.active, p.removed},
					[]any{v.SubnetID, v.NodeID[:], v.Weight, v.MinNonce, page.Head.Balance(v), v.Status() == registry.L1Active, v.Status() == registry.L1Removed},
					"L1 validator %s at height %d", v.ValidationID, page.Head.Height)
				seen[v.Status()]++
				if rng.IntN(20) == 0 {
					checkRunsOut(t, o, page.Head, v)
					rich := *v
					rich.Ends = page.Head.Accrued + rng.Uint64N(720_000_000_000_000_000)>>rng.IntN(40)
					checkRunsOut(t, o, page.Head, &rich)
				}
			}
			if q.After = page.Next; page.Next == nil {
				break
			}
			require.Len(t, page.Validators, q.Limit)
		}
		require.Empty(t, want, "missing L1 validators")
	}
}

// checkRunsOut requires that the forecast is the last second that the balance pays for.
func checkRunsOut(t testing.TB, o *oracle, head registry.Head, v *registry.L1Validator) {
	t.Helper()
	at, ok := head.RunsOut(v)
	balance := head.Balance(v)
	require.False(t, ok && balance == 0, "an inactive validator runs out")
	if !ok {
		return
	}
	seconds := uint64(at.Unix() - head.Time.Unix())
	require.LessOrEqual(t, o.fees().CostOf(o.config, seconds), balance)
	require.Greater(t, o.fees().CostOf(o.config, seconds+1), balance)
}

func checkBlockchains(t testing.TB, x *registry.Index, c *chain, o *oracle, rng *rand.Rand) {
	t.Helper()
	want := append([]ids.ID{c.genesis.XChainID, c.genesis.CChainID}, o.chains...)
	for _, ascending := range []bool{false, true} {
		var got []ids.ID
		limit, after := 1+rng.IntN(5), (*registry.Place)(nil)
		for {
			page, next, err := x.Blockchains(t.Context(), ascending, limit, after)
			require.NoError(t, err)
			for _, b := range page {
				got = append(got, b.ID)
				one, err := x.Blockchain(t.Context(), b.ID)
				require.NoError(t, err)
				require.Equal(t, b, one)
			}
			if next == nil {
				break
			}
			require.Len(t, page, limit)
			after, err = registry.ParsePlace(next.Bytes())
			require.NoError(t, err)
		}
		if !ascending {
			slices.Reverse(got)
		}
		require.ElementsMatch(t, want[:2], got[:2], "the genesis blockchains are the oldest")
		require.Equal(t, want[2:], got[2:])
	}
	none, err := x.Blockchain(t.Context(), ids.ID{1})
	require.NoError(t, err)
	require.Nil(t, none)
	none, err = x.Blockchain(t.Context(), constants.PrimaryNetworkID)
	require.NoError(t, err)
	require.Nil(t, none, "a subnet is no blockchain")
}

// TestQueries compares pages of every selection and order with a plain filter over all validations.
func TestQueries(t *testing.T) {
	c, config := newChain(t, 9, 1500), libraryConfig()
	s := store.NewMemory()
	defer s.Close()
	projection, x := c.projection(t, config), registry.New(s, network, config)
	var batch store.Batch
	for _, b := range c.blocks {
		require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	every, head := all(t, x, registry.Query{Limit: 100})
	rng := rand.New(rand.NewPCG(9, 9))
	some := func() *registry.Validation { return every[rng.IntN(len(every))] }
	values := map[registry.Sort]func(v *registry.Validation) (float64, bool){
		registry.ByCreation:      func(*registry.Validation) (float64, bool) { return 0, true },
		registry.ByCapacity:      func(v *registry.Validation) (float64, bool) { return float64(v.Capacity()), v.MaxWeight > 0 },
		registry.ByTimeRemaining: func(v *registry.Validation) (float64, bool) { return float64(v.End.Sub(head.Time)), true },
		registry.ByFee:           func(v *registry.Validation) (float64, bool) { return float64(v.Shares), !v.Permissioned },
		registry.ByUptime:        func(v *registry.Validation) (float64, bool) { return float64(v.NodeID[0]), v.NodeID[1]%2 == 0 },
	}
	for range 400 {
		q := registry.Query{Sort: registry.Sort(rng.IntN(5)), Ascending: rng.IntN(2) == 0, Limit: 1 + rng.IntN(9)}
		q.Uptime = values[registry.ByUptime]
		var nodes []ids.NodeID
		if rng.IntN(3) == 0 {
			nodes = append(nodes, some().NodeID, some().NodeID)
			q.NodeIDs = nodes[:1+rng.IntN(2)]
			nodes = q.NodeIDs
		}
		part := ""
		if rng.IntN(4) == 0 {
			part = some().NodeID.String()[9:11]
			q.Names = []string{part}
		}
		if rng.IntN(3) == 0 {
			q.SubnetID = &some().SubnetID
		}
		if q.Sort == registry.ByCreation {
			q.Status = []registry.Status{"", registry.Active, registry.Pending, registry.Completed, registry.Removed}[rng.IntN(5)]
		}
		if rng.IntN(3) == 0 {
			q.Wants = func(v *registry.Validation, now time.Time) bool {
				require.Equal(t, head.Time, now)
				return v.Weight%2 == 0
			}
		}
		var want []*registry.Validation
		for _, v := range every {
			_, has := values[q.Sort](v)
			named := len(nodes) == 0 && part == "" || slices.Contains(nodes, v.NodeID) || part != "" && strings.Contains(v.NodeID.String(), part)
			if named && has && (q.Sort == registry.ByCreation || v.Ended.Time.IsZero()) && (q.SubnetID == nil || *q.SubnetID == v.SubnetID) &&
				(q.Status == "" || q.Status == v.StatusAt(head.Time)) && (q.Wants == nil || q.Wants(v, head.Time)) {
				want = append(want, v)
			}
		}
		slices.SortFunc(want, func(a, b *registry.Validation) int {
			one, _ := values[q.Sort](a)
			other, _ := values[q.Sort](b)
			order := cmp.Or(cmp.Compare(one, other), cmp.Compare(a.Height, b.Height), cmp.Compare(a.Number, b.Number))
			if !q.Ascending {
				return -order
			}
			return order
		})
		got, _ := all(t, x, q)
		require.Equal(t, want, got, "%+v", q)
	}
}

// TestStakeBeyond64Bits has a subnet whose owner gave its validators the largest weights.
func TestStakeBeyond64Bits(t *testing.T) {
	c, config := newChain(t, 9, 1500), libraryConfig()
	for _, b := range c.blocks {
		for _, tx := range b.Txs {
			if added, ok := tx.Unsigned.(*txs.AddSubnetValidatorTx); ok {
				added.Wght = math.MaxUint64
			}
		}
	}
	s := store.NewMemory()
	defer s.Close()
	projection, x := c.projection(t, config), registry.New(s, network, config)
	most := new(uint256.Int)
	for _, b := range c.blocks {
		var batch store.Batch
		require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
		require.NoError(t, s.Commit(t.Context(), &batch))
		if len(b.Txs) == 0 || !slices.ContainsFunc(b.Txs, func(tx *txs.Tx) bool { _, ok := tx.Unsigned.(*txs.AddSubnetValidatorTx); return ok }) {
			continue
		}
		page, err := x.Validations(t.Context(), registry.Query{Status: registry.Active, Limit: 10_000})
		require.NoError(t, err)
		want := make(map[ids.ID]uint256.Int)
		for _, v := range page.Validations {
			sum := want[v.SubnetID]
			sum.Add(&sum, uint256.NewInt(v.Weight)).Add(&sum, uint256.NewInt(v.Delegated))
			want[v.SubnetID] = sum
			if sum.Gt(most) {
				most.Set(&sum)
			}
		}
		require.Equal(t, want, page.Staked)
	}
	require.False(t, most.IsUint64(), "%s", most)
}

// TestPositions requires that bytes that are no position are refused.
func TestPositions(t *testing.T) {
	for _, b := range [][]byte{nil, {1}, make([]byte, 13), make([]byte, 21)} {
		_, err := registry.ParsePosition(b)
		require.ErrorIs(t, err, index.ErrPosition)
		_, err = registry.ParsePlace(b)
		require.ErrorIs(t, err, index.ErrPosition)
		if b != nil {
			_, err = registry.New(store.NewMemory(), network, feeConfig).L1Validators(t.Context(), registry.L1Query{Limit: 1, After: b})
			require.ErrorIs(t, err, index.ErrPosition)
		}
	}
}
