package primary_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"

	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/index/vertices"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// withoutVertices is a validator that has no vertices.
type withoutVertices struct{ history.Peer }

func (withoutVertices) Ancestors(context.Context, ids.NodeID, ids.ID, ids.ID, p2p.EngineType) ([][]byte, error) {
	return nil, errors.New("they are lost")
}

// TestVertexTroubleInStatus requires that the X-Chain's status says why its vertices are missing.
func TestVertexTroubleInStatus(t *testing.T) {
	s := store.NewMemory()
	defer s.Close()
	o := serveChains(t, history.Options{Seed: 3, NetworkID: networkID, Txs: 100, EarlyTxs: 20}, s)
	o.Peers = withoutVertices{}
	chains, err := primary.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, chains.Run(ctx))
	}()
	var got index.Status
	require.Eventually(t, func() bool {
		got = chains.Status()[index.XChain]
		return got.State == index.Retrying && errors.Is(got.Err, index.ErrVerticesMissing) && strings.Contains(got.Note, "no validator that is connected answers")
	}, time.Minute, 5*time.Millisecond, "%+v", &got)
	require.Empty(t, chains.Status()[index.PChain].Note)
	cancel()
	<-ended
}

// TestTroubleOfAnotherProcess requires that a process which watches says why the vertices are missing that another
// process fetches, and stops saying so when they are there.
func TestTroubleOfAnotherProcess(t *testing.T) {
	s := store.NewMemory()
	defer s.Close()
	o := serveChains(t, history.Options{Seed: 3, NetworkID: networkID, Txs: 100, EarlyTxs: 20}, s)
	o.Shared = true
	watched, err := primary.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { assert.NoError(t, watched.Watch(ctx)) })
	run := func(peers vertices.Peers, until func(index.Status) bool) {
		o.Peers = peers
		indexer, err := primary.New(o)
		require.NoError(t, err)
		ctx, end := context.WithCancel(ctx)
		var indexing sync.WaitGroup
		defer indexing.Wait()
		defer end()
		indexing.Go(func() { assert.NoError(t, indexer.Run(ctx)) })
		var got index.Status
		require.Eventually(t, func() bool {
			got = watched.Status()[index.XChain]
			return until(got)
		}, time.Minute, 5*time.Millisecond, "%+v", &got)
	}
	peers := o.Peers
	run(withoutVertices{}, func(got index.Status) bool {
		return got.State == index.Retrying && got.Failing != "" && strings.Contains(got.Note, "no validator that is connected answers")
	})
	require.Empty(t, watched.Status()[index.PChain].Note)
	run(peers, func(got index.Status) bool { return got.State == index.Following && got.Note == "" && got.Err == nil })
}

// serveChains serves generated chains of 100 transactions from a node until the test ends, and returns the options of a
// Network that indexes them into s.
func serveChains(t *testing.T, o history.Options, s store.Store) primary.Options {
	t.Helper()
	generator, err := history.New(o)
	require.NoError(t, err)
	past, err := history.NewNode(generator, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, past.Close()) })
	server := httptest.NewServer(&testNode{Node: past})
	t.Cleanup(server.Close)
	require.NoError(t, past.Grow(t.Context(), 100))
	client, g := connect(t, server.URL)
	return options(server.URL, client, g, s)
}

// unmatchable is a store in which atomic transfers cannot be read.
type unmatchable struct {
	store.Store
	err error
}

func (s unmatchable) Scan(ctx context.Context, f store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	if f == store.FamilyAtomic {
		return nil, s.err
	}
	return s.Store.Scan(ctx, f, p, lo, hi, dir, limit)
}

// TestMatcherFailureInStatus checks that a chain does not read as up to date while its atomic transfers are not
// matched, and that its own ledger goes on.
func TestMatcherFailureInStatus(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		state   index.State
		failing string
	}{
		"retried": {errors.New("disk on fire"), index.Retrying, "matching atomic transfers"},
		"final":   {store.ErrCorrupt, index.Stopped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMemory()
			defer s.Close()
			o := serveChains(t, history.Options{Seed: 3, NetworkID: networkID, Txs: 100}, unmatchable{s, test.err})
			chains, err := primary.New(o)
			require.NoError(t, err)
			// As after a rebuild of the index.
			serving, err := primary.New(o)
			require.NoError(t, err)
			serving.IndexedBy(chains)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				assert.NoError(t, chains.Run(ctx))
			}()
			for _, chain := range []string{index.PChain, index.XChain, index.CChain} {
				var got index.Status
				require.Eventually(t, func() bool {
					got = chains.ChainStatus(chain)
					return got.State == test.state && errors.Is(got.Err, test.err) && got.Failing == test.failing && got.Next > 0 && got.TipKnown && got.Lag() == 0
				}, time.Minute, 5*time.Millisecond, "%s: %+v", chain, &got)
				require.Equal(t, got, chains.Status()[chain])
				require.Equal(t, got, serving.ChainStatus(chain))
				require.Eventually(t, func() bool { return chains.LedgerStatus(chain).State == index.Following }, time.Minute, 5*time.Millisecond)
			}
			cancel()
			<-ended
		})
	}
}
