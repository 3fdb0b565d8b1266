package primary_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"

	"quorate/internal/chain/genesis"
	"quorate/internal/index/ledger"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
)

// testNode is a node with a history on all chains, including pre-Cortina vertices.
type testNode struct {
	*history.Node
	url     string
	genesis *genesis.Genesis
	// withoutIndex disables the index API. away closes every connection.
	withoutIndex, away atomic.Bool
	calls              atomic.Int64
	// right is the ledger that answers requests for outputs; nil answers none.
	right *ledger.Index
	// disturb returns the node that answers a call, or an error; nil means this node answers all calls. An abandoned
	// request may still run when a test sets it.
	disturb atomic.Pointer[func() (*history.Node, error)]
}

// networkID is a network that the library knows, so that clients find its genesis.
const networkID = 12345

func newTestNode(t testing.TB, seed uint64, txs int) *testNode {
	t.Helper()
	generator, err := history.New(history.Options{Seed: seed, NetworkID: networkID, Txs: txs, EarlyTxs: min(txs/20, 200), Record: true})
	require.NoError(t, err)
	past, err := history.NewNode(generator, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = past.Close() })
	n := &testNode{Node: past}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	require.NoError(t, past.Grow(t.Context(), 1)) // at least the genesis blocks
	_, n.genesis = connect(t, n.url)
	return n
}

func (n *testNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.calls.Add(1)
	if n.away.Load() {
		panic(http.ErrAbortHandler)
	}
	if id, ok := strings.CutPrefix(r.URL.Path, peerPath); ok {
		n.serveAncestors(w, id)
		return
	}
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := n.answer(r.URL.Path, call.Method, call.Params)
	switch {
	case errors.Is(err, history.ErrNotServed):
		http.NotFound(w, r)
		return
	case err != nil:
		text, _ := json.Marshal(err.Error())
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":%s},"id":%s}`, text, call.ID)
		return
	}
	_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","result":`)
	if text, ok := result.(*history.Result); ok {
		_, _ = text.WriteTo(w)
	} else {
		_ = json.NewEncoder(w).Encode(result)
	}
	_, _ = fmt.Fprintf(w, `,"id":%s}`, call.ID)
}

func (n *testNode) answer(path, method string, params json.RawMessage) (any, error) {
	from := n.Node
	if disturb := n.disturb.Load(); disturb != nil {
		var err error
		if from, err = (*disturb)(); err != nil {
			return nil, err
		}
	}
	switch {
	case method == "info.getNetworkID":
		return map[string]any{"networkID": strconv.Itoa(networkID)}, nil
	case strings.HasPrefix(path, "/ext/index/") && strings.HasSuffix(path, "/block") && n.withoutIndex.Load():
		return nil, history.ErrNotServed
	}
	if n.right != nil && strings.HasSuffix(method, ".getUTXOs") {
		return n.utxos(map[string]string{"platform": "P", "avm": "X", "avax": "C"}[strings.TrimSuffix(method, ".getUTXOs")], params, n.right)
	}
	return from.Call(path, method, params)
}

// connect returns a client of the node and its genesis.
func (n *testNode) connect(t testing.TB) (*node.Client, *genesis.Genesis) {
	t.Helper()
	client, err := node.New(node.Options{Endpoints: []string{n.url}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, n.genesis
}

// peerPath is the path at which a testNode answers a peerAt.
const peerPath = "/peer/"

// peerAt is the URL of a testNode that answers as a validator over HTTP, possibly from another process.
type peerAt string

func (peerAt) ConnectedNodes() []ids.NodeID { return []ids.NodeID{{1}} }

func (p peerAt) Ancestors(ctx context.Context, _ ids.NodeID, _, id ids.ID, _ p2p.EngineType) (all [][]byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(p)+peerPath+id.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return all, json.NewDecoder(response.Body).Decode(&all)
}

func (n *testNode) serveAncestors(w http.ResponseWriter, text string) {
	id, err := ids.FromString(text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	all, err := n.Ancestors(id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(all[:min(len(all), 10)]) // small answers, so that indexing takes a while
}

// connect reads from a node what indexing requires.
func connect(t testing.TB, url string) (*node.Client, *genesis.Genesis) {
	t.Helper()
	client, g, err := dial(url)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, g
}
