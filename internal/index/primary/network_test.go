package primary_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"

	"quorate/internal/index"
	"quorate/internal/index/primary"
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
	o := options(server.URL, client, g, s)
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
