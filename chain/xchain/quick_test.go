package xchain_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/chain/xchain"
	"quorate/simnet/history"
)

// made are the X-Chain blocks of a made-up history, and the transactions from before
// there were blocks.
func made(t testing.TB, seed uint64, transactions int) (blocks, early [][]byte) {
	t.Helper()
	g, err := history.New(history.Options{Seed: seed, Txs: transactions, EarlyTxs: transactions / 50})
	require.NoError(t, err)
	for g.Txs() < transactions || g.Pending() > 0 {
		b, err := g.Next()
		require.NoError(t, err)
		switch {
		case b.Chain != history.X:
		case b.Early:
			for _, tx := range b.Txs {
				early = append(early, tx.Bytes)
			}
		default:
			blocks = append(blocks, b.Bytes)
		}
	}
	return blocks, early
}

// requireSame has the shortcut either read a block as the library does, or not at all,
// and tells whether it did.
func requireSame(t testing.TB, d *xchain.Decoder, b []byte) bool {
	quick := xchain.QuickBlock(b)
	if quick == nil {
		return false
	}
	slow, err := d.SlowBlock(b)
	require.NoError(t, err, "the shortcut read what the library refuses")
	require.Equal(t, slow, quick)
	return true
}

func requireSameTx(t testing.TB, d *xchain.Decoder, b []byte) bool {
	quick := xchain.QuickTx(b)
	if quick == nil {
		return false
	}
	slow, err := d.SlowTx(b)
	require.NoError(t, err, "the shortcut read what the library refuses")
	require.Equal(t, slow, quick)
	return true
}

// TestShortcut reads blocks of all kinds with and without the library, which must make
// no difference, and knows them all.
func TestShortcut(t *testing.T) {
	d := newDecoder(t)
	types := make(map[string]int)
	for seed := range uint64(2) {
		blocks, early := made(t, seed, 6000)
		for _, b := range blocks {
			require.True(t, requireSame(t, d, b), "a block that the shortcut does not know: %x", b)
			for _, tx := range xchain.QuickBlock(b).Txs {
				types[fmt.Sprintf("%T", tx.Unsigned)]++
			}
		}
		require.NotEmpty(t, early)
		for _, tx := range early {
			require.True(t, requireSameTx(t, d, tx), "a transaction that the shortcut does not know: %x", tx)
		}
	}
	require.Len(t, types, 5, "kinds of transactions: %v", types)
	for name, k := range kinds() {
		tx := accepted(t, k.tx)
		require.True(t, requireSameTx(t, d, tx.Bytes()), "%s is not known to the shortcut", name)
		require.True(t, requireSame(t, d, blockOf(ids.ID{1}, 7, tx).Bytes()), "%s is not known to the shortcut", name)
	}
}

// TestShortcutOfTheSpoilt changes, cuts and lengthens blocks at every place.
func TestShortcutOfTheSpoilt(t *testing.T) {
	d, rng := newDecoder(t), rand.New(rand.NewPCG(1, 2))
	all, _ := made(t, 9, 6000)
	for _, k := range kinds() {
		for range 5 {
			all = append(all, blockOf(ids.ID{1}, 7, accepted(t, k.tx)).Bytes())
		}
	}
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
			note(requireSame(t, d, spoilt))
		}
		for range 20 {
			note(requireSame(t, d, b[:rng.IntN(len(b))]))
			note(requireSame(t, d, append(append([]byte(nil), b...), byte(rng.IntN(3)))))
			spoilt := append([]byte(nil), b...)
			copy(spoilt[rng.IntN(len(b)-4):], []byte{byte(rng.IntN(2)) * 0x7f, byte(rng.IntN(2)) * 255, 0, byte(rng.IntN(4))})
			note(requireSame(t, d, spoilt))
		}
	}
	t.Logf("%d read as the library does, %d left to it", read, refused)
	require.Greater(t, read, 1000, "nearly nothing was read")
	require.Greater(t, refused, 1000, "nearly nothing was refused")
}

// FuzzShortcut has nothing read in another way than the library reads it.
func FuzzShortcut(f *testing.F) {
	blocks, early := made(f, 3, 1000)
	for _, b := range append(blocks, early...) {
		f.Add(b)
	}
	for _, k := range kinds() {
		f.Add(blockOf(ids.ID{1}, 7, accepted(f, k.tx)).Bytes())
		f.Add(accepted(f, k.tx).Bytes())
	}
	d := newDecoder(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		requireSame(t, d, b)
		requireSameTx(t, d, b)
	})
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkBlocks reads the blocks of a history, with the library alone and by the
// shortcut.
func BenchmarkBlocks(b *testing.B) {
	d := newDecoder(b)
	all, _ := made(b, 1, 10_000)
	transactions, size := 0, 0
	for _, raw := range all {
		size += len(raw)
		parsed, err := d.SlowBlock(raw)
		require.NoError(b, err)
		transactions += len(parsed.Txs)
	}
	for _, way := range []struct {
		name string
		read func([]byte) (*xchain.Block, error)
	}{
		{"library", d.SlowBlock},
		{"shortcut", func(raw []byte) (*xchain.Block, error) { return xchain.QuickBlock(raw), nil }},
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
			b.ReportMetric(float64((cpu()-begun).Nanoseconds())/float64(b.N)/float64(transactions), "cpu-ns/tx")
			b.ReportMetric(float64(transactions), "tx/op")
			b.ReportMetric(float64(size)/float64(transactions), "encoded-B/tx")
		})
	}
}
