package evm_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// source has the blocks of a past.
type source []*chain.Block

func (s source) Tip(context.Context) (uint64, error) { return uint64(len(s) - 1), nil }

func (s source) Fetch(_ context.Context, from uint64, n int) ([]index.Block[*chain.Block], error) {
	var blocks []index.Block[*chain.Block]
	for _, b := range s[from:min(int(from)+n, len(s))] {
		blocks = append(blocks, index.Block[*chain.Block]{Height: b.Number, ID: ids.ID(b.Hash), ParentID: ids.ID(b.ParentHash), Size: 1000, Content: b})
	}
	return blocks, nil
}

// TestPipeline indexes a history with pipelines that end at random moments, and gets the same rows.
func TestPipeline(t *testing.T) {
	p := newPast(8, pastOptions{blocks: 3000})
	plain := newWorld(t, p, store.NewMemory())
	plain.advance(len(p.blocks))
	want := rows(t, plain.store)
	engines(t, func(t *testing.T, s store.Store) {
		rng := rand.New(rand.NewPCG(1, 1))
		caughtUp := make(chan struct{})
		for round := 0; ; round++ {
			ctx, cancel := context.WithCancel(t.Context())
			pipeline, err := index.New(index.Options[*chain.Block]{
				NetworkID: network, Chain: chainID.String(), Source: source(p.blocks), Store: s,
				Projections: []index.Projection[*chain.Block]{testProjection()}, WindowBytes: 100_000, // many small batches
				Committed: func(next uint64) {
					if next == uint64(len(p.blocks)) {
						close(caughtUp)
					}
				},
			})
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() { ended <- pipeline.Run(ctx) }()
			done := false
			select {
			case <-caughtUp:
				done = true
			case <-time.After(time.Duration(rng.IntN(20*(round+1))) * time.Millisecond):
			}
			cancel()
			require.NoError(t, <-ended)
			select {
			case <-caughtUp:
				done = true
			default:
			}
			if done {
				t.Logf("caught up in round %d", round)
				break
			}
		}
		require.Equal(t, want, rows(t, s))
	})
}

// rows counts and hashes what the projection wrote.
func rows(t testing.TB, s store.Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, family := range store.Families() {
		if !slices.Contains(evm.Form().Families, family) || family == store.FamilyEVMUntraced || family == store.FamilyEVMICMLog {
			continue // these depend on where the process restarted
		}
		for one, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			all[family.String()+string(one.P)+"/"+string(one.K)] = string(one.V)
		}
	}
	return all
}
