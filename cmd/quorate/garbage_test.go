package main

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGCPercent(t *testing.T) {
	for alive, want := range map[uint64]int{
		0: 800, 1 << 20: 800, 10 << 20: 600, 20 << 20: 300, 33 << 20: 150, 64 << 20: 100, 1 << 40: 100,
	} {
		require.Equal(t, want, gcPercent(alive), "%d bytes alive", alive)
	}
}

func TestSpaceCollectionsLeavesNoTrace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	spaceCollections(ctx)
	require.Equal(t, 70, debug.SetGCPercent(100), "decided by somebody else")
	spaceCollections(ctx)
	require.Equal(t, 100, debug.SetGCPercent(70))
}
