package store_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

const benchRows = 5000

// benchBatch is what ingestion commits: rows of 100 bytes in random partitions,
// in order of time within each.
func benchBatch(b *store.Batch, rng *rand.Rand, n uint64) {
	b.Reset()
	for i := range uint64(benchRows) {
		p := binary.BigEndian.AppendUint32(make([]byte, 0, 24), 1)
		p = binary.BigEndian.AppendUint64(append(p, make([]byte, 12)...), rng.Uint64N(20_000))
		k := binary.BigEndian.AppendUint64(nil, n*benchRows+i)
		v := make([]byte, 100)
		binary.LittleEndian.PutUint64(v[rng.IntN(80):], rng.Uint64())
		b.Put(store.FamilySignature, store.PK{P: p, K: k}, v)
	}
	b.Move("bench", store.Cursor{Next: n}, store.Cursor{Next: n + 1})
}

func engines(b *testing.B, run func(*testing.B, store.Store)) {
	b.Run("memory", func(b *testing.B) { run(b, store.NewMemory()) })
	b.Run("pebble", func(b *testing.B) {
		s, err := store.OpenPebble(b.Context(), store.PebbleOptions{Dir: b.TempDir()})
		require.NoError(b, err)
		defer func() { require.NoError(b, s.Close()) }()
		run(b, s)
	})
}

// BenchmarkCommit commits 5,000 rows and the cursor, durably.
func BenchmarkCommit(b *testing.B) {
	engines(b, func(b *testing.B, s store.Store) {
		rng := rand.New(rand.NewPCG(1, 1))
		var batch store.Batch
		for n := uint64(0); b.Loop(); n++ {
			b.StopTimer()
			benchBatch(&batch, rng, n)
			b.StartTimer()
			if err := s.Commit(b.Context(), &batch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "rows/s")
	})
}

// BenchmarkPage reads pages of 100 rows from the newest end of random
// partitions among half a million rows.
func BenchmarkPage(b *testing.B) {
	engines(b, func(b *testing.B, s store.Store) {
		rng := rand.New(rand.NewPCG(1, 1))
		const partitions, pages = 1000, 5
		for i := range partitions {
			var batch store.Batch
			batch.NoSync = true
			p := fmt.Appendf(nil, "address %012d", i)
			for n := range uint64(100 * pages) {
				batch.Put(store.FamilySignature, store.PK{P: p, K: binary.BigEndian.AppendUint64(nil, n)}, make([]byte, 100))
			}
			if err := s.Commit(b.Context(), &batch); err != nil {
				b.Fatal(err)
			}
		}
		for _, dir := range []store.Direction{store.Ascending, store.Descending} {
			b.Run([]string{"ascending", "descending"}[dir], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p := fmt.Appendf(nil, "address %012d", rng.IntN(partitions))
					lo := binary.BigEndian.AppendUint64(nil, uint64(100*rng.IntN(pages-1)))
					rows, err := s.Scan(b.Context(), store.FamilySignature, p, lo, nil, dir, 100)
					if err != nil || len(rows) != 100 {
						b.Fatalf("got %d rows and %v, want 100 and nil", len(rows), err)
					}
				}
			})
		}
	})
}

// BenchmarkBounded puts and gets signed messages of 5 kB in a family that is
// full, so that each put evicts.
func BenchmarkBounded(b *testing.B) {
	engines(b, func(b *testing.B, s store.Store) {
		const kept = 2000
		cache, err := store.NewBounded(b.Context(), s, store.FamilyMessage, kept*5300)
		require.NoError(b, err)
		value, n := make([]byte, 5000), 0
		key := func(n int) store.PK { return store.PK{P: fmt.Appendf(nil, "%064d", n)} }
		put := func() {
			if err := cache.Put(b.Context(), store.Entry{PK: key(n), V: value}); err != nil {
				b.Fatal(err)
			}
			n++
		}
		for range 2 * kept {
			put()
		}
		b.Run("put", func(b *testing.B) {
			for b.Loop() {
				put()
			}
		})
		b.Run("get", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				values, err := cache.Get(b.Context(), key(n-1-i%(kept/2)))
				if err != nil || values[0] == nil {
					b.Fatalf("got %v and %v, want a value", values, err)
				}
			}
		})
	})
}
