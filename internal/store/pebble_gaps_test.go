package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// eager has a store learn from everything that it comes by.
func eager(t testing.TB) *Pebble {
	t.Helper()
	s, err := OpenPebble(t.Context(), small(t.TempDir()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.gaps.slow, s.gaps.least = 1, 1
	return s
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// steps is how many rows a scan comes by.
func steps(t *testing.T, s *Pebble, p []byte, dir Direction, limit int) (rows int, by uint64) {
	t.Helper()
	v, err := s.View(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	got, err := v.Scan(t.Context(), FamilyUnspentByTime, p, nil, nil, dir, limit)
	require.NoError(t, err)
	return len(got), stepped(v.(*pebbleView).idle.Load())
}

// TestGapsAreNotWalkedAgain spends all but the newest of an address' outputs, and one
// of the oldest.
func TestGapsAreNotWalkedAgain(t *testing.T) {
	for _, dir := range []Direction{Ascending, Descending} {
		t.Run(fmt.Sprint(dir), func(t *testing.T) {
			s, err := OpenPebble(t.Context(), small(t.TempDir()))
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			p, n := []byte{0, 1, 7}, 3000
			for i := range n {
				var b Batch
				b.NoSync = true
				b.Put(FamilyUnspentByTime, PK{P: p, K: number(i)}, []byte("v"))
				if old := i - 20; old >= 0 && old != 5 {
					b.Delete(FamilyUnspentByTime, PK{P: p, K: number(old)})
				}
				require.NoError(t, s.Commit(t.Context(), &b))
			}
			rows, by := steps(t, s, p, dir, 100)
			require.Equal(t, 21, rows)
			require.Greater(t, by, uint64(n-100), "rows that the first scan comes by")
			_, _ = steps(t, s, p, dir, 100) // the partition is watched since the first one
			rows, by = steps(t, s, p, dir, 100)
			require.Equal(t, 21, rows)
			require.Less(t, by, uint64(2*leastGap), "rows that a scan comes by which knows the gaps")
			// In a gap something is found once it is put there.
			var b Batch
			b.Put(FamilyUnspentByTime, PK{P: p, K: number(1500)}, []byte("late"))
			require.NoError(t, s.Commit(t.Context(), &b))
			rows, by = steps(t, s, p, dir, 100)
			require.Equal(t, 22, rows)
			require.Less(t, by, uint64(2*leastGap), "rows that a scan comes by after something was put into a gap")
		})
	}
}

// TestGapsOfOlderViews holds that views do not lose what was there when they were made.
func TestGapsOfOlderViews(t *testing.T) {
	s := eager(t)
	p := []byte("p")
	var b Batch
	for i := range 50 {
		b.Put(FamilyUnspentByTime, PK{P: p, K: number(i)}, nil)
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	v, err := s.View(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	b.Reset()
	for i := range 49 {
		b.Delete(FamilyUnspentByTime, PK{P: p, K: number(i)})
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	for range 3 {
		rows, err := s.Scan(t.Context(), FamilyUnspentByTime, p, nil, nil, Descending, 100)
		require.NoError(t, err)
		require.Len(t, rows, 1)
	}
	known, isWatched := s.gaps.of(appendPrefix(nil, FamilyUnspentByTime, p))
	require.True(t, isWatched)
	require.NotEmpty(t, known)
	rows, err := v.Scan(t.Context(), FamilyUnspentByTime, p, nil, nil, Descending, 100)
	require.NoError(t, err)
	require.Len(t, rows, 50, "rows in the view from before they were deleted")
}

// TestGapsAgainstMemory does the same to two stores, one of which knows no gaps.
func TestGapsAgainstMemory(t *testing.T) {
	s, oracle := eager(t), NewMemory()
	rng := rand.New(rand.NewPCG(8, 15))
	views := make([][2]View, 0, 4)
	gone, rounds := 0, 1000
	if testing.Short() {
		rounds = 300
	}
	for range rounds {
		var ours, theirs Batch
		ours.NoSync = true
		low := rng.IntN(100)
		for range rng.IntN(12) {
			pk := PK{P: []byte{byte(rng.IntN(2))}, K: number(rng.IntN(100))}
			if int(pk.K[3]) < low { // long runs of deleted rows
				ours.Delete(FamilyUnspentByTime, pk)
				theirs.Delete(FamilyUnspentByTime, pk)
			} else {
				ours.Put(FamilyUnspentByTime, pk, number(gone))
				theirs.Put(FamilyUnspentByTime, pk, number(gone))
			}
		}
		require.NoError(t, s.Commit(t.Context(), &ours))
		require.NoError(t, oracle.Commit(t.Context(), &theirs))
		if len(views) < cap(views) {
			one, err := s.View(t.Context())
			require.NoError(t, err)
			other, err := oracle.View(t.Context())
			require.NoError(t, err)
			views = append(views, [2]View{one, other})
		}
		for range 3 {
			var one, other Reader = s, oracle
			if at := rng.IntN(len(views) + 1); at < len(views) {
				one, other = views[at][0], views[at][1]
			}
			p, dir, limit := []byte{byte(rng.IntN(2))}, Direction(rng.IntN(2)), 1+rng.IntN(120)
			var lo, hi []byte
			if rng.IntN(2) == 0 {
				lo = number(rng.IntN(100))
			}
			if rng.IntN(2) == 0 {
				hi = number(rng.IntN(100))
			}
			want, err := other.Scan(t.Context(), FamilyUnspentByTime, p, lo, hi, dir, limit)
			require.NoError(t, err)
			got, err := one.Scan(t.Context(), FamilyUnspentByTime, p, lo, hi, dir, limit)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		if rng.IntN(5) == 0 {
			at := rng.IntN(len(views))
			require.NoError(t, views[at][0].Close())
			require.NoError(t, views[at][1].Close())
			views[at] = views[len(views)-1]
			views = views[:len(views)-1]
		}
		known, _ := s.gaps.of(appendPrefix(nil, FamilyUnspentByTime, []byte{0}))
		gone += len(known)
	}
	require.NotZero(t, gone, "gaps known")
	for _, pair := range views {
		require.NoError(t, pair[0].Close())
		require.NoError(t, pair[1].Close())
	}
}

// TestGapsBesideWriters has each batch put a row beside one that it deletes, anywhere:
// whoever reads finds as many rows in each state.
func TestGapsBesideWriters(t *testing.T) {
	s := eager(t)
	p, rows, places := []byte("p"), 8, 64
	var b Batch
	for i := range rows {
		b.Put(FamilyUnspentByTime, PK{P: p, K: number(i * places)}, nil)
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for i := range rows {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for at, n := 0, 0; n < 100; n++ {
				to := rng.IntN(places)
				if to == at {
					continue
				}
				b := Batch{NoSync: true}
				b.Delete(FamilyUnspentByTime, PK{P: p, K: number(i*places + at)})
				b.Put(FamilyUnspentByTime, PK{P: p, K: number(i*places + to)}, nil)
				if err := s.Commit(t.Context(), &b); err != nil {
					t.Errorf("committing: got %v, want nil", err)
					return
				}
				at = to
			}
		})
	}
	for i := range 2 {
		reading.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				got, err := s.Scan(t.Context(), FamilyUnspentByTime, p, nil, nil, Direction((i+n)%2), 100)
				if err != nil || len(got) != rows {
					t.Errorf("scanning beside writers: got %d rows and %v, want %d", len(got), err, rows)
					return
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
}

// TestGapsAreBounded has more partitions with more gaps than are remembered.
func TestGapsAreBounded(t *testing.T) {
	g := newGaps()
	for i := range maxWatched + 10 {
		g.watch(appendPrefix(nil, FamilyUnspentByTime, number(i)))
	}
	require.Len(t, g.watched, maxWatched)
	require.EqualValues(t, maxWatched, g.families[FamilyUnspentByTime].Load())
	last := appendPrefix(nil, FamilyUnspentByTime, number(maxWatched+9))
	for i := range 2 * maxGaps {
		g.learn(last, g.now(), []gap{{lo: number(2 * i), hi: number(2*i + 1), rows: uint64(1 + i)}})
	}
	known, _ := g.of(last)
	require.Len(t, known, maxGaps)
	require.Equal(t, number(2*maxGaps), known[0].lo, "the first of those that save most")
	long := make([]byte, maxGapKey+1)
	g.learn(last, g.now(), []gap{{lo: number(0), hi: long, rows: 1 << 40}})
	again, _ := g.of(last)
	require.Equal(t, known, again)
}

// TestGapsBesideACommit holds that nothing is learned while a commit may have put a row
// where a state from before it has none, nor afterwards from such a state.
func TestGapsBesideACommit(t *testing.T) {
	g := newGaps()
	prefix, other := appendPrefix(nil, FamilyUnspentByTime, []byte("p")), appendPrefix(nil, FamilyUnspentByTime, []byte("q"))
	g.watch(prefix)
	before := g.now()
	learned := func(made uint64) int {
		g.learn(prefix, made, []gap{{lo: append(prefix[:len(prefix):len(prefix)], 1), hi: append(prefix[:len(prefix):len(prefix)], 9)}})
		known, _ := g.of(prefix)
		return len(known)
	}
	var b Batch
	b.Put(FamilyUnspentByTime, PK{P: []byte("p"), K: []byte{5}}, nil)
	b.order()
	put := g.begin(&b)
	g.watch(other)
	_, isWatched := g.of(other)
	require.False(t, isWatched, "watched from within a commit")
	require.Zero(t, learned(before), "gaps learned within a commit")
	require.Zero(t, learned(g.now()), "gaps learned within a commit")
	g.end(put)
	require.Zero(t, learned(before), "gaps learned from a state before a commit")
	require.Equal(t, 1, learned(g.now()), "gaps learned after it")
}
