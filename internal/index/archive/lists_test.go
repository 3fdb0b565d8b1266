package archive_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/archive"
	"quorate/internal/index/lookup"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// The list of each node has the blocks whose envelopes it signed.
func TestProposedBlocks(t *testing.T) {
	s := newStored(t)
	for _, chain := range []history.Chain{history.P, history.X} {
		all, c := s.blocks[chain], s.chains[chain]
		truth := make(map[ids.NodeID][]*history.Block)
		for _, b := range slices.Backward(all) {
			if around, err := proposer.ParseWithoutVerification(b.Container); err == nil {
				if signed, ok := around.(proposer.SignedBlock); ok && signed.Proposer() != ids.EmptyNodeID {
					truth[signed.Proposer()] = append(truth[signed.Proposer()], b)
				}
			}
		}
		require.Greater(t, len(truth), 2, chain)
		truth[ids.NodeID{1}] = nil
		middle, late := all[len(all)/3].Time, all[len(all)*2/3].Time
		for by, blocks := range truth {
			for _, q := range []archive.Query{
				{Limit: 1}, {Limit: 7}, {Limit: 1000}, {Limit: 3, After: middle}, {Limit: 2, Before: late}, {Limit: 3, After: middle, Before: late},
				{Limit: 3, After: late, Before: middle},
			} {
				var want, got []uint64
				for _, b := range blocks {
					if (q.After.IsZero() || b.Time.After(q.After)) && (q.Before.IsZero() || b.Time.Before(q.Before)) {
						want = append(want, b.Height)
					}
				}
				q.Proposer, q.Tip = by, uint64(len(all)-1)
				for more := true; more; {
					var page []*archive.Block
					var err error
					page, more, err = c.Blocks(t.Context(), q)
					require.NoError(t, err)
					require.LessOrEqual(t, len(page), q.Limit)
					for _, b := range page {
						require.Equal(t, by, b.Envelope.Proposer)
						got = append(got, b.Number)
						q.Below = &b.Number
					}
				}
				require.Equal(t, want, got, "%s %s %+v", chain, by, q)
			}
		}
	}
}

// The list of each asset has the transactions that move its outputs by the generator.
func TestAssetTxs(t *testing.T) {
	s := newStored(t)
	all, c := s.blocks[history.X], s.chains[history.X]
	moved := make(map[ids.ID]map[ids.ID]bool)
	of := func(asset, tx ids.ID) {
		if moved[asset] == nil {
			moved[asset] = make(map[ids.ID]bool)
		}
		moved[asset][tx] = true
	}
	for o := range s.truth.Outputs() {
		of(o.AssetID, o.TxID)
		if o.Spent != nil {
			of(o.AssetID, o.Spent.TxID)
		}
	}
	moved[ids.ID{1}] = nil
	rows := 0
	for asset, txs := range moved {
		for _, q := range []archive.TxQuery{
			{Limit: 1}, {Limit: 3}, {Limit: 1000}, {Limit: 2, After: all[len(all)/2].Time.Add(-time.Second)}, {Limit: 2, Before: all[len(all)/2].Time},
			{Limit: 2, Kinds: []ledger.Kind{"OperationTx", "ImportTx"}}, {Limit: 1, Kinds: []ledger.Kind{"nothing"}},
		} {
			var want []ids.ID
			for _, b := range all[1:] {
				if !q.After.IsZero() && !b.Time.After(q.After) || !q.Before.IsZero() && !b.Time.Before(q.Before) {
					continue
				}
				for _, tx := range b.Txs {
					if !txs[tx.ID] {
						continue
					}
					read, err := c.Tx(t.Context(), tx.ID, uint64(len(all)))
					require.NoError(t, err)
					if len(q.Kinds) == 0 || slices.Contains(q.Kinds, read.Kind) {
						want = append(want, tx.ID)
					}
				}
			}
			rows += len(want)
			for _, ascending := range []bool{true, false} {
				q.Asset, q.Ascending, q.Tip, q.From = asset, ascending, uint64(len(all)-1), nil
				var got []ids.ID
				for {
					page, err := c.Txs(t.Context(), q)
					require.NoError(t, err)
					require.LessOrEqual(t, len(page.Txs), q.Limit)
					for _, tx := range page.Txs {
						got = append(got, tx.ID)
					}
					if q.From = page.Next; q.From == nil {
						break
					}
				}
				if !ascending {
					slices.Reverse(got)
				}
				require.Equal(t, want, got, "%s %+v", asset, q)
			}
		}
	}
	require.Greater(t, rows, 100)
	t.Logf("%d assets, %d transactions in lists", len(moved), rows)
}

// A store that an older version began has no lists.
func TestNoLists(t *testing.T) {
	s := newStored(t)
	var b store.Batch
	b.Put(store.FamilyMeta, store.PK{P: []byte("form/lookup")}, []byte("4"))
	b.Put(store.FamilyMeta, store.PK{P: []byte("form/lookup/since")}, []byte("3"))
	require.NoError(t, s.store.Commit(t.Context(), &b))
	_, _, err := s.chains[history.P].Blocks(t.Context(), archive.Query{Tip: 5, Limit: 1, Proposer: ids.NodeID{1}})
	require.ErrorIs(t, err, lookup.ErrNoLists)
	_, err = s.chains[history.X].Txs(t.Context(), archive.TxQuery{Tip: 5, Limit: 1, Asset: ids.ID{1}})
	require.ErrorIs(t, err, lookup.ErrNoLists)
	_, err = s.chains[history.X].Txs(t.Context(), archive.TxQuery{Tip: 5, Limit: 1, Asset: s.genesis.AVAXAssetID})
	require.NoError(t, err, "the list of AVAX is that of all transactions")
}

// A missing row of a proposer is found if the stored container has the envelope.
func TestProposersAreChecked(t *testing.T) {
	s := newStored(t)
	onP := lookup.PChain(network)
	var batch store.Batch
	for row, err := range store.Rows(t.Context(), s.store, store.FamilyProposed) {
		require.NoError(t, err)
		batch.Delete(store.FamilyProposed, row.PK)
	}
	checked, wrong := 0, 0
	check := func() {
		for _, b := range s.blocks[history.P] {
			if b.Container == nil {
				continue
			}
			parsed, err := pchain.ParseBlock(b.Container)
			require.NoError(t, err)
			require.NoError(t, onP.Check(t.Context(), s.store, parsed, func(string) { wrong++ }))
			if parsed.Envelope != nil && parsed.Envelope.Proposer != ids.EmptyNodeID {
				checked++
			}
		}
	}
	check()
	require.Zero(t, wrong)
	require.NoError(t, s.store.Commit(t.Context(), &batch))
	checked = 0
	check()
	require.Positive(t, wrong)
	require.Equal(t, checked, wrong)
}
