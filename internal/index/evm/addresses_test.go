package evm_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// native returns the transactions from or to an address.
func (p *past) native(tip uint64, q *evm.WalletQuery) (all []evm.Transaction) {
	for _, tx := range p.latest(tip, nil) {
		if within(tx.Block.Number, q) && (tx.From == q.Wallet || tx.Recipient == q.Wallet) {
			all = append(all, tx)
		}
	}
	return all
}

// believed returns the transfers from or to a wallet, of contracts that follow the standard.
func (p *past) believed(tip uint64, q *evm.WalletQuery) (all []evm.TokenTransfer) {
	for _, t := range p.transfers {
		if t.Block.Number <= tip && within(t.Block.Number, q) && standards[t.Contract] == t.Standard && (t.From == q.Wallet || t.To == q.Wallet) {
			all = append(all, t)
		}
	}
	return all
}

func (p *past) interactions(tip uint64, q *evm.InteractionQuery) (all []evm.TransactionDetails) {
	transfers, internals := make(map[common.Hash][]evm.TokenTransfer), make(map[common.Hash][]evm.Internal)
	for _, t := range p.believed(tip, &q.WalletQuery) {
		transfers[t.TxHash] = append(transfers[t.TxHash], t)
	}
	for _, i := range slices.Backward(p.internals(tip, &q.WalletQuery)) {
		internals[i.TxHash] = append(internals[i.TxHash], i)
	}
	for _, tx := range p.latest(tip, nil) {
		d := evm.TransactionDetails{Transaction: tx, Transfers: transfers[tx.Hash], Internals: internals[tx.Hash]}
		if within(tx.Block.Number, &q.WalletQuery) && (tx.From == q.Wallet || tx.Recipient == q.Wallet || len(d.Transfers)+len(d.Internals) > 0) {
			all = append(all, d)
		}
	}
	if q.Oldest {
		slices.Reverse(all)
	}
	return all
}

func (w *world) checkNative(q evm.WalletQuery, between func(), what string) {
	w.t.Helper()
	want := w.native(w.tip(), &q)
	got := all(w.t, between, func(after []byte) ([]evm.Transaction, []byte, int) {
		q.After = after
		p, err := w.record.NativeTransactions(w.t.Context(), q)
		require.NoError(w.t, err)
		return p.Transactions, p.Next, q.Limit
	})
	require.Equal(w.t, want, got, what)
}

func (w *world) checkTransfers(standard chain.Standard, q evm.WalletQuery, between func(), what string) {
	w.t.Helper()
	want := slices.DeleteFunc(w.believed(w.tip(), &q), func(t evm.TokenTransfer) bool { return t.Standard != standard })
	slices.Reverse(want)
	got := all(w.t, between, func(after []byte) ([]evm.TokenTransfer, []byte, int) {
		q.After = after
		p, err := w.record.TokenTransfers(w.t.Context(), standard, q)
		require.NoError(w.t, err)
		return p.Transfers, p.Next, q.Limit
	})
	require.Len(w.t, got, len(want), what)
	for i := range got {
		require.Equal(w.t, want[i], got[i], what)
	}
}

// checkContractTransfers compares the transfers of a contract with those of the replay, newest first.
func (w *world) checkContractTransfers(q evm.WalletQuery, between func(), what string) {
	w.t.Helper()
	var want []evm.TokenTransfer
	for _, t := range slices.Backward(w.past.transfers) {
		if t.Block.Number <= w.tip() && within(t.Block.Number, &q) && t.Contract == q.Wallet && standards[t.Contract] == t.Standard {
			want = append(want, t)
		}
	}
	got := all(w.t, between, func(after []byte) ([]evm.TokenTransfer, []byte, int) {
		q.After = after
		p, err := w.record.ContractTransfers(w.t.Context(), q)
		require.NoError(w.t, err)
		return p.Transfers, p.Next, q.Limit
	})
	require.Equal(w.t, want, got, what)
}

func (w *world) checkInteractions(q evm.InteractionQuery, between func(), what string) {
	w.t.Helper()
	if q.Oldest {
		between = func() {} // new blocks would be part of the last page
	}
	want := w.interactions(w.tip(), &q)
	got := all(w.t, between, func(after []byte) ([]evm.TransactionDetails, []byte, int) {
		q.After = after
		p, err := w.record.Interactions(w.t.Context(), q)
		require.NoError(w.t, err)
		for i := range p.Transactions {
			if d := &p.Transactions[i]; len(d.Transfers) == 0 {
				d.Transfers = nil
			}
		}
		return p.Transactions, p.Next, q.Limit
	})
	require.Equal(w.t, want, got, "%s, oldest first %t", what, q.Oldest)
}

// TestTransactionsOfAddresses compares the lists of all addresses with a replay, after random histories with and without
// call traces.
//
//test:plain
func TestTransactionsOfAddresses(t *testing.T) {
	for seed := range uint64(6) {
		p := newPast(seed, pastOptions{blocks: 120, untraced: func(number uint64) bool { return seed%2 == 1 && number%7 < 3 }})
		engines(t, func(t *testing.T, s store.Store) {
			w := newWorld(t, p, s)
			w.advance(len(p.blocks))
			for _, who := range slices.Concat(p.wallets, p.contracts, p.created) {
				for _, limit := range []int{1, 3, 1000} {
					q, what := evm.WalletQuery{Wallet: who, Limit: limit}, fmt.Sprintf("%s by %d", who, limit)
					w.checkNative(q, func() {}, what)
					w.checkTransfers(chain.ERC20, q, func() {}, what)
					w.checkTransfers(chain.ERC721, q, func() {}, what)
					w.checkContractTransfers(q, func() {}, what)
					w.checkInteractions(evm.InteractionQuery{WalletQuery: q}, func() {}, what)
					w.checkInteractions(evm.InteractionQuery{WalletQuery: q, Oldest: true}, func() {}, what)
				}
			}
		})
	}
}

// TestManyTransfers has an address with more transfers than a page of transactions may have.
func TestManyTransfers(t *testing.T) {
	wallet := address(1)
	var blocks []*chain.Block
	for number := range uint64(8) {
		b := &chain.Block{Number: number, Time: number, Hash: common.Hash{1, byte(number)}, Traced: true}
		tx := chain.Transaction{Success: true, From: wallet, To: &coin, Hash: common.Hash{2, byte(number)}}
		for i := range uint32([]int{11_000, 1, 6000, 6000, 0, 3, 10_001, 2}[number]) {
			amount := [32]byte{31: 1}
			tx.Logs = append(tx.Logs, chain.Log{Index: i, Address: coin, Topics: []common.Hash{topicTransfer, topicOf(wallet), topicOf(address(2))}, Data: amount[:]})
		}
		b.Transactions = []chain.Transaction{tx}
		blocks = append(blocks, b)
	}
	w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
	w.advance(len(blocks))
	for _, oldest := range []bool{false, true} {
		var counts []int
		q := evm.InteractionQuery{WalletQuery: evm.WalletQuery{Wallet: wallet, Limit: 5}, Oldest: oldest}
		for {
			p, err := w.record.Interactions(t.Context(), q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(p.Transactions), 5)
			for i := range p.Transactions {
				counts = append(counts, len(p.Transactions[i].Transfers))
			}
			if q.After = p.Next; q.After == nil {
				break
			}
		}
		want := []int{2, 10_001, 3, 0, 6000, 6000, 1, 11_000}
		if oldest {
			slices.Reverse(want)
		}
		require.Equal(t, want, counts)
	}
}

// multiTransfers returns a log of n ERC-1155 transfers of one token to a wallet.
func multiTransfers(index uint32, to common.Address, n uint64) chain.Log {
	words := []uint64{64, 64 + 32*(n+1), n}
	for range n {
		words = append(words, 7)
	}
	words = append(words, n)
	for range n {
		words = append(words, 1)
	}
	l := chain.Log{Index: index, Address: multi, Topics: []common.Hash{topicBatch, {}, {}, topicOf(to)}}
	for _, word := range words {
		b := uint256.NewInt(word).Bytes32()
		l.Data = append(l.Data, b[:]...)
	}
	return l
}

// TestManyMultiTransfers has an address with transactions of thousands of ERC-1155 transfers, in one log or in a log
// for each: a page reads few rows besides those of its transactions.
//
//test:plain
func TestManyMultiTransfers(t *testing.T) {
	wallet, sender := address(1), address(2)
	// The transfers to the wallet in each log of the transactions of each block, which has another transaction after each.
	history := [][][]uint64{
		{{4000}, {4000}}, {{4000}, {1, 3, 2}, {4000}}, {{4000, 10}},
		{slices.Repeat([]uint64{1}, 12_000), {4000}, {5}},
		{{4000}}, {{30_000}, {1}}, {{4000}}, {{4000}, {4000}},
	}
	var blocks []*chain.Block
	var want []int // transfers of the transactions, oldest first
	for number, txs := range history {
		b := &chain.Block{Number: uint64(number), Time: uint64(number), Hash: common.Hash{1, byte(number)}, Traced: true}
		index := uint32(0)
		add := func(tx chain.Transaction, transfers int) {
			tx.Success, tx.To, tx.Hash = true, &multi, common.Hash{2, byte(number), byte(len(b.Transactions))}
			b.Transactions, want = append(b.Transactions, tx), append(want, transfers)
		}
		for _, logs := range txs {
			tx, sum := chain.Transaction{From: sender}, 0
			for _, n := range logs {
				tx.Logs = append(tx.Logs, multiTransfers(index, wallet, n))
				index, sum = index+1, sum+int(n)
			}
			add(tx, sum)
			add(chain.Transaction{From: wallet}, 0)
		}
		blocks = append(blocks, b)
	}
	s := &counting{Store: store.NewMemory()}
	w := newWorld(t, &past{blocks: blocks}, s)
	w.advance(len(blocks))
	for _, oldest := range []bool{false, true} {
		for _, limit := range []int{1, 2, 10, 100} {
			what := fmt.Sprintf("pages of %d, oldest first %t", limit, oldest)
			var got []int
			var rows []int64 // read for each page
			q := evm.InteractionQuery{WalletQuery: evm.WalletQuery{Wallet: wallet, Limit: limit}, Oldest: oldest}
			for more := true; more; more = q.After != nil {
				s.rows.Store(0)
				p, err := w.record.Interactions(t.Context(), q)
				require.NoError(t, err)
				require.LessOrEqual(t, len(p.Transactions), limit)
				for i := range p.Transactions {
					got = append(got, len(p.Transactions[i].Transfers))
				}
				rows, q.After = append(rows, s.rows.Load()), p.Next
			}
			if !oldest {
				slices.Reverse(got)
			}
			require.Equal(t, want, got, what)
			if limit == 1 { // two transactions, one to return and one to follow, and all transfers of their block
				require.Less(t, rows[0], int64(8100), "rows read for the first of %s", what)
			}
			require.Less(t, slices.Max(rows), int64(80_000), "rows read for a page of %s", what)
		}
	}
}

// TestUnbelievedTransfers has a wallet with far more transfers of contracts that follow no standard
// than of others: no page scans all of them, and the pages together have the others.
func TestUnbelievedTransfers(t *testing.T) {
	const spam = 40_000
	wallet, sender := address(1), address(2)
	amount := [32]byte{31: 1}
	var blocks []*chain.Block
	for number := range uint64(3) {
		tx := chain.Transaction{Success: true, From: sender, To: &coin, Hash: common.Hash{2, byte(number)}}
		transfer := func(contract common.Address, id uint64) {
			tx.Logs = append(tx.Logs, chain.Log{Index: uint32(len(tx.Logs)), Address: contract, Topics: []common.Hash{topicTransfer, topicOf(sender), topicOf(wallet)}, Data: amount[:]})
			tx.Logs = append(tx.Logs, chain.Log{Index: uint32(len(tx.Logs)), Address: contract, Topics: []common.Hash{topicTransfer, topicOf(sender), topicOf(wallet), common.BigToHash(new(big.Int).SetUint64(id))}})
		}
		if number == 1 {
			for i := range uint64(spam) {
				transfer(common.BigToAddress(new(big.Int).SetUint64(1<<40+i)), i)
			}
		} else {
			transfer(coin, number)
		}
		blocks = append(blocks, &chain.Block{Number: number, Time: number, Hash: common.Hash{1, byte(number)}, Traced: true, Transactions: []chain.Transaction{tx}})
	}
	w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
	w.advance(len(blocks))
	list := func(want, pages int, read func(after []byte) (n int, next []byte, err error)) {
		t.Helper()
		found, pagesRead := 0, 0
		for after := []byte(nil); pagesRead == 0 || after != nil; pagesRead++ {
			n, next, err := read(after)
			require.NoError(t, err)
			found, after = found+n, next
		}
		require.Equal(t, want, found)
		require.GreaterOrEqual(t, pagesRead, pages)
	}
	list(2, 3, func(after []byte) (int, []byte, error) {
		p, err := w.record.TokenTransfers(t.Context(), chain.ERC20, evm.WalletQuery{Wallet: wallet, Limit: 10, After: after})
		return len(p.Transfers), p.Next, err
	})
	list(0, 3, func(after []byte) (int, []byte, error) {
		p, err := w.record.TokenTransfers(t.Context(), chain.ERC721, evm.WalletQuery{Wallet: wallet, Limit: 10, After: after})
		return len(p.Transfers), p.Next, err
	})
	list(2, 1, func(after []byte) (int, []byte, error) {
		p, err := w.record.ContractTransfers(t.Context(), evm.WalletQuery{Wallet: coin, Limit: 10, After: after})
		return len(p.Transfers), p.Next, err
	})
	list(1, 3, func(after []byte) (int, []byte, error) {
		p, err := w.record.TokenSums(t.Context(), evm.TokenSumQuery{Wallet: wallet, Limit: 10, After: after})
		return len(p.Sums), p.Next, err
	})
	list(0, 3, func(after []byte) (int, []byte, error) {
		p, err := w.record.Holdings(t.Context(), evm.HoldingQuery{Wallet: wallet, Limit: 10, After: after})
		return len(p.Tokens), p.Next, err
	})
}

// TestOptional turns the index on and off: lists cover the blocks since it was turned on last.
func TestOptional(t *testing.T) {
	p := newPast(3, pastOptions{first: 10, blocks: 60})
	engines(t, func(t *testing.T, s store.Store) {
		w := newWorld(t, p, s)
		on := testProjection
		off := func() *evm.Projection { return evm.NewProjection(network, chainID) }
		requireFirst := func(first uint64) {
			t.Helper()
			q := evm.WalletQuery{Wallet: address(1), Limit: 10_000}
			native, err := w.record.NativeTransactions(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, first, native.First)
			q.Start = &first
			require.Equal(t, w.native(w.tip(), &q), native.Transactions)
			for _, at := range []uint64{first, w.tip()} {
				sums, err := w.record.TokenSums(t.Context(), evm.TokenSumQuery{Wallet: address(1), At: &at, Limit: 10})
				require.NoError(t, err)
				require.Equal(t, first, sums.First)
				requireSums(t, w.sums(first, at, address(1)), sums.Sums, "from %d", first)
			}
			if before := first - 1; before >= p.blocks[0].Number {
				_, err := w.record.TokenSums(t.Context(), evm.TokenSumQuery{Wallet: address(1), At: &before, Limit: 10})
				require.ErrorIs(t, err, evm.ErrBeforeFirst)
				var later *evm.BeginsLaterError
				require.ErrorAs(t, err, &later)
				require.Equal(t, evm.BeginsLaterError{Index: evm.TokenBalances, First: first}, *later)
			}
		}
		requireOff := func() {
			t.Helper()
			q := evm.WalletQuery{Wallet: address(1), Limit: 10}
			var err *evm.OffError
			_, failed := w.record.NativeTransactions(t.Context(), q)
			require.ErrorAs(t, failed, &err)
			require.Equal(t, evm.AddressTransactions, err.Index)
			_, failed = w.record.TokenTransfers(t.Context(), chain.ERC20, q)
			require.ErrorAs(t, failed, &err)
			_, failed = w.record.ContractTransfers(t.Context(), q)
			require.ErrorAs(t, failed, &err)
			_, failed = w.record.Interactions(t.Context(), evm.InteractionQuery{WalletQuery: q})
			require.ErrorAs(t, failed, &err)
			_, failed = w.record.TokenSums(t.Context(), evm.TokenSumQuery{Wallet: address(1), Limit: 10})
			require.ErrorAs(t, failed, &err)
			require.Equal(t, evm.TokenBalances, err.Index)
			_, failed = w.record.Holdings(t.Context(), evm.HoldingQuery{Wallet: address(1), Limit: 10})
			require.ErrorAs(t, failed, &err)
		}
		w.projection = on()
		w.advance(10)
		requireFirst(10)
		w.projection = on() // a restart
		w.advance(10)
		requireFirst(10)
		w.projection = off()
		w.advance(5)
		requireOff()
		w.projection = on()
		w.advance(10)
		requireFirst(35)
		w.next, w.projection = 0, on() // a rebuild
		w.advance(len(p.blocks))
		requireFirst(10)
	})
}
