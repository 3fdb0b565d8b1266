package ledger_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/store"
)

// source supplies the blocks of a history.
type source []*chain.Block

func (s source) Tip(context.Context) (uint64, error) { return uint64(len(s) - 1), nil }

func (s source) Fetch(_ context.Context, from uint64, n int) ([]index.Block[*chain.Block], error) {
	var blocks []index.Block[*chain.Block]
	for _, b := range s[from:min(int(from)+n, len(s))] {
		one := index.Block[*chain.Block]{Height: b.Height, ID: b.ID, Size: 1000, Content: b}
		if b.Height > 0 {
			one.ParentID = s[b.Height-1].ID
		}
		blocks = append(blocks, one)
	}
	return blocks, nil
}

// TestPipelines indexes a history with a pipeline for each chain, restarted at random moments, and requires the same
// rows.
func TestPipelines(t *testing.T) {
	h := newHistory(8, historyOptions{steps: 3000, skew: 3, addresses: 5})
	plain := newWorld(t, h, store.NewMemory())
	plain.finish()
	engines(t, func(t *testing.T, s store.Store) {
		rng := rand.New(rand.NewPCG(1, 1))
		for round := 0; ; round++ {
			ctx, cancel := context.WithCancel(t.Context())
			matcher := ledger.NewMatcher(s, network, nil)
			matcher.CheckpointEvery(checkpointEvery)
			caughtUp := make(chan struct{}, len(chains))
			run := func(c ids.ID) *index.Pipeline[*chain.Block] {
				projections := []index.Projection[*chain.Block]{testProjection(c)}
				if c == pChain {
					projections = append(projections, subnets.NewProjection(network))
				}
				p, err := index.New(index.Options[*chain.Block]{
					NetworkID: network, Chain: c.String(), Source: source(h.blocks[c]), Store: s, Projections: projections,
					WindowBytes: 200_000, // many small batches
					Committed: func(next uint64) {
						matcher.Wake()
						if next == uint64(len(h.blocks[c])) {
							caughtUp <- struct{}{}
						}
					},
				})
				require.NoError(t, err)
				return p
			}
			var group sync.WaitGroup
			group.Go(func() {
				if err := matcher.Run(ctx); err != nil {
					t.Errorf("matcher: got %v, want nil", err)
				}
			})
			missing := 0
			for _, c := range chains {
				at, err := store.ReadCursor(t.Context(), s, index.Cursor(network, c.String(), "ledger"))
				require.NoError(t, err)
				if at.Next < uint64(len(h.blocks[c])) {
					missing++
				}
				p := run(c)
				group.Go(func() {
					if err := p.Run(ctx); err != nil {
						t.Errorf("pipeline: got %v, want nil", err)
					}
				})
			}
			deadline := time.After(time.Duration(rng.IntN(20*(round+1))) * time.Millisecond)
			for ended := false; missing > 0 && !ended; {
				select {
				case <-caughtUp:
					missing--
				case <-deadline:
					ended = true
				}
			}
			cancel()
			group.Wait()
			if missing == 0 {
				t.Logf("caught up in round %d", round)
				break
			}
		}
		last := ledger.NewMatcher(s, network, nil)
		last.CheckpointEvery(checkpointEvery)
		require.NoError(t, last.Settle(t.Context()))
		got, want := rows(t, s), rows(t, plain.store)
		for _, f := range []store.Family{store.FamilyIndexed, store.FamilySubnet, store.FamilySubnetFact} {
			delete(got, f.String()) // not a family of the ledger
			delete(want, f.String())
		}
		require.Equal(t, want, got)
	})
}

// shaky is a store that answers only some of the reads of blocks' outputs.
type shaky struct {
	store.Store
	rng    *rand.Rand
	failed int
}

func (s *shaky) Get(ctx context.Context, f store.Family, keys []store.PK) ([][]byte, error) {
	if f == store.FamilyOutput && s.rng.IntN(3) == 0 {
		s.failed++
		return nil, errors.New("SQLSTATE XX000")
	}
	return s.Store.Get(ctx, f, keys)
}

// TestPipelineWithFailingReads requires the same rows although the store often fails in the middle of a block.
func TestPipelineWithFailingReads(t *testing.T) {
	h := newHistory(8, historyOptions{steps: 1000, skew: 3, addresses: 5})
	plain := newWorld(t, h, store.NewMemory())
	plain.finish()
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		for _, c := range chains {
			ctx, cancel := context.WithCancel(t.Context())
			s := &shaky{Store: memory, rng: rand.New(rand.NewPCG(1, 1))}
			p, err := index.New(index.Options[*chain.Block]{
				NetworkID: network, Chain: c.String(), Source: source(h.blocks[c]), Store: s,
				Projections: []index.Projection[*chain.Block]{testProjection(c)},
				Committed: func(next uint64) {
					if next == uint64(len(h.blocks[c])) {
						cancel()
					}
				},
			})
			require.NoError(t, err)
			require.NoError(t, p.Run(ctx))
			require.Positive(t, s.failed)
		}
		last := ledger.NewMatcher(memory, network, nil)
		last.CheckpointEvery(checkpointEvery)
		require.NoError(t, last.Settle(t.Context()))
		got, want := rows(t, memory), rows(t, plain.store)
		delete(got, store.FamilyIndexed.String()) // not a family of the ledger
		delete(want, store.FamilyIndexed.String())
		require.Equal(t, want, got)
	})
}
