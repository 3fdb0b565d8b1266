package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// TestNothingIsConsumedTwice consumes an output twice, one created on the chain and one imported: in one block, in one
// batch, after a commit and after a restart. Applying the same block again succeeds.
func TestNothingIsConsumedTwice(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	own := made(ids.ID{1}, 0, chain.Output{Kind: chain.Transfer, Role: chain.Ordinary, AssetID: ids.ID{9}, Amount: 5, Addresses: []ids.ShortID{{1}}, Threshold: 1, DestinationID: pChain})
	for name, in := range map[string]chain.Input{
		"own":      {OutputID: own.ID, SourceChainID: pChain, AssetID: ids.ID{9}, Amount: 5},
		"imported": {OutputID: ids.ID{7}, SourceChainID: xChain, AssetID: ids.ID{9}, Amount: 5},
	} {
		t.Run(name, func(t *testing.T) {
			first := &chain.Block{ChainID: pChain, Time: at, ID: ids.ID{100}, Txs: []chain.Tx{{ID: ids.ID{1}, Made: []chain.Output{own}}}}
			spending := func(height uint64, txs ...byte) *chain.Block {
				b := &chain.Block{ChainID: pChain, Height: height, Time: at, ID: ids.ID{100, byte(height)}}
				for _, tx := range txs {
					b.Txs = append(b.Txs, chain.Tx{ID: ids.ID{tx}, Consumed: []chain.Input{in}})
				}
				return b
			}
			begin := func() (store.Store, *ledger.Projection) {
				s, projection := store.NewMemory(), ledger.NewProjection(network, pChain)
				apply(t, s, projection, first)
				return s, projection
			}
			s, projection := begin()
			require.ErrorIs(t, projection.Apply(t.Context(), s, spending(1, 20, 21), new(store.Batch)), ledger.ErrSpent, "in one block")

			s, projection = begin()
			var batch store.Batch
			require.NoError(t, projection.Apply(t.Context(), s, spending(1, 20), &batch))
			require.ErrorIs(t, projection.Apply(t.Context(), s, spending(2, 21), &batch), ledger.ErrSpent, "in one batch")

			s, projection = begin()
			apply(t, s, projection, spending(1, 20))
			require.ErrorIs(t, projection.Apply(t.Context(), s, spending(2, 21), new(store.Batch)), ledger.ErrSpent, "after a commit")
			again := ledger.NewProjection(network, pChain)
			require.ErrorContains(t, again.Apply(t.Context(), s, spending(2, 21), new(store.Batch)), ids.ID{20}.String(), "after a restart")
			again = ledger.NewProjection(network, pChain)
			require.NoError(t, again.Apply(t.Context(), s, spending(1, 20), new(store.Batch)), "the same block again")
		})
	}
}

// TestBalancesBelowZero reads a ledger that lacks received outputs and requires an error.
func TestBalancesBelowZero(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	s, projection := store.NewMemory(), ledger.NewProjection(network, pChain)
	owner := ids.ShortID{1}
	own := made(ids.ID{1}, 0, chain.Output{Kind: chain.Transfer, Role: chain.Ordinary, AssetID: ids.ID{9}, Amount: 5, Addresses: []ids.ShortID{owner}, Threshold: 1, DestinationID: pChain})
	apply(t, s, projection, &chain.Block{ChainID: pChain, Time: at, ID: ids.ID{100}, Txs: []chain.Tx{{ID: ids.ID{1}, Made: []chain.Output{own}}}})
	var received []store.Entry
	for row, err := range store.Rows(t.Context(), s, store.FamilyBalanceEvent) {
		require.NoError(t, err)
		received = append(received, row)
	}
	require.Len(t, received, 1)
	apply(t, s, projection, &chain.Block{ChainID: pChain, Height: 1, Time: at.Add(time.Minute), ID: ids.ID{101}, Txs: []chain.Tx{{
		ID: ids.ID{2}, Consumed: []chain.Input{{OutputID: own.ID, SourceChainID: pChain, AssetID: ids.ID{9}, Amount: 5}},
	}}})
	record := ledger.New(s, network)
	balances, _, err := record.Balances(t.Context(), pChain, []ids.ShortID{owner}, time.Time{})
	require.NoError(t, err)
	require.Empty(t, balances)

	var batch store.Batch
	batch.Delete(store.FamilyBalanceEvent, received[0].PK)
	for row, err := range store.Rows(t.Context(), s, store.FamilyBalanceCheckpoint) {
		require.NoError(t, err)
		batch.Delete(store.FamilyBalanceCheckpoint, row.PK)
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	_, _, err = record.Balances(t.Context(), pChain, []ids.ShortID{owner}, time.Time{})
	require.ErrorIs(t, err, ledger.ErrNegative)
}
