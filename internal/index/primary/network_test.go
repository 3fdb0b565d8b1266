package primary_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// withoutVertices is a node that has lost its vertices.
type withoutVertices struct{ primary.Node }

func (n withoutVertices) ContainersUpTo(ctx context.Context, of node.Index, last node.Container, start uint64, most int) ([]node.Container, error) {
	if of == node.XChainVertices {
		return nil, errors.New("they are lost")
	}
	return n.Node.ContainersUpTo(ctx, of, last, start, most)
}

// TestTroubleWithVerticesIsTold finds in the status of the X-Chain why its vertices are
// not recorded, from who records and from who watches.
func TestTroubleWithVerticesIsTold(t *testing.T) {
	generator, err := history.New(history.Options{Seed: 3, NetworkID: networkID, Txs: 100, EarlyTxs: 20})
	require.NoError(t, err)
	past, err := history.NewNode(generator, t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, past.Close()) }()
	server := httptest.NewServer(&testNode{Node: past})
	defer server.Close()
	require.NoError(t, past.Grow(t.Context(), 100))
	client, g := connect(t, server.URL)
	s := store.NewMemory()
	defer s.Close()
	o := options(client, g, s)
	o.Node = withoutVertices{client}
	chains, err := primary.New(o)
	require.NoError(t, err)
	watcher, err := primary.New(o)
	require.NoError(t, err)
	watcher.RecordedBy(chains)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, chains.Run(ctx))
	}()
	for name, one := range map[string]*primary.Network{"records": chains, "watches": watcher} {
		var got index.Status
		require.Eventually(t, func() bool {
			got = one.Status()[index.XChain]
			return got.State == index.Following && got.Note == "vertices are not recorded: they are lost"
		}, time.Minute, 5*time.Millisecond, "%s: %+v", name, &got)
		require.Empty(t, one.Status()[index.PChain].Note)
	}
	cancel()
	<-ended
}
