package ledger

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

// TestPackID compares packed texts with the library's texts: same order, and reversible.
func TestPackID(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	all := []ids.ID{{}, {31: 1}, {1}, {0, 1}, {0, 0, 0, 255}, ids.ID(bytes.Repeat([]byte{255}, 32)), ids.ID(bytes.Repeat([]byte{128}, 32))}
	for range 3000 {
		var id ids.ID
		for i := rng.IntN(4) * rng.IntN(8); i < len(id); i++ {
			id[i] = byte(rng.Uint32())
		}
		all = append(all, id)
	}
	for i, id := range all {
		packed := packID(id)
		require.Len(t, packed, (len(id.String())*6+7)/8)
		got, err := unpackID(packed)
		require.NoError(t, err, id)
		require.Equal(t, id, got)
		other := all[(i+1+rng.IntN(len(all)-1))%len(all)]
		require.Equal(t, strings.Compare(id.String(), other.String()), bytes.Compare(packed, packID(other)), "order of %s and %s", id, other)
		packed[rng.IntN(len(packed))] ^= 1 << rng.IntN(8)
		_, err = unpackID(packed)
		require.ErrorIs(t, err, errPacked)
	}
	for _, b := range [][]byte{nil, {0}, bytes.Repeat([]byte{255}, 38), bytes.Repeat([]byte{1}, 100), append(packID(ids.ID{1}), 0)} {
		_, err := unpackID(b)
		require.ErrorIs(t, err, errPacked)
	}
}

func BenchmarkPackID(b *testing.B) {
	id := ids.ID(bytes.Repeat([]byte{200}, 32))
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			packID(id)
		}
	})
	packed := packID(id)
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			_, _ = unpackID(packed)
		}
	})
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			_ = id.String()
		}
	})
}
