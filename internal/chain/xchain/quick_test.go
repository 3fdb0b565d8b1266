package xchain_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/linear/lineartest"
	"quorate/internal/chain/xchain"
	"quorate/internal/cputime"
	"quorate/internal/simnet/history"
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
	return lineartest.RequireSame(t, b, xchain.QuickBlock, d.SlowBlock)
}

func requireSameTx(t testing.TB, d *xchain.Decoder, b []byte) bool {
	return lineartest.RequireSame(t, b, xchain.QuickTx, d.SlowTx)
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
	lineartest.Spoil(t, rng, all, func(b []byte) bool { return requireSame(t, d, b) })
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

// BenchmarkBlocks reads the blocks of a history, with the library alone and by the
// shortcut.
func BenchmarkBlocks(b *testing.B) {
	all, _ := made(b, 1, 10_000)
	lineartest.Benchmark(b, cputime.Used, all, xchain.QuickBlock, newDecoder(b).SlowBlock, func(parsed *xchain.Block) int { return len(parsed.Txs) })
}
