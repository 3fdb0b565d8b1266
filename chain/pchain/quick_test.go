package pchain_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/chain/pchain"
	past "quorate/simnet/history"
)

// made are the P-Chain blocks of a made-up history that has all kinds, but genesis.
func made(t testing.TB, seed uint64, transactions int) (blocks [][]byte) {
	t.Helper()
	g, err := past.New(past.Options{Seed: seed, Txs: transactions})
	require.NoError(t, err)
	for g.Txs() < transactions || g.Pending() > 0 {
		b, err := g.Next()
		require.NoError(t, err)
		if b.Chain == past.P && b.Height > 0 {
			blocks = append(blocks, b.Bytes)
		}
	}
	return blocks
}

// requireSame has the shortcut either read a block as the library does, or not at all,
// and tells whether it did.
func requireSame(t testing.TB, b []byte) bool {
	quick := pchain.QuickBlock(b)
	if quick == nil {
		return false
	}
	slow, err := pchain.SlowBlock(b)
	require.NoError(t, err, "the shortcut read what the library refuses")
	require.Equal(t, slow, quick)
	return true
}

// TestShortcut reads blocks of all kinds with and without the library, which must make
// no difference, and knows them all.
func TestShortcut(t *testing.T) {
	kinds, types := make(map[pchain.Kind]int), make(map[string]int)
	for seed := range uint64(3) {
		for _, b := range made(t, seed, 3000) {
			require.True(t, requireSame(t, b), "a block that the shortcut does not know: %x", b)
			parsed := pchain.QuickBlock(b)
			kinds[parsed.Kind]++
			for _, tx := range append(parsed.Txs, parsed.Proposal) {
				if tx != nil {
					types[fmt.Sprintf("%T", tx.Unsigned)]++
				}
			}
		}
	}
	for _, k := range knownKinds() {
		b := must(block.NewBanffStandardBlock(started, ids.ID{1}, 9, []*txs.Tx{accepted(k)}))
		require.True(t, requireSame(t, b.Bytes()), "%T is not known to the shortcut", k)
		types[fmt.Sprintf("%T", k)]++
	}
	require.Len(t, kinds, 5, "kinds of blocks: %v", kinds)
	require.Len(t, types, 23, "kinds of transactions: %v", types)
}

func knownKinds() (all []txs.UnsignedTx) {
	for _, k := range kinds() {
		all = append(all, k.tx)
	}
	return all
}

// TestShortcutOfTheSpoilt changes, cuts and lengthens blocks at every place.
func TestShortcutOfTheSpoilt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := made(t, 9, 1500)
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
			note(requireSame(t, spoilt))
		}
		for range 20 {
			note(requireSame(t, b[:rng.IntN(len(b))]))
			note(requireSame(t, append(append([]byte(nil), b...), byte(rng.IntN(3)))))
			// A length that is far too large, or too small.
			spoilt := append([]byte(nil), b...)
			copy(spoilt[rng.IntN(len(b)-4):], []byte{byte(rng.IntN(2)) * 0x7f, byte(rng.IntN(2)) * 255, 0, byte(rng.IntN(4))})
			note(requireSame(t, spoilt))
		}
	}
	t.Logf("%d read as the library does, %d left to it", read, refused)
	require.Greater(t, read, 1000, "nearly nothing was read")
	require.Greater(t, refused, 1000, "nearly nothing was refused")
}

// FuzzShortcut has nothing read in another way than the library reads it.
func FuzzShortcut(f *testing.F) {
	for _, b := range made(f, 3, 300) {
		f.Add(b)
	}
	for _, k := range knownKinds() {
		f.Add(must(block.NewBanffStandardBlock(started, ids.ID{1}, 9, []*txs.Tx{accepted(k)})).Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) { requireSame(t, b) })
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkBlocks reads the blocks of a history, with the library alone and by the
// shortcut.
func BenchmarkBlocks(b *testing.B) {
	all := made(b, 1, 10_000)
	transactions, size := 0, 0
	for _, raw := range all {
		size += len(raw)
		parsed, err := pchain.SlowBlock(raw)
		require.NoError(b, err)
		transactions += len(parsed.Txs)
		if parsed.Proposal != nil {
			transactions++
		}
	}
	for _, way := range []struct {
		name string
		read func([]byte) (*pchain.Block, error)
	}{
		{"library", pchain.SlowBlock},
		{"shortcut", func(raw []byte) (*pchain.Block, error) { return pchain.QuickBlock(raw), nil }},
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
