package evm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// TestRebuiltIndexLacks compares indexes of one history whose traces and first blocks were known to different nodes.
func TestRebuiltIndexLacks(t *testing.T) {
	p := newPast(11, pastOptions{blocks: 200})
	indexed := func(from int, untraced func(number uint64) bool) store.Store {
		part := *p.bare(untraced)
		part.blocks = part.blocks[from:]
		s := store.NewMemory()
		newWorld(t, &part, s).advance(len(part.blocks))
		return s
	}
	lacks := func(has, lacks store.Store) string {
		t.Helper()
		text, err := evm.Lacks(t.Context(), has, lacks, network, chainID)
		require.NoError(t, err)
		return text
	}
	none := func(uint64) bool { return false }
	all := func(uint64) bool { return true }
	whole, without := indexed(0, none), indexed(0, all)
	require.Empty(t, lacks(whole, whole))
	require.Empty(t, lacks(without, whole), "more traces than before")
	require.Empty(t, lacks(without, without))
	require.Contains(t, lacks(whole, without), "call traces of ")
	require.Empty(t, lacks(indexed(50, none), whole), "more blocks than before")
	require.Contains(t, lacks(whole, indexed(50, none)), "blocks 0 to 49 of chain ")
	require.Contains(t, lacks(whole, store.NewMemory()), "blocks 0 to 199 of chain ")
	require.Empty(t, lacks(store.NewMemory(), without))

	rng := rand.New(rand.NewPCG(11, 1))
	for range 50 {
		before, now := rng.Uint64N(100), rng.Uint64N(100)
		has := func(number uint64) bool { return (number*7919+13)%100 < before }
		later := func(number uint64) bool { return (number*104729+5)%100 < now }
		lost := false
		for _, b := range p.blocks {
			lost = lost || len(b.Transactions) > 0 && later(b.Number) && !has(b.Number)
		}
		require.Equal(t, lost, lacks(indexed(0, has), indexed(0, later)) != "", "%d and %d of 100 without traces", before, now)
	}
}
