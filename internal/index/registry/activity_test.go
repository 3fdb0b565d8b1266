package registry_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/registry"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// expected is what the oracle says about a block.
type expected struct {
	events        []string
	paid          []string // amounts and addresses of rewards
	ended         map[ids.ID]history.Stake
	grown         bool // an ended period is followed by one with a larger stake
	before, after map[ids.ID]uint64
}

func (o *oracle) balances() map[ids.ID]uint64 {
	all := make(map[ids.ID]uint64)
	for id, v := range o.l1 {
		all[id] = v.balance
	}
	return all
}

// expect applies a block and returns the events that its transactions and the change of the oracle's state imply.
func (o *oracle) expect(t *testing.T, b *pchain.Block, made *history.Block) *expected {
	t.Helper()
	e := &expected{before: o.balances()}
	active, removed := make(map[ids.ID]bool), make(map[ids.ID]bool)
	for id, v := range o.l1 {
		active[id], removed[id] = v.active, v.removed
	}
	o.apply(t, b, made)
	e.after = o.balances()
	disabled := make(map[ids.ID]bool)
	transactions := slices.Clone(b.Txs)
	if b.Kind == pchain.Commit && o.last != nil {
		transactions = append(transactions, o.last)
	}
	o.last = b.Proposal
	say := func(kind registry.EventKind, txID, id ids.ID, amount uint64) {
		e.events = append(e.events, fmt.Sprint(kind, txID, id, amount))
	}
	for _, tx := range transactions {
		switch u := tx.Unsigned.(type) {
		case *txs.ConvertSubnetToL1Tx:
			for i, v := range u.Validators {
				say(registry.Staked, tx.ID(), u.Subnet.Append(uint32(i)), v.Balance)
				active[u.Subnet.Append(uint32(i))] = v.Balance > 0
			}
		case *txs.RegisterL1ValidatorTx:
			event, err := pchain.L1EventOf(u)
			require.NoError(t, err)
			id := event.(*pchain.Registration).ValidationID
			say(registry.Staked, tx.ID(), id, u.Balance)
			active[id] = u.Balance > 0
		case *txs.IncreaseL1ValidatorBalanceTx:
			say(registry.BalanceIncreased, tx.ID(), u.ValidationID, u.Balance)
			active[u.ValidationID] = true
		case *txs.DisableL1ValidatorTx:
			if active[u.ValidationID] {
				disabled[u.ValidationID] = true
				e.events = append(e.events, fmt.Sprint(registry.Disabled, tx.ID(), u.ValidationID))
			}
		case txs.ValidatorTx:
			say(registry.Staked, tx.ID(), ids.Empty, 0)
		case txs.DelegatorTx:
			say(registry.Delegated, tx.ID(), ids.Empty, 0)
		case *txs.AddSubnetValidatorTx:
			say(registry.Staked, tx.ID(), ids.Empty, 0)
		}
	}
	for id, v := range o.l1 {
		switch {
		case v.removed && !removed[id]:
			e.events = append(e.events, fmt.Sprint(registry.Retired, id))
		case !v.removed && !v.active && active[id] && !disabled[id]:
			say(registry.Disabled, ids.Empty, id, 0)
		}
	}
	e.ended = make(map[ids.ID]history.Stake)
	for _, id := range made.Ended {
		e.ended[id] = o.staked[id]
	}
	for _, s := range made.Began {
		e.grown = e.grown || e.ended[s.TxID].Weight > 0 && e.ended[s.TxID].Weight < s.Weight
		o.staked[s.TxID] = s
	}
	for _, r := range made.Rewarded {
		for _, raw := range r.UTXOs {
			utxo := new(avax.UTXO)
			_, err := txs.GenesisCodec.Unmarshal(raw, utxo)
			require.NoError(t, err)
			out := utxo.Out.(*secp256k1fx.TransferOutput)
			e.paid = append(e.paid, fmt.Sprint(utxo.AssetID(), out.Amt, out.Addrs))
		}
	}
	return e
}

// TestActivityEqualsReplay compares what each block did to validators, and the balances of L1 validators before and after
// each block, with a plain replay, long after the block was indexed.
//
//test:plain
func TestActivityEqualsReplay(t *testing.T) {
	seen := make(map[any]int)
	for seed := range uint64(4) {
		c := newChain(t, seed, 3000)
		config := libraryConfig()
		if seed%2 == 1 {
			config = feeConfig
		}
		s := store.NewMemory()
		defer s.Close()
		projection, x, o := c.projection(t, config), registry.New(s, network, config), newOracle(config)
		var batch store.Batch
		wants := make(map[uint64]*expected)
		for i, b := range c.blocks {
			require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
			wants[b.Height] = o.expect(t, b, c.made[i])
			if i%7 == 0 || i+1 == len(c.blocks) {
				require.NoError(t, s.Commit(t.Context(), &batch))
				batch.Reset()
				if i%97 < 7 {
					projection = c.projection(t, config)
				}
			}
		}
		for _, b := range c.blocks[1:] {
			checkActivity(t, x, wants[b.Height], b.Height, seen)
		}
	}
	for kind := registry.Staked; kind <= registry.Retired; kind++ {
		require.Positive(t, seen[kind], "histories without events of kind %d show nothing", kind)
	}
	for _, role := range []ledger.Role{ledger.ValidationReward, ledger.DelegationReward, ledger.Commission} {
		require.Positive(t, seen[role], "histories without payments of role %d show nothing", role)
	}
	require.Positive(t, seen["used up"])
	require.Positive(t, seen["grown"])
}

// TestActivityBeyondLastBlock asks an index for a block that it does not have yet, as a server that lags is asked.
func TestActivityBeyondLastBlock(t *testing.T) {
	c := newChain(t, 1, 100)
	s := store.NewMemory()
	defer s.Close()
	projection, x := c.projection(t, libraryConfig()), registry.New(s, network, libraryConfig())
	var batch store.Batch
	for _, b := range c.blocks {
		require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	last := c.blocks[len(c.blocks)-1].Height
	a, err := x.Activity(t.Context(), last)
	require.NoError(t, err)
	_, _, err = x.Balances(t.Context(), a, nil)
	require.NoError(t, err)
	a.Height++
	want := fmt.Sprintf("at height %d: its last block is %d", last+1, last)
	_, err = x.Activity(t.Context(), a.Height)
	require.ErrorContains(t, err, want)
	_, _, err = x.Balances(t.Context(), a, nil)
	require.ErrorContains(t, err, want)
}

func checkActivity(t *testing.T, x *registry.Index, want *expected, height uint64, seen map[any]int) {
	t.Helper()
	a, err := x.Activity(t.Context(), height)
	require.NoError(t, err)
	var events, paid []string
	for _, e := range a.Events {
		seen[e.Kind]++
		switch {
		case e.Kind == registry.Paid:
			require.NotEmpty(t, e.Payments)
			s := want.ended[e.StakingTxID]
			require.Equal(t, []any{s.NodeID, s.Delegator, s.Weight, s.Start, s.End}, []any{e.NodeID, e.Delegator, e.Weight, e.Start, e.End}, "height %d", height)
			if want.grown {
				seen["grown"]++
			}
			for _, p := range e.Payments {
				seen[p.Role]++
				paid = append(paid, fmt.Sprint(p.AssetID, p.Amount, p.Addresses))
			}
		case e.Kind == registry.Retired:
			require.NotEmpty(t, e.TxID)
			require.LessOrEqual(t, e.Amount, want.before[e.ValidationID])
			events = append(events, fmt.Sprint(e.Kind, e.ValidationID))
		case e.Kind == registry.Disabled && e.TxID != ids.Empty:
			events = append(events, fmt.Sprint(e.Kind, e.TxID, e.ValidationID))
		default:
			if e.Kind == registry.Disabled {
				seen["used up"]++
			}
			events = append(events, fmt.Sprint(e.Kind, e.TxID, e.ValidationID, e.Amount))
		}
	}
	require.ElementsMatch(t, want.events, events, "height %d", height)
	require.ElementsMatch(t, want.paid, paid, "height %d", height)
	if a.Time.IsZero() {
		require.Equal(t, want.before, want.after, "height %d", height)
		return
	}
	all := slices.SortedFunc(maps.Keys(want.after), ids.ID.Compare)
	before, after, err := x.Balances(t.Context(), a, all)
	require.NoError(t, err)
	for i, id := range all {
		require.Equal(t, []uint64{want.before[id], want.after[id]}, []uint64{before[i], after[i]}, "L1 validator %s at height %d", id, height)
	}
}
