package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

func FuzzID(f *testing.F) {
	f.Add(make([]byte, ids.IDLen))
	f.Add([]byte("\x00\x00\x01 an ID that begins with zeros"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var id ids.ID
		copy(id[:], b)
		require.Equal(t, id.String(), string(appendID(nil, id)))
	})
}

func BenchmarkID(b *testing.B) {
	id := ids.GenerateTestID()
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			appendID(make([]byte, 0, 64), id)
		}
	})
	b.Run("theirs", func(b *testing.B) {
		for b.Loop() {
			_ = id.String()
		}
	})
}
