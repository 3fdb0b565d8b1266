package memo_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index/evm/memo"
)

// TestTable compares with a map: what the table has is what was put last.
func TestTable(t *testing.T) {
	for _, room := range []int{0, 1, 7, 1000} {
		table := memo.New[int, int](room)
		_, ok := table.Get(1)
		require.False(t, ok)
		rng := rand.New(rand.NewPCG(1, uint64(room)))
		last := make(map[int]int)
		hits := 0
		for range 10_000 {
			k, v := rng.IntN(100), rng.Int()
			if got, ok := table.Get(k); ok {
				require.Equal(t, last[k], got, "key %d", k)
				hits++
			}
			table.Put(k, v)
			last[k] = v
			got, ok := table.Get(k)
			require.True(t, ok)
			require.Equal(t, v, got)
		}
		require.Positive(t, hits)
	}
}

func TestTogether(t *testing.T) {
	table := memo.New[int, int](16)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 10_000 {
				table.Put(i%64, 2*(i%64))
				if got, ok := table.Get(i % 50); ok && got != 2*(i%50) {
					t.Errorf("got %d for %d, want %d", got, i%50, 2*(i%50))
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkGet(b *testing.B) {
	table := memo.New[[20]byte, string](1 << 14)
	k := [20]byte{1}
	table.Put(k, "one")
	b.ReportAllocs()
	for b.Loop() {
		table.Get(k)
	}
}
