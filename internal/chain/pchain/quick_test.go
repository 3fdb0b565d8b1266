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

// made returns the P-Chain blocks of a generated history with all kinds of blocks, without the genesis.
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

// requireSame requires that the fast reader returns nil or the library's result. It reports whether it returned a
// block.
func requireSame(t testing.TB, b []byte) bool {
	return lineartest.RequireSame(t, b, pchain.QuickBlock, pchain.SlowBlock)
}

// TestQuickBlock requires that the fast reader knows blocks of all kinds and agrees with the library.
func TestQuickBlock(t *testing.T) {
	kinds, types := make(map[pchain.Kind]int), make(map[string]int)
	for seed := range uint64(3) {
		for _, b := range made(t, seed, 3000) {
			require.True(t, requireSame(t, b), "a block that the fast reader does not know: %x", b)
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
		require.True(t, requireSame(t, b.Bytes()), "%T is unknown to the fast reader", k)
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

// TestQuickBlockDamaged changes, truncates and extends blocks at every position.
func TestQuickBlockDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := made(t, 9, 1500)
	lineartest.Spoil(t, rng, all, func(b []byte) bool { return requireSame(t, b) })
}

// FuzzQuickBlock requires that the fast reader agrees with the library.
func FuzzQuickBlock(f *testing.F) {
	for _, b := range made(f, 3, 300) {
		f.Add(b)
	}
	for _, k := range knownKinds() {
		f.Add(must(block.NewBanffStandardBlock(started, ids.ID{1}, 9, []*txs.Tx{accepted(k)})).Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) { requireSame(t, b) })
}

// BenchmarkBlocks parses the blocks of a history with the library and with the fast reader.
func BenchmarkBlocks(b *testing.B) {
	lineartest.Benchmark(b, cputime.Used, made(b, 1, 10_000), pchain.QuickBlock, pchain.SlowBlock, func(parsed *pchain.Block) int {
		if parsed.Proposal != nil {
			return len(parsed.Txs) + 1
		}
		return len(parsed.Txs)
	})
}
