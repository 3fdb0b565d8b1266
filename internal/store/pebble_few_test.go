package store

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFewRowsDescending reads partitions of all sizes round the one that counts as few,
// with rows deleted before and between the others, as a whole and in part, again and again.
func TestFewRowsDescending(t *testing.T) {
	s, err := OpenPebble(t.Context(), small(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	const most, deleted = 3 * fewRows, 20 * fewRows
	kept := make(map[string][]int) // the last bytes of keys, ascending
	partition := func(n int, dead bool) []byte { return fmt.Appendf(nil, "%d rows, %t", n, dead) }
	for n := range most {
		for _, dead := range []bool{false, true} {
			p := partition(n, dead)
			for i := range n {
				var b Batch
				b.Put(FamilyUnspentByTime, PK{P: p, K: number(2*i + deleted)}, bytes.Repeat([]byte{byte(i)}, 1+i%3*ownPiece/2))
				require.NoError(t, s.Commit(t.Context(), &b))
				kept[string(p)] = append(kept[string(p)], 2*i+deleted)
			}
			if !dead {
				continue
			}
			var put, drop Batch
			for i := range deleted {
				put.Put(FamilyUnspentByTime, PK{P: p, K: number(i)}, []byte("old"))
				drop.Delete(FamilyUnspentByTime, PK{P: p, K: number(i)})
			}
			require.NoError(t, s.Commit(t.Context(), &put))
			require.NoError(t, s.Commit(t.Context(), &drop))
		}
	}
	for range 2 {
		for n := range most {
			for _, dead := range []bool{false, true} {
				p := partition(n, dead)
				for limit := 1; limit <= most; limit += 1 + limit/3 {
					for _, bounds := range [][2]int{{0, 1 << 20}, {deleted + 3, 1 << 20}, {0, deleted + 2*n - 3}, {deleted + 4, deleted + 9}} {
						lo, hi := bounds[0], max(bounds[1], 0)
						var want []int
						for _, k := range slices.Backward(kept[string(p)]) {
							if k >= lo && k < hi && len(want) < limit {
								want = append(want, k)
							}
						}
						rows, err := s.Scan(t.Context(), FamilyUnspentByTime, p, number(lo), number(hi), Descending, limit)
						require.NoError(t, err)
						require.Len(t, rows, len(want), "%s: limit %d, %v", p, limit, bounds)
						for i, row := range rows {
							at := (want[i] - deleted) / 2
							require.Equal(t, number(want[i]), row.K, "%s: limit %d, %v, row %d", p, limit, bounds, i)
							require.Equal(t, bytes.Repeat([]byte{byte(at)}, 1+at%3*ownPiece/2), row.V, "%s: limit %d, %v, row %d", p, limit, bounds, i)
						}
					}
				}
			}
		}
	}
}

// TestLongListsAreNotTriedAgain has a partition's newest rows behind many deleted ones,
// which a descending scan does not come by but for the first time.
func TestLongListsAreNotTriedAgain(t *testing.T) {
	s, err := OpenPebble(t.Context(), small(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	p, dead := []byte("long"), slowScan/2 // not as many as have it watched for gaps
	var put, drop Batch
	for i := range dead {
		put.Put(FamilyUnspentByTime, PK{P: p, K: number(i)}, []byte("v"))
		drop.Delete(FamilyUnspentByTime, PK{P: p, K: number(i)})
	}
	for i := range 5 * fewRows {
		put.Put(FamilyUnspentByTime, PK{P: p, K: number(dead + i)}, []byte("v"))
	}
	require.NoError(t, s.Commit(t.Context(), &put))
	require.NoError(t, s.Commit(t.Context(), &drop))
	rows, by := steps(t, s, p, Descending, 3*fewRows)
	require.Equal(t, 3*fewRows, rows)
	require.Greater(t, by, uint64(dead), "rows that the first scan comes by")
	rows, by = steps(t, s, p, Descending, 3*fewRows)
	require.Equal(t, 3*fewRows, rows)
	require.Less(t, by, uint64(4*fewRows), "rows that the next one comes by")
}
