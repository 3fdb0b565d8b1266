package pchain_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/linear/lineartest"
	"quorate/internal/chain/pchain"
	"quorate/internal/cputime"
	past "quorate/internal/simnet/history"
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
	return lineartest.RequireSame(t, b, pchain.QuickBlock, pchain.SlowBlock)
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
	lineartest.Spoil(t, rng, all, func(b []byte) bool { return requireSame(t, b) })
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

// BenchmarkBlocks reads the blocks of a history, with the library alone and by the
// shortcut.
func BenchmarkBlocks(b *testing.B) {
	lineartest.Benchmark(b, cputime.Used, made(b, 1, 10_000), pchain.QuickBlock, pchain.SlowBlock, func(parsed *pchain.Block) int {
		if parsed.Proposal != nil {
			return len(parsed.Txs) + 1
		}
		return len(parsed.Txs)
	})
}
