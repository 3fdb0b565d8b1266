package network

import (
	"context"
	"encoding/json"
	"errors"
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
	"quorate/internal/node/judge"
)

// nodesAt answers calls for the heights and blocks of the P-Chain and of an EVM chain, by host. All blocks are equal. A
// node at height 0 refuses connections.
type nodesAt map[string]*atomic.Uint64

func (n nodesAt) RoundTrip(r *http.Request) (*http.Response, error) {
	var call struct {
		ID     uint64
		Method string
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	height := n[r.URL.Host].Load()
	if height == 0 {
		return nil, fmt.Errorf("%s refuses the connection", r.URL.Host)
	}
	form := "%s"
	if strings.HasPrefix(string(body), "[") { // a batch of one call
		form, body = "[%s]", body[1:len(body)-1]
	}
	if err := json.Unmarshal(body, &call); err != nil {
		return nil, err
	}
	block, err := formatting.Encode(formatting.Hex, []byte("block"))
	result, known := map[string]string{
		"platform.getHeight":        fmt.Sprintf(`{"height":"%d"}`, height),
		"platform.getBlockByHeight": fmt.Sprintf(`{"block":"%s","encoding":"hex"}`, block),
		"eth_blockNumber":           fmt.Sprintf(`"0x%x"`, height),
		"eth_getBlockByNumber":      fmt.Sprintf(`{"hash":"0x%064x"}`, 1),
	}[call.Method]
	if !known {
		return nil, fmt.Errorf("%s is unknown", call.Method)
	}
	text := fmt.Sprintf(form, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, call.ID, result))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, err
}

// After a failure of the first node, the second one is asked for everything, unless it is stuck at an old height.
func TestStuckNodeIsNotAskedForLong(t *testing.T) {
	for name, of := range map[string]func(c *node.Client) (*judge.Judge, func(context.Context) (uint64, error)){
		"P-Chain": func(c *node.Client) (*judge.Judge, func(context.Context) (uint64, error)) {
			return newJudge(&Network{Node: c}, slog.New(slog.DiscardHandler)), c.Height
		},
		"EVM chain": func(c *node.Client) (*judge.Judge, func(context.Context) (uint64, error)) {
			chain := evmChain{client: c, own: true}
			return newEVMJudge(chain, "evm-1", slog.New(slog.DiscardHandler)), c.EVM("").Tip
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := nodesAt{"first": new(atomic.Uint64), "second": new(atomic.Uint64)}
				client, err := node.New(node.Options{Endpoints: []string{"http://first", "http://second"}, HTTP: &http.Client{Transport: nodes}})
				require.NoError(t, err)
				j, tip := of(client)
				require.NotNil(t, j)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); j.Run(ctx) }()
				defer func() { cancel(); <-done }()
				height := func() uint64 {
					h, err := tip(t.Context())
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
		})
	}
}

func TestSingleSourceIsNotJudged(t *testing.T) {
	client, err := node.New(node.Options{Endpoints: []string{"http://only"}})
	require.NoError(t, err)
	require.Nil(t, newJudge(&Network{Node: client}, slog.New(slog.DiscardHandler)))
	require.Nil(t, newEVMJudge(evmChain{client: client, own: true}, "evm-1", slog.New(slog.DiscardHandler)))
}

// Of a node that lies, only operators see the URL.
func TestOutvotedNodeIsHidden(t *testing.T) {
	err := outvoted([]judge.Verdict{
		{Node: "http://10.0.0.7:9650", Standing: node.Lags, Text: "behind"},
		{Node: "http://10.0.0.8:9650", Standing: node.Lies, Text: "its block at height 5 is another"},
	})
	require.ErrorContains(t, err, "http://10.0.0.8:9650: its block at height 5 is another")
	var hidden *CauseError
	require.ErrorAs(t, err, &hidden)
	require.NotContains(t, hidden.Public, "10.0.0.8")
	require.NoError(t, outvoted(nil))
}
