// Package lineartest holds shortcuts through blocks against the library that they stand
// for. It is for tests alone.
package lineartest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// RequireSame has a shortcut either read b as the library does, or not at all, which is
// nil, and tells whether it did.
func RequireSame[B any](t testing.TB, b []byte, quick func([]byte) *B, slow func([]byte) (*B, error)) bool {
	got := quick(b)
	if got == nil {
		return false
	}
	want, err := slow(b)
	require.NoError(t, err, "the shortcut read what the library refuses")
	require.Equal(t, want, got)
	return true
}

// Spoil changes, cuts and lengthens some of all at every place, for same, which is
// RequireSame of what it is given. Both ends of it must be reached: what is read, and
// what is left to the library.
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
			// A length that is far too large, or too small.
			spoilt := append([]byte(nil), b...)
			copy(spoilt[rng.IntN(len(b)-4):], []byte{byte(rng.IntN(2)) * 0x7f, byte(rng.IntN(2)) * 255, 0, byte(rng.IntN(4))})
			note(same(spoilt))
		}
	}
	t.Logf("%d read as the library does, %d left to it", read, refused)
	require.Greater(t, read, 1000, "nearly nothing was read")
	require.Greater(t, refused, 1000, "nearly nothing was refused")
}

// Benchmark reads blocks with the library alone and by the shortcut; transactions says
// how many a block has, and cpu how much processor time this process has used so far.
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
