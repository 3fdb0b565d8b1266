package primary_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// mortal is a store that allows a number of commits and then simulates the death of the process.
type mortal struct {
	store.Store
	left atomic.Int64
	died context.CancelFunc
}

func (m *mortal) Commit(ctx context.Context, b *store.Batch) error {
	if m.left.Add(-1) < 0 {
		m.died()
		return store.ErrClosed
	}
	return m.Store.Commit(ctx, b)
}

// life runs a process on a store until it dies after a number of commits, or until its rebuild is done. The index
// serves reads meanwhile.
func life(t *testing.T, n *testNode, raw store.Store, commits int64) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
	defer end()
	m := &mortal{Store: raw, died: end}
	m.left.Store(commits)
	slots, err := index.OpenSlots(ctx, m, index.PrimarySlots, primary.Forms()...)
	require.NoError(t, err)
	client, g := connect(t, n.url)

	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { // indexes new blocks
		for ctx.Err() == nil {
			chains, err := primary.New(options(n.url, client, g, slots.Store()))
			if !assert.NoError(t, err) {
				return
			}
			if err := chains.Run(ctx); ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
				assert.NoError(t, err, "the index that serves")
				return
			}
		}
	})
	running.Go(func() { // rebuilds
		r := index.Rebuilder{Open: func(_ context.Context, beside store.Store, _ func(string)) ([]index.Part, error) {
			o := options(n.url, client, g, beside)
			o.Beside = true
			chains, err := primary.New(o)
			return []index.Part{chains}, err
		}, Poll: time.Millisecond, Grace: 200 * time.Millisecond, Log: quiet}
		if err := slots.Run(ctx, r); ctx.Err() == nil {
			assert.NoError(t, err, "the rebuild")
		}
	})
	running.Go(func() { // reads
		defer end()
		name := index.Cursor(networkID, index.XChain, "ledger")
		for before := uint64(0); ctx.Err() == nil; {
			at, err := store.ReadCursor(t.Context(), slots.Store(), name)
			if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, at.Next, max(before, 1), "the index that serves goes back") {
				return
			}
			before = at.Next
			stage, err := slots.Stage(t.Context())
			if !assert.NoError(t, err) || stage == index.NoRebuild {
				return
			}
		}
	})
}

// besideEngines returns the engines on which an index is rebuilt.
func besideEngines(t *testing.T) map[string]func() store.Store {
	return map[string]func() store.Store{
		"memory": func() store.Store { return store.NewMemory() },
		"pebble": func() store.Store {
			s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir()})
			require.NoError(t, err)
			return s
		},
		"postgres": func() store.Store {
			url, err := pgserver.Run(t).Place(t.Context())
			require.NoError(t, err)
			s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: url})
			require.NoError(t, err)
			return s
		},
	}
}

// TestRebuiltBeside rebuilds a damaged index twice, in processes that die after any commit, while blocks arrive. The
// active index never goes back, and the final rows equal those of a fresh index.
func TestRebuiltBeside(t *testing.T) {
	for name, open := range besideEngines(t) {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t, 2, 600)
			require.NoError(t, n.Grow(t.Context(), 600))
			raw := open()
			t.Cleanup(func() { _ = raw.Close() })
			slots, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, primary.Forms()...)
			require.NoError(t, err)
			require.NoError(t, index.Upgrade(t.Context(), slots.Store(), quiet, primary.Forms()...))
			record(t, n, slots.Store())
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 5)) // any seed
			deaths := 0
			for round := range 2 {
				spoilQuietly(t, slots.Store())
				require.NoError(t, slots.Ask(t.Context()))
				require.ErrorIs(t, slots.Ask(t.Context()), index.ErrRebuilding)
				for stage := index.RebuildAsked; stage != index.NoRebuild; deaths++ {
					require.NoError(t, n.Grow(t.Context(), 3))
					life(t, n, raw, 1+rng.Int64N(25))
					stage, err = slots.Stage(t.Context())
					require.NoError(t, err)
					if deaths > 400 {
						t.Fatalf("the rebuild is at stage %q after %d deaths", stage, deaths)
					}
				}
				require.NoError(t, slots.Refresh(t.Context()))
				record(t, n, slots.Store())
				fresh := store.NewMemory()
				require.NoError(t, index.Upgrade(t.Context(), fresh, quiet, primary.Forms()...))
				record(t, n, fresh)
				require.Equal(t, digest(t, fresh), digest(t, slots.Store()), "rows after rebuild %d", round)
			}
			t.Logf("%d deaths", deaths)
			// A program without slots must not use the rest of the other slot.
			require.ErrorIs(t, index.Upgrade(t.Context(), raw, quiet, primary.Forms()...), index.ErrNewer)
		})
	}
}

// spoilQuietly damages rows that only data readers read.
func spoilQuietly(t *testing.T, s store.Store) {
	t.Helper()
	var b store.Batch
	for _, family := range []store.Family{store.FamilyTxPlace, store.FamilyBlockPlace, store.FamilyProposed, store.FamilyAssetTx, store.FamilyActivity, store.FamilyOwned, store.FamilySpentByTime} {
		n := 0
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			if n++; n%7 == 0 {
				b.Put(family, row.PK, append([]byte("wrong"), row.V...))
			}
		}
		b.Put(family, store.PK{P: []byte("wrong")}, []byte("row"))
	}
	require.NoError(t, s.Commit(t.Context(), &b))
}
