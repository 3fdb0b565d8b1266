package primary_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/envelope"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/lookup"
	"quorate/internal/index/primary"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// several simulates several nodes behind one address: each call reaches another node at another height. Some have
// state-synced the C-Chain and lack earlier blocks.
type several struct {
	first *history.Node

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
	// ends are the heights of the best node; guarded by mu.
	ends [3]uint64
	// failing is the percentage of failing calls; guarded by mu.
	failing int
}

var errTransient = errors.New("the node is busy")

// pick returns the node that answers a call.
func (s *several) pick() (*history.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.IntN(100) < s.failing {
		return nil, errTransient
	}
	at := s.ends
	for c := range at {
		if s.rng.IntN(3) == 0 {
			at[c] -= min(at[c], s.rng.Uint64N(20))
		}
	}
	synced := uint64(0)
	if s.rng.IntN(4) == 0 {
		synced = s.rng.Uint64N(s.ends[history.C] + 2)
	}
	return s.first.Other(at[history.P], at[history.X], at[history.C], synced), nil
}

// raise lets the best node accept more blocks of one chain or of all.
func (s *several) raise() (next heights) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chain := s.rng.IntN(4)
	for c := range s.ends {
		if chain == c || chain == 3 {
			s.ends[c] += 1 + s.rng.Uint64N(s.first.Height(history.Chain(c))/3+1)
		}
		s.ends[c] = min(s.ends[c], s.first.Height(history.Chain(c)))
	}
	s.failing = s.rng.IntN(15)
	early := uint64(len(s.first.Generator().Truth().EarlyTxIDs))
	return heights{index.PChain: s.ends[history.P] + 1, index.XChain: early + 1 + s.ends[history.X] + 1, index.CChain: s.ends[history.C] + 1}
}

// dyingStore is a store whose process dies before a commit.
type dyingStore struct {
	store.Store
	left atomic.Int64 // commits left
}

func (m *dyingStore) Commit(ctx context.Context, b *store.Batch) error {
	if m.left.Add(-1) < 0 {
		return store.ErrClosed
	}
	return m.Store.Commit(ctx, b)
}

// session indexes up to some heights or until the store dies.
func session(t *testing.T, n *testNode, rng *rand.Rand, s *dyingStore, until heights) {
	t.Helper()
	client, g := n.connect(t)
	o := options(n.url, client, g, s)
	o.WindowBytes = 1 << (12 + rng.IntN(10))
	chains, err := primary.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := chains.Run(ctx); err != nil {
			assert.ErrorIs(t, err, store.ErrClosed)
		}
	}()
	require.Eventually(t, func() bool {
		done := true
		for chain, status := range chains.Status() {
			if status.State == index.Stopped {
				require.ErrorIs(t, status.Err, store.ErrClosed, "chain %s", chain)
				return true
			}
			done = done && status.Next >= until[chain]
		}
		return done
	}, 2*time.Minute, time.Millisecond, "blocks below %v: %+v", until, chains.Status())
	cancel()
	<-ended
}

// digests returns hashes of a store's contents by family. It omits what depends on how a node returned blocks.
func digests(t testing.TB, s store.Reader) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, family := range store.Families() {
		if strings.HasPrefix(family.String(), "cont") || family == store.FamilyProposed {
			continue
		}
		h, rows := sha256.New(), 0
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			if family == store.FamilyCursor {
				row.V = row.V[:8]
			}
			_, _ = fmt.Fprintf(h, "%d %x %d %x %d %x\n", len(row.P), row.P, len(row.K), row.K, len(row.V), row.V)
			rows++
		}
		all[family.String()] = fmt.Sprintf("%d rows %x", rows, h.Sum(nil)[:8])
	}
	return all
}

// requireProposed requires that the lists of proposers follow from the stored containers: a block that came without its
// envelope has no proposer.
func requireProposed(t testing.TB, s store.Reader) {
	t.Helper()
	named := 0
	for _, name := range []string{index.PChain, index.XChain} {
		want := make(map[ids.NodeID][]uint64)
		from, until, err := index.ContainersUntil(t.Context(), s, networkID, name)
		require.NoError(t, err)
		for height := until; height > from; height-- {
			one, err := container.Chain{NetworkID: networkID, Name: name}.Get(t.Context(), s, height-1)
			require.NoError(t, err)
			if e, ok := envelope.Open(one.Bytes); ok && e.Proposer != ids.EmptyNodeID {
				want[e.Proposer] = append(want[e.Proposer], height-1)
				named++
			}
		}
		for by, heights := range want {
			got, err := lookup.New(s, networkID, name).Proposed(t.Context(), by, 0, until, int(until))
			require.NoError(t, err)
			assert.Equal(t, heights, got, "%s-Chain, %s", name, by)
		}
	}
	rows := 0
	for _, err := range store.Rows(t.Context(), s, store.FamilyProposed) {
		require.NoError(t, err)
		rows++
	}
	require.Equal(t, named, rows)
	require.Positive(t, rows)
}

// TestOrderDoesNotMatter indexes the same history repeatedly, with chains that grow in any order, batches of any size,
// any number of restarts and deaths between commits, and nodes that are at several heights, fail at times and list
// rewards in any order. The rows always equal those of an undisturbed run.
//
//test:plain
func TestOrderDoesNotMatter(t *testing.T) {
	runs, sessions := 12, 10
	if testing.Short() {
		runs, sessions = 3, 6
	}
	for seed := range uint64(runs) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 17))
			n := newTestNode(t, 100+seed, 400)
			require.NoError(t, n.Grow(t.Context(), 400))
			quiet := store.NewMemory()
			defer quiet.Close()
			record(t, n, quiet)
			want := digests(t, quiet)

			nodes := &several{first: n.Node, rng: rand.New(rand.NewPCG(seed, 18))}
			pick := nodes.pick
			n.disturb.Store(&pick)
			dir := t.TempDir()
			open := func() store.Store {
				s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir, CacheBytes: 4 << 20, MemTableBytes: 1 << 20})
				require.NoError(t, err)
				return s
			}
			deaths := 0
			for range sessions {
				s := &dyingStore{Store: open()}
				s.left.Store(math.MaxInt64)
				if rng.IntN(2) == 0 {
					s.left.Store(rng.Int64N(12))
				}
				session(t, n, rng, s, nodes.raise())
				if s.left.Load() < 0 {
					deaths++
				}
				require.NoError(t, s.Store.Close())
			}
			n.disturb.Store(nil)
			s := open()
			defer s.Close()
			record(t, n, s)
			got := digests(t, s)
			for _, family := range slices.Sorted(maps.Keys(want)) {
				assert.Equal(t, want[family], got[family], "family %s", family)
			}
			requireProposed(t, s)
			t.Logf("%v blocks in %d sessions, %d of which died", n.tips(), sessions, deaths)
		})
	}
}
