package pchain_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
)

// rows are the stored rows of a state.
type rows map[string][]byte

func (r rows) take(s *pchain.State) {
	for _, row := range s.TakeChanges() {
		if row.Value == nil {
			delete(r, string(row.Key))
		} else {
			r[string(row.Key)] = row.Value
		}
	}
}

func (r rows) load(t testing.TB) *pchain.State {
	t.Helper()
	s, err := pchain.LoadState(func(yield func(pchain.Row) bool) {
		for _, key := range slices.Sorted(maps.Keys(r)) {
			if !yield(pchain.Row{Key: []byte(key), Value: r[key]}) {
				return
			}
		}
	})
	require.NoError(t, err)
	return s
}

// story returns a chain whose blocks leave every kind of state open. A decoder must be able to stop and continue after
// each block.
func story(t testing.TB) (blocks []*pchain.Block, d *pchain.Decoder) {
	t.Helper()
	n := &answers{rewards: make(map[ids.ID][][]byte)}
	d, _, first := newDecoder(t, constants.LocalID, n)
	last, at := first, started
	add := func(seconds int, made func(time.Time) func(ids.ID, uint64) block.Block) {
		at = at.Add(time.Duration(seconds) * time.Second)
		last = made(at)(last.ID(), last.Height()+1)
		blocks = append(blocks, must(pchain.ParseBlock(last.Bytes())))
	}
	plain := func(seconds int, unsigned ...txs.UnsignedTx) {
		var all []*txs.Tx
		for _, tx := range unsigned {
			all = append(all, accepted(tx))
		}
		add(seconds, func(at time.Time) func(ids.ID, uint64) block.Block { return standard(at, all...) })
	}
	blocks = append(blocks, must(pchain.ParseBlock(first.Bytes())))

	all := kinds()
	convert := all["ConvertSubnetToL1Tx"].tx.(*txs.ConvertSubnetToL1Tx)
	for _, v := range convert.Validators {
		v.RemainingBalanceOwner = message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{alice, bob}}
	}
	renewing := accepted(all["AddAutoRenewedValidatorTx"].tx)
	validation := accepted(all["AddPermissionlessValidatorTx"].tx)
	n.rewards[validation.ID()] = [][]byte{reward(validation.ID(), 4, 9, alice)}
	ended := accepted(&txs.RewardValidatorTx{TxID: validation.ID()})
	renewed := accepted(&txs.RewardAutoRenewedValidatorTx{TxID: renewing.ID(), Timestamp: 1})
	n.rewards[renewed.ID()] = [][]byte{reward(renewed.ID(), 0, 9, alice)}
	disable := &txs.DisableL1ValidatorTx{BaseTx: common(), ValidationID: convert.Subnet.Append(0), DisableAuth: &secp256k1fx.Input{}}

	plain(1, convert, renewing.Unsigned, validation.Unsigned)
	plain(3, all["RegisterL1ValidatorTx"].tx)
	plain(3, disable)
	plain(2, &txs.IncreaseL1ValidatorBalanceTx{BaseTx: common(), ValidationID: convert.Subnet.Append(0), Balance: 60})
	for _, p := range []*txs.Tx{ended, renewed} {
		add(2, func(at time.Time) func(ids.ID, uint64) block.Block { return proposal(at, p) })
		add(0, func(at time.Time) func(ids.ID, uint64) block.Block { return option(at, true) })
	}
	plain(1, disable, &txs.SetL1ValidatorWeightTx{BaseTx: common(), Message: managerSays(message.NewL1ValidatorWeight(convert.Subnet.Append(1), 0, 0))})
	plain(1, &txs.SetAutoRenewedValidatorConfigTx{BaseTx: common(), TxID: renewing.ID(), Auth: &secp256k1fx.Input{}})
	add(2, func(at time.Time) func(ids.ID, uint64) block.Block { return proposal(at, renewed) })
	add(0, func(at time.Time) func(ids.ID, uint64) block.Block { return option(at, true) })
	plain(1)
	return blocks, d
}

func TestStateIsKept(t *testing.T) {
	blocks, d := story(t)
	unbroken, kept := pchain.NewState(), make(rows)
	_, begun := unbroken.Height()
	require.False(t, begun)
	refunds := 0
	for i, b := range blocks {
		resumed := kept.load(t)
		want, err := d.Ledger(t.Context(), unbroken, b)
		require.NoError(t, err)
		got, err := d.Ledger(t.Context(), resumed, b)
		require.NoError(t, err)
		require.Equal(t, want, got, "block %d", i)
		kept.take(resumed)
		require.Empty(t, resumed.TakeChanges(), "nothing has changed since")
		height, begun := kept.load(t).Height()
		require.True(t, begun)
		require.Equal(t, b.Height, height)
		for _, tx := range got.Txs {
			if tx.L1Refund > 0 {
				refunds++
			}
		}

		// Taking all changes at once gives the same rows.
		atOnce := make(rows)
		whole := pchain.NewState()
		for _, b := range blocks[:i+1] {
			_, err := d.Ledger(t.Context(), whole, b)
			require.NoError(t, err)
		}
		atOnce.take(whole)
		for key := range atOnce {
			require.Equal(t, atOnce[key], kept[key], "row %x after block %d", key, i)
		}
		require.Len(t, kept, len(atOnce))
	}
	require.Equal(t, 3, refunds, "the chain has refunds that depend on stored rows")
	head, _ := kept.load(t).Height()
	require.Equal(t, uint64(len(blocks)-1), head)
}

func TestUnreadableStates(t *testing.T) {
	blocks, d := story(t)
	s, kept := pchain.NewState(), make(rows)
	for _, b := range blocks[:2] {
		must(d.Ledger(t.Context(), s, b))
	}
	kept.take(s)
	for name, spoil := range map[string]func(rows){
		"no key":             func(r rows) { r[""] = []byte{1} },
		"unknown row":        func(r rows) { r["?"+string(make([]byte, 32))] = []byte{1} },
		"short key":          func(r rows) { r["l123"] = make([]byte, 12) },
		"short account":      func(r rows) { r["l"+string(make([]byte, 32))] = make([]byte, 11) },
		"half an address":    func(r rows) { r["l"+string(make([]byte, 32))] = make([]byte, 12+10) },
		"short staker":       func(r rows) { r["s"+string(make([]byte, 32))] = make([]byte, 50) },
		"long supply":        func(r rows) { r["u"+string(make([]byte, 32))] = make([]byte, 5) },
		"short head":         func(r rows) { r["h"] = r["h"][:63] },
		"a time beyond":      func(r rows) { r["h"] = append(bytes.Clone(r["h"][:40]), bytes.Repeat([]byte{255}, 24)...) },
		"unreadable pending": func(r rows) { r["h"] = append(bytes.Clone(r["h"]), 1, 2, 3) },
		"no head":            func(r rows) { delete(r, "h") },
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := maps.Clone(kept)
			spoil(spoilt)
			_, err := pchain.LoadState(func(yield func(pchain.Row) bool) {
				for key, value := range spoilt {
					if !yield(pchain.Row{Key: []byte(key), Value: value}) {
						return
					}
				}
			})
			require.ErrorIs(t, err, pchain.ErrState)
		})
	}
}

// FuzzLedger decodes any parsable block as a successor. The result must be consistent or an error.
func FuzzLedger(f *testing.F) {
	blocks, _ := story(f)
	for _, b := range blocks {
		f.Add(b.Bytes)
	}
	for _, k := range kinds() {
		f.Add(must(block.NewBanffStandardBlock(started, ids.ID{1}, 9, []*txs.Tx{accepted(k.tx)})).Bytes())
		f.Add(must(block.NewBanffProposalBlock(started, ids.ID{1}, 9, accepted(k.tx), nil)).Bytes())
	}
	ended := accepted(&txs.RewardValidatorTx{TxID: ids.ID{1}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := pchain.ParseBlock(raw)
		if err != nil || b.Height == 0 || b.ParentID == ids.Empty {
			return
		}
		d, _, _ := newDecoder(t, constants.MainnetID, &answers{})
		at := b.Time.Add(-time.Second)
		if b.Time.IsZero() {
			at = started
		}
		if at.Unix() < 0 {
			return // no state has such a time
		}
		var pending *txs.Tx
		if b.Kind == pchain.Commit || b.Kind == pchain.Abort {
			pending = ended
		}
		requireDecoded(t, d, pchain.StateBefore(b, at, pending), b)
		if b.Proposal != nil {
			// Decide its proposal both ways.
			for _, kind := range []pchain.Kind{pchain.Commit, pchain.Abort} {
				answer := &pchain.Block{Kind: kind, Height: b.Height, ParentID: b.ParentID, ID: ids.ID{2}, Time: b.Time}
				requireDecoded(t, d, pchain.StateBefore(answer, at, b.Proposal), answer)
			}
		}
	})
}

func requireDecoded(t *testing.T, d *pchain.Decoder, s *pchain.State, b *pchain.Block) {
	t.Helper()
	got, err := d.Ledger(t.Context(), s, b)
	if err != nil {
		require.ErrorIs(t, err, pchain.ErrTransaction)
		return
	}
	require.Equal(t, b.Height, got.Height)
	for _, tx := range got.Txs {
		require.NotEmpty(t, tx.Kind)
		require.NotEqual(t, ids.Empty, tx.ID)
		for i, out := range tx.Made {
			require.Equal(t, ledger.Transfer, out.Kind)
			require.Equal(t, uint32(i), out.Index)
			require.Equal(t, tx.ID, out.TxID)
			require.NotEmpty(t, out.Bytes)
		}
	}
	kept := make(rows)
	kept.take(s)
	kept.load(t)
}
