package evm_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// hosted are the lengths of the hosted API's windows, in hours.
var hosted = []uint64{1, 24, 7 * 24, 30 * 24, 90 * 24, 365 * 24, 0}

// checkWindows compares windows that end with the last block with a replay. The index begins with block first.
func (w *world) checkWindows(first uint64, rng *rand.Rand) {
	w.t.Helper()
	lengths := append([]uint64{2 + rng.Uint64N(100), 2 + rng.Uint64N(10_000)}, hosted...)
	rng.Shuffle(len(lengths), func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
	got, err := w.record.Windows(w.t.Context(), lengths)
	require.NoError(w.t, err)
	require.Equal(w.t, first, got.First)
	require.Len(w.t, got.Windows, len(lengths))
	tip := w.blocks[w.next-1]
	for i, n := range lengths {
		what := fmt.Sprintf("%d hours up to block %d, from block %d", n, tip.Number, first)
		start := uint64(0)
		if n > 0 {
			end := time.Unix(int64(tip.Time), 0).UTC().Truncate(time.Hour).Add(time.Hour)
			start = uint64(max(end.Add(-time.Duration(n)*time.Hour).Unix(), 0))
		}
		if first > 0 && w.at(first).Time >= start {
			require.Nil(w.t, got.Windows[i], what)
			continue
		}
		require.NotNil(w.t, got.Windows[i], what)
		one := *got.Windows[i]
		want := w.replayedWithin(start, first, tip.Number, func(at uint64) int {
			if at < start {
				return -1
			}
			return 0
		})
		require.Equal(w.t, want.MaxGas.PerSecond(), one.MaxGas.PerSecond(), what)
		require.Equal(w.t, want.MaxTransactions.PerSecond(), one.MaxTransactions.PerSecond(), what)
		one.MaxGas, one.MaxTransactions = want.MaxGas, want.MaxTransactions
		require.Equal(w.t, fmt.Sprint(want), fmt.Sprint(one), what)
	}
}

// crowd gives some transactions of a past other senders and recipients, of whom most are seldom there.
func (p *past) crowd(rng *rand.Rand) {
	who := func() common.Address { return address(byte(min(rng.IntN(250), rng.IntN(250)))) }
	for _, b := range p.blocks {
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			if rng.IntN(3) > 0 {
				tx.From = who()
			}
			if tx.To != nil && rng.IntN(3) > 0 {
				to := who()
				tx.To = &to
			}
		}
	}
}

// TestWindows compares windows with a replay at many blocks of random histories: some begin later than the genesis block,
// and hours and months are without blocks. Batches are lost, and processes end with them.
//
//test:plain
func TestWindows(t *testing.T) {
	for seed := range uint64(6) {
		p := newPast(seed, pastOptions{first: seed % 2 * 17, blocks: 150})
		rng := rand.New(rand.NewPCG(seed, 12))
		p.spread(rng)
		p.crowd(rng)
		if seed >= 3 { // more than a year
			for i, b := range p.blocks {
				b.Time, b.Milliseconds = b.Time+uint64(i)*7*86_400, 0
			}
		}
		engines(t, func(t *testing.T, s store.Store) {
			w := newWorld(t, p, s)
			for range 2 { // the second time over the rows of the first
				for w.next = 0; !w.done(); {
					w.some(rng)
					if w.next > 0 && rng.IntN(3) == 0 || w.done() {
						w.checkWindows(p.blocks[0].Number, rng)
					}
				}
				w.projection = testProjection()
			}
		})
	}
}

// TestWindowsOptional turns the index off and on, and indexes the chain again over rows of earlier
// indexes, whose counts must not count.
//
//test:plain
func TestWindowsOptional(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 13))
		p := newPast(seed, pastOptions{first: rng.Uint64N(2) * 10, blocks: 120})
		p.crowd(rng)
		w := newWorld(t, p, store.NewMemory())
		for range 4 {
			w.next = 0
			on, first := false, uint64(0)
			for !w.done() {
				was := on
				if on = rng.IntN(3) > 0; on {
					w.projection = testProjection()
				} else {
					w.projection = evm.NewProjection(network, chainID)
				}
				if on && !was {
					first = w.blocks[w.next].Number
				}
				for range 1 + rng.IntN(4) {
					if w.advance(1 + rng.IntN(15)); on {
						w.checkWindows(first, rng)
						continue
					}
					_, err := w.record.Windows(t.Context(), hosted)
					var off *evm.OffError
					require.ErrorAs(t, err, &off)
					require.Equal(t, evm.ChainMetrics, off.Index)
				}
			}
		}
	}
}

// TestWindowsOfOlderIndex continues an index that has no counts of last activity: it starts over.
func TestWindowsOfOlderIndex(t *testing.T) {
	p := newPast(1, pastOptions{blocks: 100})
	rng := rand.New(rand.NewPCG(1, 14))
	p.crowd(rng)
	w := newWorld(t, p, store.NewMemory())
	w.advance(60)
	var batch store.Batch
	for row, err := range store.Rows(t.Context(), w.store, store.FamilyEVMLastActive) {
		require.NoError(t, err)
		batch.Delete(store.FamilyEVMLastActive, row.PK)
	}
	require.Positive(t, batch.Len())
	older := binary.AppendUvarint(binary.AppendUvarint([]byte{1}, 0), w.tip())
	found := false
	for row, err := range store.Rows(t.Context(), w.store, store.FamilyEVMPeriod) {
		require.NoError(t, err)
		if len(row.K) == 0 {
			require.Equal(t, append(older, 2), row.V)
			batch.Put(store.FamilyEVMPeriod, row.PK, older)
			found = true
		}
	}
	require.True(t, found)
	require.NoError(t, w.store.Commit(t.Context(), &batch))
	w.projection = testProjection()
	_, err := w.record.Windows(t.Context(), hosted)
	var off *evm.OffError
	require.ErrorAs(t, err, &off)
	for !w.done() {
		w.advance(3)
		w.checkWindows(60, rng)
	}
	w.checkPeriods(60, rng)
}

// TestWindowsAfterGenesis has a genesis block of time 0, as the C-Chain's is: rates count from the first real block.
func TestWindowsAfterGenesis(t *testing.T) {
	const begun = 1_700_000_000
	tx := chain.Transaction{Success: true, From: address(1), GasUsed: 21_000}
	w := newWorld(t, &past{blocks: []*chain.Block{
		{Number: 0, Hash: common.Hash{1}, Traced: true},
		{Number: 1, Hash: common.Hash{2}, Traced: true, Time: begun, Transactions: []chain.Transaction{tx}},
		{Number: 2, Hash: common.Hash{3}, Traced: true, Time: begun + 10, Transactions: []chain.Transaction{tx}},
	}}, store.NewMemory())
	w.advance(1)
	got, err := w.record.Windows(t.Context(), hosted)
	require.NoError(t, err)
	for i := range got.Windows {
		require.Zero(t, got.Windows[i].Elapsed)
		require.Zero(t, got.Windows[i].Addresses)
	}
	w.advance(2)
	got, err = w.record.Windows(t.Context(), hosted)
	require.NoError(t, err)
	for i, n := range hosted {
		one := got.Windows[i]
		require.Equal(t, []uint64{2, 42_000, 10_000, 1, 1}, []uint64{one.Transactions, one.GasUsed, one.Elapsed, one.Addresses, one.Senders}, "%d hours", n)
		require.InDelta(t, 2100, one.MaxGas.PerSecond(), 0)
	}
}

// BenchmarkWindows reads the hosted API's windows of an index with blocks in each hour of 400 days.
func BenchmarkWindows(b *testing.B) {
	blocks := traffic(400*24, false)
	for i, block := range blocks {
		block.Time, block.Milliseconds = 1_700_000_000+uint64(i)*3600, 0
	}
	server := pgserver.Run(b)
	for name, open := range map[string]func() (store.Store, error){
		"pebble": func() (store.Store, error) {
			return store.OpenPebble(b.Context(), store.PebbleOptions{Dir: b.TempDir()})
		},
		"postgres": func() (store.Store, error) {
			url, err := server.Place(b.Context())
			require.NoError(b, err)
			return store.OpenPostgres(b.Context(), store.PostgresOptions{URL: url})
		},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := open()
			require.NoError(b, err)
			projection := evm.NewProjection(network, chainID).With(evm.ChainMetrics)
			var batch store.Batch
			for i, block := range blocks {
				require.NoError(b, projection.Apply(b.Context(), s, block, &batch))
				if batch.Len() > 20_000 || i == len(blocks)-1 {
					require.NoError(b, s.Commit(b.Context(), &batch))
					batch.Reset()
				}
			}
			index := evm.New(s, network, chainID, classes{})
			for b.Loop() {
				got, err := index.Windows(b.Context(), hosted)
				require.NoError(b, err)
				require.EqualValues(b, 365*24*20, got.Windows[5].Transactions)
			}
			require.NoError(b, s.Close())
		})
	}
}
