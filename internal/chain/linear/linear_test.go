package linear_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/linear"
)

// TestReader reads every kind of value, and only zero values after a refusal.
func TestReader(t *testing.T) {
	b := []byte{0, 0, 7, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 2, 'o', 'k', 0, 1, '!', 0, 0, 0, 1}
	address := ids.ShortID{1, 2, 3}
	b = append(b, address[:]...)
	r := linear.NewReader(b)
	require.Equal(t, byte(7), r.Byte())
	require.Equal(t, uint16(8), r.Uint16())
	require.Equal(t, uint32(9), r.Uint32())
	require.Equal(t, uint64(10), r.Uint64())
	require.Equal(t, []byte("ok"), r.Bytes())
	require.Equal(t, "!", r.String())
	require.False(t, r.Complete())
	require.Equal(t, []ids.ShortID{address}, r.Addresses())
	require.True(t, r.Complete())
	require.Equal(t, len(b), r.Offset())

	require.Zero(t, r.Uint64())
	require.True(t, r.Refused())
	require.False(t, r.Complete())

	other := linear.NewReader([]byte{0, 1, 2, 3})
	require.True(t, other.Refused(), "of another version")
	require.Zero(t, other.Byte())
}

// TestCount refuses impossible list lengths before allocating memory.
func TestCount(t *testing.T) {
	for name, test := range map[string]struct {
		bytes   []byte
		least   int
		want    int
		refused bool
	}{
		"none":        {[]byte{0, 0, 0, 0, 0, 0}, 20, 0, false},
		"just enough": {append([]byte{0, 0, 0, 0, 0, 2}, make([]byte, 40)...), 20, 2, false},
		"one short":   {append([]byte{0, 0, 0, 0, 0, 2}, make([]byte, 39)...), 20, 0, true},
		"far more":    {[]byte{0, 0, 255, 255, 255, 255, 1}, 1, 0, true},
		"overflowing": {append([]byte{0, 0, 128, 0, 0, 0}, make([]byte, 8)...), 1 << 31, 0, true},
		"cut short":   {[]byte{0, 0, 0, 0}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := linear.NewReader(test.bytes)
			require.Equal(t, test.want, r.Count(test.least))
			require.Equal(t, test.refused, r.Refused())
		})
	}
}

// TestAddressesDoNotOverlap requires that lists with shared memory stay separate.
func TestAddressesDoNotOverlap(t *testing.T) {
	b := []byte{0, 0}
	for i := range byte(6) {
		b = append(b, 0, 0, 0, i)
		for range i {
			address := ids.ShortID{i}
			b = append(b, address[:]...)
		}
	}
	r := linear.NewReader(b)
	var lists [][]ids.ShortID
	for range 6 {
		lists = append(lists, r.Addresses())
	}
	require.True(t, r.Complete())
	for i, list := range lists {
		require.NotNil(t, list)
		require.Len(t, list, i)
		_ = append(list, ids.ShortID{'x'})
	}
	for i, list := range lists {
		for _, address := range list {
			require.Equal(t, ids.ShortID{byte(i)}, address)
		}
	}
}
