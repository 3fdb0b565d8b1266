package store

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCopies copies rows of all sizes from memory that is used again at once, and has
// callers append to each.
func TestCopies(t *testing.T) {
	sizes := [][2]int{{0, 0}, {1, 0}, {0, 1}, {20, 200}, {20, ownPiece}, {5, 5}, {100, ownPiece - 101}, {3, 2 * maxShared}, {0, 0}}
	for range 60 {
		sizes = append(sizes, [2]int{32, ownPiece / 2})
	}
	var c copies
	for round := range 3 {
		scratch := make([]byte, 3*maxShared)
		for i, size := range sizes {
			k, v := scratch[:size[0]], scratch[size[0]:][:size[1]]
			copy(k, bytes.Repeat([]byte{byte(i)}, len(k)))
			copy(v, bytes.Repeat([]byte{byte(100 + i + round)}, len(v)))
			c.add(k, v)
			if i%3 == 0 {
				c.miss()
			}
		}
		rows := c.take()
		c.add([]byte("another"), bytes.Repeat([]byte{0xff}, ownPiece/2)) // where the rows were
		require.Len(t, c.take(), 1)
		for i := range rows {
			_ = append(append(rows[i].K, 0xee)[:0:0], append(rows[i].V, 0xee)...)
		}
		at := 0
		for i, size := range sizes {
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, size[0]), rows[at].K, "key %d", i)
			require.Equal(t, bytes.Repeat([]byte{byte(100 + i + round)}, size[1]), rows[at].V, "value %d", i)
			require.NotNil(t, rows[at].V, "value %d", i)
			if at++; i%3 == 0 {
				require.Nil(t, rows[at].V, "after %d", i)
				at++
			}
		}
		require.Len(t, rows, at)
	}
	require.Nil(t, c.take())
}
