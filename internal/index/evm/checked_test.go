package evm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// settling returns blocks of a chain that settles each block with the second one after it. The first early ones cover
// their own receipts.
func settling(first, n, early uint64) []*chain.Block {
	var blocks []*chain.Block
	settled := max(first+early, 1) - 1
	for i := range n {
		b := &chain.Block{Number: first + i, Hash: common.Hash{1, 31: byte(i)}, ParentHash: common.Hash{1, 31: byte(i - 1)}, Time: 1_700_000_000 + i, Traced: true}
		if i >= early {
			var group [][]byte
			for ; settled+3 <= b.Number; settled++ {
				if settled+1 >= first {
					group = append(group, blocks[settled+1-first].Receipts...)
				}
			}
			to := settled
			b.Settled, b.ReceiptsRoot = &to, chain.ReceiptsRoot(group)
			for j := range i % 3 {
				b.Receipts = append(b.Receipts, fmt.Appendf(nil, "receipt %d of block %d", j, b.Number))
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// TestChecked indexes blocks whose receipts later blocks settle, with and without restarts.
func TestChecked(t *testing.T) {
	const n = 40
	checked := func(w *world, height uint64) evm.Checked {
		t.Helper()
		c, ok, err := w.record.Checked(t.Context(), height)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, w.tip(), c.Tip.Number)
		return c
	}
	for _, restarts := range []bool{false, true} {
		for name, change := range map[string]struct {
			first, early uint64
			change       func(blocks []*chain.Block)
			from         uint64
			wrong        *evm.Span
			skips        bool
		}{
			"honest":          {early: 1},
			"since genesis":   {early: 0},
			"an upgrade":      {early: 10},
			"a later first":   {first: 100, early: 5, from: 100},
			"first unsettled": {first: 100, early: 0, from: 100},
			"unchecked":       {early: 1, change: func(b []*chain.Block) { b[20].Unchecked, b[20].Receipts = true, nil }, from: 21},
			"unhashed":        {early: 1, change: func(b []*chain.Block) { b[20].Unhashed = true }, from: 21},
			"unchecked early": {early: 30, change: func(b []*chain.Block) { b[20].Unchecked = true }, from: 21},
			"dropped":         {early: 1, change: func(b []*chain.Block) { b[20].Receipts = b[20].Receipts[:1] }, from: 21, wrong: &evm.Span{From: 20, To: 20}},
			"another root":    {early: 1, change: func(b []*chain.Block) { b[20].ReceiptsRoot = common.Hash{9} }, from: 19, wrong: &evm.Span{From: 18, To: 18}},
			"nonsense":        {early: 1, change: func(b []*chain.Block) { b[20].Settled = &b[25].Number }, from: 21, wrong: &evm.Span{From: 20, To: 20}},
		} {
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				blocks := settling(change.first, n, change.early)
				if change.change != nil {
					change.change(blocks)
				}
				w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
				for !w.done() {
					w.advance(3)
					if restarts {
						w.projection = w.restarted()
					}
				}
				c := checked(w, w.tip()-5)
				require.Equal(t, blocks[n-6].Hash, c.Hash)
				require.True(t, c.SettledKnown)
				require.Equal(t, w.tip()-2, c.Settled)
				require.Equal(t, change.wrong, c.Wrong)
				require.GreaterOrEqual(t, c.From, change.from)
				require.LessOrEqual(t, c.From, change.from+3, "the blocks that were settled together with it")
				rows := 0
				for _, err := range store.Rows(t.Context(), w.store, store.FamilyEVMChecked) {
					require.NoError(t, err)
					rows++
				}
				require.Equal(t, 1+2, rows, "the run, and the receipts that await their root")
			})
		}
	}

	t.Run("an index of an older version", func(t *testing.T) {
		blocks := settling(0, n, 1)
		w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
		w.advance(20)
		require.EqualValues(t, 0, checked(w, 0).From)
		var batch store.Batch
		for row, err := range store.Rows(t.Context(), w.store, store.FamilyEVMChecked) {
			require.NoError(t, err)
			batch.Delete(store.FamilyEVMChecked, row.PK)
		}
		require.NoError(t, w.store.Commit(t.Context(), &batch))
		_, ok, err := w.record.Checked(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, ok, "nothing is known of the blocks")
		w.projection = w.restarted()
		w.advance(n)
		require.EqualValues(t, 20, checked(w, 0).From)
	})

	t.Run("a version without it went on", func(t *testing.T) {
		blocks := settling(0, n, 1)
		w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
		w.advance(10)
		keys := []store.PK{}
		var values [][]byte
		for row, err := range store.Rows(t.Context(), w.store, store.FamilyEVMChecked) {
			require.NoError(t, err)
			keys, values = append(keys, row.PK), append(values, row.V)
		}
		w.advance(10)
		var batch store.Batch
		for row, err := range store.Rows(t.Context(), w.store, store.FamilyEVMChecked) {
			require.NoError(t, err)
			batch.Delete(store.FamilyEVMChecked, row.PK)
		}
		for i := range keys {
			batch.Put(store.FamilyEVMChecked, keys[i], values[i])
		}
		require.NoError(t, w.store.Commit(t.Context(), &batch))
		_, ok, err := w.record.Checked(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, ok)
		w.projection = w.restarted()
		w.advance(n)
		require.EqualValues(t, 20, checked(w, 0).From)
		require.Nil(t, checked(w, 0).Wrong)
	})
}
