package network

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/formatting"

	"quorate/internal/node"
)

// nodesAt answers calls for the P-Chain's height and blocks, by host. All blocks are equal. A node at height 0 refuses
// connections.
type nodesAt map[string]*atomic.Uint64

func (n nodesAt) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	height := n[r.URL.Host].Load()
	if height == 0 {
		return nil, fmt.Errorf("%s refuses the connection", r.URL.Host)
	}
	block, err := formatting.Encode(formatting.Hex, []byte("block"))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"height":"%d","block":"%s","encoding":"hex"}}`, height, block)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, err
}

// After a failure of the first node, the second one is asked for everything, unless it is stuck at an old height.
func TestStuckNodeIsNotAskedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := nodesAt{"first": new(atomic.Uint64), "second": new(atomic.Uint64)}
		client, err := node.New(node.Options{Endpoints: []string{"http://first", "http://second"}, HTTP: &http.Client{Transport: nodes}})
		require.NoError(t, err)
		j := newJudge(&Network{Node: client}, slog.New(slog.DiscardHandler))
		require.NotNil(t, j)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.Run(ctx) }()
		defer func() { cancel(); <-done }()
		height := func() uint64 {
			h, err := client.Height(t.Context())
			require.NoError(t, err)
			return h
		}

		nodes["first"].Store(7)
		nodes["second"].Store(7)
		require.Equal(t, uint64(7), height())
		nodes["first"].Store(0)
		require.Equal(t, uint64(7), height())
		nodes["first"].Store(8)
		time.Sleep(10 * time.Second)
		require.Equal(t, uint64(7), height(), "nodes may differ by a block")
		time.Sleep(time.Minute)
		require.Equal(t, uint64(8), height())
	})
}

func TestSingleSourceIsNotJudged(t *testing.T) {
	client, err := node.New(node.Options{Endpoints: []string{"http://only"}})
	require.NoError(t, err)
	require.Nil(t, newJudge(&Network{Node: client}, slog.New(slog.DiscardHandler)))
}
