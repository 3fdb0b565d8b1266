package rpc

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzHexDigits(f *testing.F) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	f.Add("", all)
	f.Add("0x", []byte("abcdefg"))
	f.Fuzz(func(t *testing.T, before string, b []byte) {
		require.Equal(t, before+hex.EncodeToString(b), string(appendDigits([]byte(before), b)))
	})
}

func BenchmarkHexDigits(b *testing.B) {
	from, to := make([]byte, 4096), make([]byte, 0, 8192)
	for name, encode := range map[string]func(to, b []byte) []byte{"own": appendDigits, "encoding/hex": hex.AppendEncode} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(from)))
			for b.Loop() {
				encode(to, from)
			}
		})
	}
}
