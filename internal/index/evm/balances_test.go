package evm_test

import (
	"cmp"
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

// sums replays the ERC-20 transfers of a wallet in the blocks from first to last.
func (p *past) sums(first, last uint64, wallet common.Address) (all []evm.TokenSum) {
	sums := make(map[common.Address]*big.Int)
	for _, t := range p.transfers {
		if t.Block.Number < first || t.Block.Number > last || t.Standard != chain.ERC20 || standards[t.Contract] != chain.ERC20 ||
			wallet == (common.Address{}) || t.From != wallet && t.To != wallet {
			continue
		}
		if sums[t.Contract] == nil {
			sums[t.Contract] = new(big.Int)
		}
		if t.From == wallet {
			sums[t.Contract].Sub(sums[t.Contract], t.Amount.ToBig())
		}
		if t.To == wallet {
			sums[t.Contract].Add(sums[t.Contract], t.Amount.ToBig())
		}
	}
	for contract, sum := range sums {
		all = append(all, evm.TokenSum{Contract: contract, Sum: sum})
	}
	slices.SortFunc(all, func(a, b evm.TokenSum) int { return a.Contract.Cmp(b.Contract) })
	return all
}

func requireSums(t *testing.T, want, got []evm.TokenSum, format string, args ...any) {
	t.Helper()
	text := func(sums []evm.TokenSum) (all []string) {
		for _, one := range sums {
			all = append(all, one.Contract.Hex()+" "+one.Sum.String())
		}
		return all
	}
	require.Equal(t, text(want), text(got), format, args)
}

// holdings replays the ERC-721 transfers: a wallet holds the tokens that were last transferred to it.
func (p *past) holdingsOf(tip uint64, q *evm.HoldingQuery) (all []evm.Token) {
	for _, contract := range p.contracts {
		if standards[contract] != chain.ERC721 || q.Contract != nil && contract != *q.Contract {
			continue
		}
		for _, token := range p.tokens(tip, contract, chain.ERC721) {
			if *token.Owner == q.Wallet {
				all = append(all, token)
			}
		}
	}
	slices.SortFunc(all, func(a, b evm.Token) int { return a.Contract.Cmp(b.Contract) })
	return all
}

func (w *world) checkSums(q evm.TokenSumQuery, between func(), what string) {
	w.t.Helper()
	at := w.tip()
	if q.At != nil {
		at = *q.At
	}
	want := slices.DeleteFunc(w.sums(0, at, q.Wallet), func(s evm.TokenSum) bool {
		return len(q.Contracts) > 0 && !slices.Contains(q.Contracts, s.Contract)
	})
	for _, named := range q.Contracts { // a contract without transfers of the wallet has the sum 0
		if standards[named] == chain.ERC20 && !slices.ContainsFunc(want, func(s evm.TokenSum) bool { return s.Contract == named }) {
			want = append(want, evm.TokenSum{Contract: named, Sum: new(big.Int)})
		}
	}
	slices.SortFunc(want, func(a, b evm.TokenSum) int { return a.Contract.Cmp(b.Contract) })
	got := all(w.t, between, func(after []byte) ([]evm.TokenSum, []byte, int) {
		q.After = after
		p, err := w.record.TokenSums(w.t.Context(), q)
		require.NoError(w.t, err)
		require.Equal(w.t, ref(w.at(at)), p.At)
		return p.Sums, p.Next, q.Limit
	})
	requireSums(w.t.(*testing.T), want, got, "%s, at %d", what, at)
}

func (w *world) checkHoldings(q evm.HoldingQuery, what string) {
	w.t.Helper()
	want := w.holdingsOf(w.tip(), &q)
	got := all(w.t, func() {}, func(after []byte) ([]evm.Token, []byte, int) {
		q.After = after
		p, err := w.record.Holdings(w.t.Context(), q)
		require.NoError(w.t, err)
		return p.Tokens, p.Next, q.Limit
	})
	require.Equal(w.t, want, got, what)
}

// TestSums has transfers that are easily added up wrongly.
func TestSums(t *testing.T) {
	a, b, none := address(1), address(2), common.Address{}
	most := new(uint256.Int).SetAllOne()
	type move struct {
		from, to common.Address
		amount   *uint256.Int
	}
	one, five := uint256.NewInt(1), uint256.NewInt(5)
	for name, tt := range map[string]struct {
		blocks [][]move
		a, b   string
	}{
		"mint and burn":               {[][]move{{{none, a, five}}, {{a, none, one}}}, "4", ""},
		"to oneself":                  {[][]move{{{none, a, five}, {a, a, five}}}, "5", ""},
		"to oneself, more than all":   {[][]move{{{a, a, most}}}, "0", ""},
		"twice in a transaction":      {[][]move{{{none, a, five}, {a, b, one}, {a, b, one}}}, "3", "2"},
		"there and back in a block":   {[][]move{{{none, a, five}}, {{a, b, five}, {b, a, five}}}, "5", "0"},
		"the greatest amount":         {[][]move{{{none, a, most}}, {{a, b, most}}, {{b, a, one}}}, "1", new(big.Int).Sub(most.ToBig(), big.NewInt(1)).String()},
		"more than there can be":      {[][]move{{{none, a, most}, {none, a, most}}, {{a, b, most}}}, most.Dec(), most.Dec()},
		"more than was received":      {[][]move{{{none, a, one}}, {{a, b, five}}}, "-4", "5"},
		"the greatest amount, lacked": {[][]move{{{a, b, most}}, {{a, b, most}}}, "-" + new(big.Int).Lsh(most.ToBig(), 1).String(), new(big.Int).Lsh(most.ToBig(), 1).String()},
	} {
		engines(t, func(t *testing.T, s store.Store) {
			var blocks []*chain.Block
			for number, moves := range tt.blocks {
				block := &chain.Block{Number: uint64(number), Time: uint64(number), Hash: common.Hash{1, byte(number)}, Traced: true}
				tx := chain.Transaction{Success: true, From: a, To: &coin, Hash: common.Hash{2, byte(number)}}
				for i, m := range moves {
					amount := m.amount.Bytes32()
					tx.Logs = append(tx.Logs, chain.Log{Index: uint32(i), Address: coin, Topics: []common.Hash{topicTransfer, topicOf(m.from), topicOf(m.to)}, Data: amount[:]})
				}
				block.Transactions = []chain.Transaction{tx}
				blocks = append(blocks, block)
			}
			w := newWorld(t, &past{blocks: blocks}, s)
			w.advance(1)
			w.projection = testProjection()
			w.advance(len(blocks))
			for wallet, want := range map[common.Address]string{a: tt.a, b: tt.b, none: ""} {
				// A contract that is named has a sum also without transfers of the wallet: it may have wrapped.
				named, err := w.record.TokenSums(t.Context(), evm.TokenSumQuery{Wallet: wallet, Limit: 10, Contracts: []common.Address{address(77), coin}})
				require.NoError(t, err)
				require.Len(t, named.Sums, 1, name)
				require.Equal(t, coin, named.Sums[0].Contract)
				require.Equal(t, cmp.Or(want, "0"), named.Sums[0].Sum.String(), "%s: %s", name, wallet)
				page, err := w.record.TokenSums(t.Context(), evm.TokenSumQuery{Wallet: wallet, Limit: 10})
				require.NoError(t, err)
				if want == "" {
					require.Empty(t, page.Sums, name)
					continue
				}
				require.Len(t, page.Sums, 1, name)
				require.Equal(t, want, page.Sums[0].Sum.String(), "%s: %s", name, wallet)
			}
		})
	}
}

// asking counts the contracts of classes.
type asking struct {
	classes
	most int // that one call asked about
}

func (a *asking) Cached(addresses []common.Address) ([]*evm.Contract, bool) {
	a.most = max(a.most, len(addresses))
	return a.classes.Cached(addresses)
}

// TestNamedTokens requires that the index finds tokens that it has never seen if they are named, and asks about few
// contracts for a page, whatever is named.
func TestNamedTokens(t *testing.T) {
	w := newWorld(t, &past{blocks: []*chain.Block{{Number: 0, Hash: common.Hash{1}, Traced: true}}}, store.NewMemory())
	w.advance(1)
	a := new(asking)
	w.record = evm.New(w.store, network, chainID, a)
	named := []common.Address{coin, coin}
	for i := range 200 {
		named = append(named, common.Address{1, 19: byte(i)})
	}
	for _, limit := range []int{1, 10, 150} {
		q, pages := evm.TokenSumQuery{Wallet: address(1), Limit: limit, Contracts: named}, 0
		var got []evm.TokenSum
		for a.most = 0; ; pages++ {
			p, err := w.record.TokenSums(t.Context(), q)
			require.NoError(t, err)
			got = append(got, p.Sums...)
			if q.After = p.Next; p.Next == nil {
				break
			}
		}
		require.Len(t, got, 1)
		require.Equal(t, []any{coin, "0"}, []any{got[0].Contract, got[0].Sum.String()})
		require.LessOrEqual(t, a.most, 25)
		require.LessOrEqual(t, pages, 8)
	}
}

// TestBalancesOfRandomHistories compares the balances of all wallets after all blocks with a replay.
//
//test:plain
func TestBalancesOfRandomHistories(t *testing.T) {
	for seed := range uint64(5) {
		p := newPast(seed, pastOptions{blocks: 100})
		engines(t, func(t *testing.T, s store.Store) {
			w := newWorld(t, p, s)
			for !w.done() {
				w.advance(7)
				if w.next%3 == 0 {
					w.projection = testProjection()
				}
				for _, who := range slices.Concat(p.wallets, p.contracts) {
					w.checkHoldings(evm.HoldingQuery{Wallet: who, Limit: 2}, fmt.Sprintf("tip %d, %s", w.tip(), who))
				}
			}
			for _, who := range slices.Concat(p.wallets, p.contracts) {
				for _, b := range p.blocks {
					w.checkSums(evm.TokenSumQuery{Wallet: who, At: &b.Number, Limit: 1 + int(b.Number)%3}, func() {}, who.Hex())
				}
			}
		})
	}
}
