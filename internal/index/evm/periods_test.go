package evm_test

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// beginOf is Interval.Begin by the calendar of package time.
func beginOf(n evm.Interval, at uint64) uint64 {
	t := time.Unix(int64(at), 0).UTC()
	y, m, d := t.Date()
	switch n {
	case evm.Hourly:
		t = t.Truncate(time.Hour)
	case evm.Weekly:
		for t = time.Date(y, m, d, 0, 0, 0, 0, time.UTC); t.Weekday() != time.Monday; {
			t = t.AddDate(0, 0, -1)
		}
	case evm.Monthly:
		t = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	default:
		t = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	return uint64(t.Unix())
}

// replayed is the sum of the blocks [first, last] of a past in one period, from all of the blocks.
func (p *past) replayed(n evm.Interval, begin, first, last uint64) evm.Period {
	return p.replayedWithin(begin, first, last, func(at uint64) int { return cmp.Compare(beginOf(n, at), begin) })
}

// replayedWithin is the sum of the blocks [first, last] of a past in the span that begins with a time. where compares a
// time with the span: negative means before.
func (p *past) replayedWithin(begin, first, last uint64, where func(at uint64) int) evm.Period {
	sum := evm.Period{Start: begin, Fees: new(big.Int), GasPrices: new(big.Int)}
	all, within, senders := make(map[common.Address]bool), make(map[common.Address]bool), make(map[common.Address]bool)
	type point struct{ gas, txs uint64 }
	points := make(map[uint64]point) // by time in ms
	var times []uint64
	inside := make(map[uint64]bool)
	for _, b := range p.blocks {
		if b.Number < first || b.Number > last || where(b.Time) > 0 {
			continue
		}
		ms := b.Time * 1000
		if b.Milliseconds/1000 == b.Time {
			ms = b.Milliseconds
		}
		if len(times) > 0 {
			ms = max(ms, times[len(times)-1])
		}
		if len(times) == 0 || ms != times[len(times)-1] {
			times = append(times, ms)
		}
		in := where(b.Time) == 0
		inside[ms] = in
		at := points[ms]
		note := func(a common.Address, sends bool) {
			if a == (common.Address{}) {
				return
			}
			all[a] = true
			within[a] = within[a] || in
			senders[a] = senders[a] || in && sends
		}
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			at.gas, at.txs = at.gas+tx.GasUsed, at.txs+1
			sum.AllTransactions++
			note(tx.From, true)
			if tx.To != nil {
				note(*tx.To, false)
			}
			if tx.Success {
				for j := range tx.Logs {
					for _, t := range chain.Transfers(&tx.Logs[j]) {
						note(t.From, true)
						note(t.To, false)
					}
				}
			}
			if !in {
				continue
			}
			sum.Transactions, sum.GasUsed = sum.Transactions+1, sum.GasUsed+tx.GasUsed
			price := tx.GasPrice.ToBig()
			sum.GasPrices.Add(sum.GasPrices, price)
			fee := new(big.Int).Mul(price, new(big.Int).SetUint64(tx.GasUsed))
			if fee.BitLen() > 256 {
				fee.Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
			}
			sum.Fees.Add(sum.Fees, fee)
			if tx.GasPrice.Gt(&sum.MaxGasPrice) {
				sum.MaxGasPrice = tx.GasPrice
			}
		}
		points[ms] = at
	}
	sum.AllAddresses = uint64(len(all))
	for a := range within {
		if within[a] {
			sum.Addresses++
		}
		if senders[a] {
			sum.Senders++
		}
	}
	for i, ms := range times {
		if !inside[ms] || i == 0 {
			continue
		}
		if sum.Elapsed == 0 || ms-times[0] > sum.Elapsed {
			before := times[i-1]
			for j := i - 1; j > 0 && inside[times[j]]; j-- {
				before = times[j-1]
			}
			sum.Elapsed = ms - before
		}
		better := func(amount uint64, than evm.Rate) bool {
			return than.Milliseconds == 0 || float64(amount)/float64(ms-times[i-1]) > float64(than.Amount)/float64(than.Milliseconds)
		}
		if at := points[ms].gas; better(at, sum.MaxGas) {
			sum.MaxGas = evm.Rate{Amount: at, Milliseconds: ms - times[i-1]}
		}
		if at := points[ms].txs; better(at, sum.MaxTransactions) {
			sum.MaxTransactions = evm.Rate{Amount: at, Milliseconds: ms - times[i-1]}
		}
	}
	return sum
}

// spread gives the blocks of a past times with gaps from none to months.
func (p *past) spread(rng *rand.Rand) {
	now := uint64(1_700_000_000_000)
	for _, b := range p.blocks {
		now += []uint64{0, 0, 1, 300, 2000, 50_000, 3_600_000, 40_000_000, 400_000_000, 3_000_000_000}[min(rng.IntN(10), rng.IntN(11))]
		b.Time, b.Milliseconds = now/1000, 0
		if rng.IntN(2) == 0 {
			b.Milliseconds = now
		}
	}
}

// TestPeriods compares all periods of random histories with a replay.
//
//test:plain
func TestPeriods(t *testing.T) {
	for seed := range uint64(6) {
		p := newPast(seed, pastOptions{first: seed % 2 * 17, blocks: 150})
		rng := rand.New(rand.NewPCG(seed, 11))
		p.spread(rng)
		engines(t, func(t *testing.T, s store.Store) {
			w := newWorld(t, p, s)
			for !w.done() {
				w.some(rng)
				if w.next > 0 && rng.IntN(8) == 0 || w.done() {
					w.checkPeriods(p.blocks[0].Number, rng)
				}
			}
		})
	}
}

func (w *world) checkPeriods(first uint64, rng *rand.Rand) {
	w.t.Helper()
	for _, n := range []evm.Interval{evm.Hourly, evm.Daily, evm.Weekly, evm.Monthly} {
		page, err := w.record.Periods(w.t.Context(), evm.PeriodQuery{Interval: n, Limit: 10_000})
		require.NoError(w.t, err)
		require.Equal(w.t, first, page.First)
		require.NotEmpty(w.t, page.Periods)
		tip := w.blocks[w.next-1]
		require.Equal(w.t, beginOf(n, tip.Time), page.Periods[0].Start)
		all := page.Periods
		for i := range all {
			if i > 0 {
				require.Less(w.t, all[i].Start, all[i-1].Start)
				require.Equal(w.t, all[i].Start, beginOf(n, all[i-1].Start-1), "no gaps")
			}
			if i > 0 && i < len(all)-1 && rng.IntN(1+len(all)/40) > 0 {
				continue // comparing all takes long
			}
			want, got := w.replayed(n, all[i].Start, first, tip.Number), all[i]
			if got.Transactions == 0 && got.Elapsed == 0 {
				want.Elapsed, want.MaxGas, want.MaxTransactions = got.Elapsed, got.MaxGas, got.MaxTransactions
			}
			require.Equal(w.t, want.MaxGas.PerSecond(), got.MaxGas.PerSecond(), "%d %d", n, all[i].Start)
			require.Equal(w.t, want.MaxTransactions.PerSecond(), got.MaxTransactions.PerSecond())
			got.MaxGas, got.MaxTransactions = want.MaxGas, want.MaxTransactions
			require.Equal(w.t, fmt.Sprint(want), fmt.Sprint(got))
		}
		// By pages, and between bounds.
		from, before := all[rng.IntN(len(all))].Start+uint64(rng.IntN(2)), all[rng.IntN(len(all))].Start+uint64(rng.IntN(2))
		var selected, read []evm.Period
		for _, one := range all {
			if one.Start >= from && one.Start < before {
				selected = append(selected, one)
			}
		}
		for q := (evm.PeriodQuery{Interval: n, From: &from, Before: &before, Limit: 1 + rng.IntN(40)}); ; {
			page, err := w.record.Periods(w.t.Context(), q)
			require.NoError(w.t, err)
			read = append(read, page.Periods...)
			if !page.More {
				break
			}
			require.Len(w.t, page.Periods, q.Limit)
			last := page.Periods[q.Limit-1].Start
			q.Before = &last
		}
		require.Equal(w.t, fmt.Sprint(selected), fmt.Sprint(read))
	}
}

// TestPeriodsAfterGenesis has a genesis block of time 0, as the C-Chain's is: no period before the first real block.
func TestPeriodsAfterGenesis(t *testing.T) {
	const begun = 1_700_000_000
	w := newWorld(t, &past{blocks: []*chain.Block{
		{Number: 0, Hash: common.Hash{1}, Traced: true},
		{Number: 1, Hash: common.Hash{2}, Traced: true, Time: begun, Transactions: []chain.Transaction{{Success: true, From: address(1), GasUsed: 21_000}}},
		{Number: 2, Hash: common.Hash{3}, Traced: true, Time: begun + 10, Transactions: []chain.Transaction{{Success: true, From: address(1), GasUsed: 21_000}}},
	}}, store.NewMemory())
	w.advance(1)
	page, err := w.record.Periods(t.Context(), evm.PeriodQuery{Interval: evm.Daily, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Periods, 1, "nothing else is there yet")
	w.advance(2)
	page, err = w.record.Periods(t.Context(), evm.PeriodQuery{Interval: evm.Daily, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Periods, 1)
	got := page.Periods[0]
	require.Equal(t, beginOf(evm.Daily, begun), got.Start)
	require.Equal(t, []uint64{2, 42_000, 10_000, 1, 1}, []uint64{got.Transactions, got.GasUsed, got.Elapsed, got.Addresses, got.Senders})
	require.InDelta(t, 2100, got.MaxGas.PerSecond(), 0)
	require.InDelta(t, 0.1, got.MaxTransactions.PerSecond(), 0)
}

// TestPeriodsAtTheEndOfTime has bounds whose interval begins or ends beyond what can be represented.
func TestPeriodsAtTheEndOfTime(t *testing.T) {
	const begun = 1_700_000_000
	w := newWorld(t, &past{blocks: []*chain.Block{
		{Number: 0, Hash: common.Hash{1}, Traced: true},
		{Number: 1, Hash: common.Hash{2}, Traced: true, Time: begun, Transactions: []chain.Transaction{{Success: true, From: address(1), GasUsed: 21_000}}},
	}}, store.NewMemory())
	w.advance(2)
	for _, n := range []evm.Interval{evm.Hourly, evm.Daily, evm.Weekly, evm.Monthly} {
		for _, bound := range []uint64{begun + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 100_000, math.MaxUint64} {
			page, err := w.record.Periods(t.Context(), evm.PeriodQuery{Interval: n, From: &bound, Limit: 10})
			require.NoError(t, err, "%d from %d", n, bound)
			require.Empty(t, page.Periods, "%d from %d", n, bound)
			page, err = w.record.Periods(t.Context(), evm.PeriodQuery{Interval: n, Before: &bound, Limit: 10})
			require.NoError(t, err, "%d before %d", n, bound)
			require.Len(t, page.Periods, 1, "%d before %d", n, bound)
		}
	}
}
