package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

var header = Header{NetworkID: 5, Genesis: ids.ID{1}, Height: 7, BlockID: ids.ID{2}, Time: time.Unix(1_700_000_000, 0).UTC()}

// write returns a checkpoint of n pairs.
func write(t *testing.T, n int) ([]byte, ids.ID) {
	t.Helper()
	var b bytes.Buffer
	hash, err := Write(&b, header, func(put func(key, value []byte) error) error {
		for i := range n {
			if err := put([]byte(fmt.Sprintf("key %d", i)), bytes.Repeat([]byte{byte(i)}, i)); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	return b.Bytes(), hash
}

// read reads a checkpoint to its end.
func read(file []byte) (pairs int, hash ids.ID, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return 0, ids.Empty, err
	}
	defer r.Close()
	for {
		if _, _, err = r.Next(); err != nil {
			break
		}
		pairs++
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return pairs, r.Hash(), err
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 300} {
		file, hash := write(t, n)
		r, err := NewReader(bytes.NewReader(file))
		require.NoError(t, err)
		require.Equal(t, header, r.Header)
		for i := range n {
			key, value, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("key %d", i), string(key))
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, i), append([]byte{}, value...))
		}
		require.Empty(t, r.Hash(), "it is not known before the end")
		for range 2 {
			_, _, err = r.Next()
			require.Equal(t, io.EOF, err)
		}
		require.Equal(t, hash, r.Hash())
		r.Close()
	}
}

// TestDamage cuts a checkpoint off at each byte, flips each of its bits, and changes its content below the compression.
func TestDamage(t *testing.T) {
	file, hash := write(t, 20)
	for size := range file {
		_, _, err := read(file[:size])
		require.ErrorIs(t, err, ErrFile, "%d bytes of %d", size, len(file))
	}
	for i := range 8 * len(file) {
		damaged := bytes.Clone(file)
		damaged[i/8] ^= 1 << (i % 8)
		if _, got, err := read(damaged); err == nil {
			require.Equal(t, hash, got, "bit %d: the content is another one", i) // some bits of the compression mean nothing
		}
	}
	z, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer z.Close()
	content, err := z.DecodeAll(file[len(magic):], nil)
	require.NoError(t, err)
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for i := range content {
		damaged := bytes.Clone(content)
		damaged[i] ^= 0x10
		_, _, err := read(w.EncodeAll(damaged, bytes.Clone(magic[:])))
		require.ErrorIs(t, err, ErrFile, "byte %d", i)
	}
	_, _, err = read(w.EncodeAll(append(bytes.Clone(content), 0), bytes.Clone(magic[:])))
	require.ErrorIs(t, err, ErrFile)
	_, other, err := read(w.EncodeAll(content, bytes.Clone(magic[:])))
	require.NoError(t, err)
	require.Equal(t, hash, other, "the hash does not depend on the compression")
}

func TestBounds(t *testing.T) {
	for _, size := range [][2]int{{0, 1}, {maxKey + 1, 1}, {1, maxValue + 1}} {
		_, err := Write(io.Discard, header, func(put func(key, value []byte) error) error {
			return put(make([]byte, size[0]), make([]byte, size[1]))
		})
		require.Error(t, err, "key of %d bytes, value of %d bytes", size[0], size[1])
	}
	later := bytes.Clone(magic[:])
	later[len(later)-1]++
	_, err := NewReader(bytes.NewReader(later))
	require.ErrorContains(t, err, "has format 2, and this program reads format 1")
}
