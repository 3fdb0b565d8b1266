// Package lineartest compares fast block readers with the library's codec in tests.
package lineartest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// RequireSame requires that quick returns nil or the same block as slow. It reports whether quick returned a block.
func RequireSame[B any](t testing.TB, b []byte, quick func([]byte) *B, slow func([]byte) (*B, error)) bool {
	got := quick(b)
	if got == nil {
		return false
	}
	want, err := slow(b)
	require.NoError(t, err, "the fast reader accepted a block that the library refuses")
	require.Equal(t, want, got)
	return true
}

// Spoil changes, truncates and extends blocks at every position and calls same, a wrapper of RequireSame, with each
// result. It requires that both outcomes occur: read and refused.
func Spoil(t *testing.T, rng *rand.Rand, all [][]byte, same func(b []byte) bool) {
	t.Helper()
	read, refused := 0, 0
	note := func(known bool) {
		if known {
			read++
		} else {
			refused++
		}
	}
	for range 40 {
		b := all[rng.IntN(len(all))]
		for at := range b {
			spoilt := append([]byte(nil), b...)
			spoilt[at] ^= byte(1 << rng.IntN(8))
			note(same(spoilt))
		}
		for range 20 {
			note(same(b[:rng.IntN(len(b))]))
			note(same(append(append([]byte(nil), b...), byte(rng.IntN(3)))))
			// A length that is too large or too small.
			spoilt := append([]byte(nil), b...)
			copy(spoilt[rng.IntN(len(b)-4):], []byte{byte(rng.IntN(2)) * 0x7f, byte(rng.IntN(2)) * 255, 0, byte(rng.IntN(4))})
			note(same(spoilt))
		}
	}
	t.Logf("%d read, %d refused", read, refused)
	require.Greater(t, read, 1000, "too few blocks were read")
	require.Greater(t, refused, 1000, "too few blocks were refused")
}

// Benchmark measures the library and the fast reader. Transactions returns the number of transactions of a block, cpu
// the processor time that the process has used.
func Benchmark[B any](b *testing.B, cpu func() time.Duration, all [][]byte, quick func([]byte) *B, slow func([]byte) (*B, error), transactions func(*B) int) {
	b.Helper()
	count, size := 0, 0
	for _, raw := range all {
		size += len(raw)
		parsed, err := slow(raw)
		require.NoError(b, err)
		count += transactions(parsed)
	}
	for _, way := range []struct {
		name string
		read func([]byte) (*B, error)
	}{
		{"library", slow},
		{"shortcut", func(raw []byte) (*B, error) { return quick(raw), nil }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			begun := cpu()
			for b.Loop() {
				for _, raw := range all {
					if got, err := way.read(raw); err != nil || got == nil {
						b.Fatal("not read", err)
					}
				}
			}
			b.ReportMetric(float64((cpu()-begun).Nanoseconds())/float64(b.N)/float64(count), "cpu-ns/tx")
			b.ReportMetric(float64(count), "tx/op")
			b.ReportMetric(float64(size)/float64(count), "encoded-B/tx")
		})
	}
}
