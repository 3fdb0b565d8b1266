package evm_test

import (
	"slices"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// TestBlocks compares the blocks of an index that begins after the genesis block with those that were indexed.
// In rows of an older version it finds only the references.
func TestBlocks(t *testing.T) {
	p := newPast(5, pastOptions{blocks: 200, first: 4_000}) // in two ranges of heights
	for i, b := range p.blocks {
		b.GasLimit, b.GasCost = uint64(8_000_000+i), *uint256.NewInt(uint64(i * i))
		if b.ParentHash = p.hash(); i > 0 {
			b.ParentHash = p.blocks[i-1].Hash
		}
	}
	w := newWorld(t, p, store.NewMemory())
	_, err := w.record.Blocks(t.Context(), evm.BlockQuery{Limit: 1})
	require.ErrorIs(t, err, evm.ErrEmpty)
	w.advance(len(p.blocks))
	var want []evm.Block
	cumulative := uint64(0)
	for _, b := range p.blocks {
		one := evm.Block{BlockRef: ref(b), ParentHash: b.ParentHash, GasLimit: b.GasLimit, GasCost: b.GasCost, Transactions: uint64(len(b.Transactions))}
		for _, tx := range b.Transactions {
			one.GasUsed += tx.GasUsed
			for range tx.GasUsed % 64 { // the product without Mul
				one.Fees.Add(&one.Fees, &tx.GasPrice)
			}
			high := new(uint256.Int).Lsh(&tx.GasPrice, 6)
			for range tx.GasUsed / 64 {
				one.Fees.Add(&one.Fees, high)
			}
		}
		cumulative += one.Transactions
		one.Cumulative = cumulative
		want = append(want, one)
	}
	for _, one := range want {
		got, err := w.record.Block(t.Context(), one.Number)
		require.NoError(t, err)
		require.Equal(t, &one, got)
	}
	_, err = w.record.Block(t.Context(), 3_999)
	require.ErrorIs(t, err, evm.ErrBeforeFirst)
	_, err = w.record.Block(t.Context(), 4_200)
	require.ErrorIs(t, err, evm.ErrBeyondTip)
	slices.Reverse(want)
	for _, limit := range []int{1, 7, 200, 300} {
		var got []evm.Block
		q := evm.BlockQuery{Limit: limit}
		for pages := 0; pages == 0 || q.After != nil; pages++ {
			page, err := w.record.Blocks(t.Context(), q)
			require.NoError(t, err)
			got, q.After = append(got, page.Blocks...), page.Next
		}
		require.Equal(t, want, got, limit)
	}
	for _, bad := range [][]byte{{}, {1}, make([]byte, 8), make([]byte, 9)} {
		_, err := w.record.Blocks(t.Context(), evm.BlockQuery{Limit: 1, After: bad})
		require.ErrorIs(t, err, index.ErrPosition, "%x", bad)
	}
	_, err = w.record.Blocks(t.Context(), evm.BlockQuery{Limit: 1, After: []byte{7: 255, 6: 255}})
	require.ErrorIs(t, err, index.ErrViewBehind)

	// Rows of an older version end with the reference.
	var batch store.Batch
	for one, err := range store.Rows(t.Context(), w.store, store.FamilyEVMBlock) {
		require.NoError(t, err)
		batch.Put(store.FamilyEVMBlock, one.PK, evm.OldBlockRow(one.V))
	}
	require.NoError(t, w.store.Commit(t.Context(), &batch))
	_, err = w.record.Block(t.Context(), 4_100)
	require.ErrorIs(t, err, evm.ErrNoBlocks)
	_, err = w.record.Blocks(t.Context(), evm.BlockQuery{Limit: 1})
	require.ErrorIs(t, err, evm.ErrNoBlocks)
	at := uint64(4_100)
	_, err = w.record.Balances(t.Context(), evm.BalanceQuery{At: &at, Limit: 1})
	require.NoError(t, err)
}

// A page is refused if its view lacks the block of the page before: the blocks between would be missing.
func TestPagesOfStandbys(t *testing.T) {
	p := newPast(5, pastOptions{blocks: 40})
	ahead, behind := newWorld(t, p, store.NewMemory()), newWorld(t, p, store.NewMemory())
	ahead.advance(len(p.blocks))
	last := len(p.blocks) - 1
	for len(p.blocks[last].Transactions) == 0 {
		last--
	}
	behind.advance(last)
	wallet := p.blocks[last].Transactions[len(p.blocks[last].Transactions)-1].From
	for name, page := range map[string]func(x *evm.Index, after []byte) ([]byte, error){
		"blocks": func(x *evm.Index, after []byte) ([]byte, error) {
			page, err := x.Blocks(t.Context(), evm.BlockQuery{Limit: 1, After: after})
			if err != nil {
				return nil, err
			}
			return page.Next, nil
		},
		"transactions": func(x *evm.Index, after []byte) ([]byte, error) {
			page, err := x.Latest(t.Context(), evm.LatestQuery{Limit: 1, After: after})
			if err != nil {
				return nil, err
			}
			return page.Next, nil
		},
		"transactions of an address": func(x *evm.Index, after []byte) ([]byte, error) {
			q := evm.InteractionQuery{WalletQuery: evm.WalletQuery{Wallet: wallet, Limit: 1, After: after}}
			page, err := x.Interactions(t.Context(), q)
			if err != nil {
				return nil, err
			}
			return page.Next, nil
		},
	} {
		next, err := page(ahead.record, nil)
		require.NoError(t, err, name)
		require.NotNil(t, next, name)
		_, err = page(ahead.record, next)
		require.NoError(t, err, name)
		_, err = page(behind.record, next)
		require.ErrorIs(t, err, index.ErrViewBehind, name)
	}
}
