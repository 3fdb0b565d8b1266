package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// entry returns an entry of typical size and its counted size.
func entry(key string, n int) (e store.Entry, count uint64) {
	e = store.Entry{PK: pk(key, "k"), V: bytes.Repeat([]byte{byte(n)}, n)}
	return e, uint64(2*(len(key)+1) + n + store.BoundedRowBytes)
}

func bounded(t testing.TB, s store.Store, maxBytes uint64) *store.Bounded {
	t.Helper()
	b, err := store.NewBounded(t.Context(), s, store.FamilyMessage, maxBytes)
	require.NoError(t, err)
	return b
}

func has(t testing.TB, b *store.Bounded, key string) bool {
	t.Helper()
	values, err := b.Get(t.Context(), pk(key, "k"))
	require.NoError(t, err)
	return values[0] != nil
}

func testBounded(t *testing.T, engine Engine) {
	open := engine.Place(t)
	s := open()
	const maxBytes = 2000
	b := bounded(t, s, maxBytes)
	for i := range 60 {
		e, _ := entry(fmt.Sprintf("%03d", i), i)
		require.NoError(t, b.Put(t.Context(), e))
		size, _ := b.Size()
		require.LessOrEqual(t, size, uint64(maxBytes))
	}
	held := func() (keys []int) {
		for i := range 60 {
			if has(t, b, fmt.Sprintf("%03d", i)) {
				keys = append(keys, i)
			}
		}
		return keys
	}
	keys := held()
	// The newest entries that fit: 59, 58, ... of 2*4+i+64 bytes.
	var want []int
	for i, sum := 59, 0; ; i-- {
		if sum += 72 + i; sum > maxBytes {
			break
		}
		want = append([]int{i}, want...)
	}
	require.Equal(t, want, keys, "rows that are left")
	require.NoError(t, b.Verify(t.Context()))
	e, _ := entry("059", 59)
	values, err := b.Get(t.Context(), e.PK, pk("nothing", ""), e.PK)
	require.NoError(t, err)
	require.Equal(t, [][]byte{e.V, nil, e.V}, values)
	rows, err := b.Scan(t.Context(), []byte("059"), nil, nil, store.Ascending, 5)
	require.NoError(t, err)
	require.Equal(t, []store.Row{{K: []byte("k"), V: e.V}}, rows)

	tooBig, _ := entry("big", maxBytes)
	small, _ := entry("small", 1)
	require.ErrorIs(t, b.Put(t.Context(), small, tooBig), store.ErrInvalid)
	require.False(t, has(t, b, "small"), "an entry put together with one that is too big is not there")

	size, count := b.Size()
	if engine.Persistent {
		require.NoError(t, s.Close())
		s = open()
	}
	b = bounded(t, s, maxBytes)
	newSize, newCount := b.Size()
	require.Equal(t, []uint64{size, count}, []uint64{newSize, newCount}, "size after opening again")
	require.Equal(t, want, held(), "rows after opening again")

	// Put more than fits: the last entries stay.
	var many []store.Entry
	for i := range 100 {
		e, _ := entry(fmt.Sprintf("n%02d", i), 128)
		many = append(many, e)
	}
	require.NoError(t, b.Put(t.Context(), many...))
	require.False(t, has(t, b, "059"))
	require.False(t, has(t, b, "n89"))
	require.True(t, has(t, b, "n90"))
	require.True(t, has(t, b, "n99"))
	require.NoError(t, b.Verify(t.Context()))
	require.NoError(t, s.Close())
}

func testBoundedReplace(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	_, count := entry("a", 100)
	b := bounded(t, s, 3*count)
	for _, key := range []string{"a", "b", "c", "a"} {
		e, _ := entry(key, 100)
		require.NoError(t, b.Put(t.Context(), e))
	}
	size, rows := b.Size()
	require.Equal(t, []uint64{3 * count, 3}, []uint64{size, rows})
	// Putting a again made it the newest: b is evicted first.
	d, _ := entry("d", 100)
	require.NoError(t, b.Put(t.Context(), d))
	require.Equal(t, []bool{true, false, true, true}, []bool{has(t, b, "a"), has(t, b, "b"), has(t, b, "c"), has(t, b, "d")})
	// Replace the oldest entry by one that needs the others' room, and put the same key several times in one commit.
	c1, n1 := entry("c", 5)
	c2, n2 := entry("c", 7)
	e, n := entry("e", 280)
	require.LessOrEqual(t, n1+n+n2, 3*count)
	require.NoError(t, b.Put(t.Context(), c1, e, c2))
	require.Equal(t, []bool{false, true, false, true}, []bool{has(t, b, "a"), has(t, b, "c"), has(t, b, "d"), has(t, b, "e")})
	size, rows = b.Size()
	require.Equal(t, []uint64{n + n2, 2}, []uint64{size, rows})
	values, err := b.Get(t.Context(), c1.PK)
	require.NoError(t, err)
	require.Equal(t, c2.V, values[0])
	require.NoError(t, b.Verify(t.Context()))
	require.NoError(t, b.Put(t.Context()))
}

func testBoundedLowered(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	b := bounded(t, s, 1<<20)
	var many []store.Entry
	for i := range 3000 {
		e, _ := entry(fmt.Sprintf("%04d", i), 10)
		many = append(many, e)
	}
	require.NoError(t, b.Put(t.Context(), many...))
	_, count := entry("0000", 10)
	b = bounded(t, s, 5*count+1)
	size, rows := b.Size()
	require.Equal(t, []uint64{5 * count, 5}, []uint64{size, rows})
	require.False(t, has(t, b, "2994"))
	require.True(t, has(t, b, "2995"))
	require.NoError(t, b.Verify(t.Context()))
	b = bounded(t, s, 0)
	size, rows = b.Size()
	require.Equal(t, []uint64{0, 0}, []uint64{size, rows})
	require.NoError(t, b.Verify(t.Context()))
}

// testBoundedHistory compares Bounded with a list that drops its oldest entries.
func testBoundedHistory(t *testing.T, engine Engine) {
	rng := rand.New(rand.NewPCG(3, 1))
	open := engine.Place(t)
	s := open()
	defer func() { require.NoError(t, s.Close()) }()
	type row struct {
		key   string
		v     []byte
		count uint64
	}
	var model []row // oldest first
	maxBytes := uint64(4000)
	b := bounded(t, s, maxBytes)
	for step := range 400 {
		var entries []store.Entry
		seen := map[string]bool{}
		for range 1 + rng.IntN(4) {
			key := fmt.Sprint(rng.IntN(30))
			if seen[key] {
				continue
			}
			seen[key] = true
			e, count := entry(key, rng.IntN(600))
			entries = append(entries, e)
			for i := range model {
				if model[i].key == key {
					model = append(model[:i], model[i+1:]...)
					break
				}
			}
			model = append(model, row{key, e.V, count})
		}
		require.NoError(t, b.Put(t.Context(), entries...))
		total := uint64(0)
		for i := len(model) - 1; i >= 0; i-- {
			if total += model[i].count; total > maxBytes {
				total -= model[i].count
				model = model[i+1:]
				break
			}
		}
		size, rows := b.Size()
		require.Equal(t, []uint64{total, uint64(len(model))}, []uint64{size, rows}, "size at step %d", step)
		for _, r := range model {
			values, err := b.Get(t.Context(), pk(r.key, "k"))
			require.NoError(t, err)
			require.True(t, values[0] != nil && bytes.Equal(r.v, values[0]), "row %s at step %d", r.key, step)
		}
		if step%50 == 49 {
			require.NoError(t, b.Verify(t.Context()))
			if engine.Persistent {
				require.NoError(t, s.Close())
				s = open()
			}
			b = bounded(t, s, maxBytes)
		}
	}
}

// testBoundedTwo runs two Bounded on one family, like two processes that share a store.
func testBoundedTwo(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	const maxBytes = 3000
	var all []*store.Bounded
	for range 2 {
		all = append(all, bounded(t, s, maxBytes))
	}
	var wg sync.WaitGroup
	for w, b := range all {
		for range 2 {
			wg.Go(func() {
				for i := range 60 {
					e, _ := entry(fmt.Sprintf("%d", (i*7+w)%40), (i*31)%200)
					if err := b.Put(t.Context(), e); err != nil {
						t.Errorf("putting: got %v, want nil", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	for _, b := range all {
		require.NoError(t, b.Verify(t.Context()))
		e, _ := entry("last", 10)
		require.NoError(t, b.Put(t.Context(), e))
		size, _ := b.Size()
		require.LessOrEqual(t, size, uint64(maxBytes))
	}
	require.NoError(t, all[0].Verify(t.Context()))
}
