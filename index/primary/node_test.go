package primary_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/chain/genesis"
	"quorate/index/ledger"
	"quorate/node"
	"quorate/simnet/history"
)

// testNode is a node with a history on all chains, and with vertices from before the
// X-Chain had blocks.
type testNode struct {
	*history.Node
	url      string
	genesis  *genesis.Genesis
	vertices []indexer.FormattedContainer
	// withoutIndex turns the index of blocks off, away cuts every connection.
	withoutIndex, away atomic.Bool
	calls              atomic.Int64
	// right is what outputs are answered from; nil answers none.
	right *ledger.Record
}

// networkID is a network that the library knows, so that clients find its genesis.
const networkID = 12345

func newTestNode(t testing.TB, seed uint64, txs int) *testNode {
	t.Helper()
	generator, err := history.New(history.Options{Seed: seed, NetworkID: networkID, Txs: txs, Record: true})
	require.NoError(t, err)
	past, err := history.NewNode(generator, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = past.Close() })
	n := &testNode{Node: past, vertices: makeVertices(t, 300)}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	require.NoError(t, past.Grow(t.Context(), 1)) // the genesis blocks, at least
	_, n.genesis = connect(t, n.url)
	return n
}

// makeVertices makes a chain of vertices, as the index API gives them, that ends with
// the one that ends all.
func makeVertices(t testing.TB, n int) (all []indexer.FormattedContainer) {
	t.Helper()
	add := func(b []byte, id ids.ID) {
		text, err := formatting.Encode(formatting.Hex, b)
		require.NoError(t, err)
		all = append(all, indexer.FormattedContainer{
			ID: id, Bytes: text, Timestamp: time.Unix(int64(1000+len(all)), 0).UTC(), Encoding: formatting.Hex, Index: avajson.Uint64(len(all)),
		})
	}
	parents := []ids.ID{{1}}
	for i := range n {
		v, err := vertex.Build(ids.ID{'X'}, uint64(i+1), parents, [][]byte{binaryOf(i)})
		require.NoError(t, err)
		add(v.Bytes(), v.ID())
		parents = []ids.ID{v.ID()}
	}
	stop, err := vertex.BuildStopVertex(ids.ID{'X'}, uint64(n+1), parents)
	require.NoError(t, err)
	add(stop.Bytes(), stop.ID())
	return all
}

func binaryOf(i int) []byte { return []byte(strconv.Itoa(i)) }

func (n *testNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.calls.Add(1)
	if n.away.Load() {
		panic(http.ErrAbortHandler)
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
	switch {
	case method == "info.getNetworkID":
		return map[string]any{"networkID": strconv.Itoa(networkID)}, nil
	case strings.HasPrefix(path, "/ext/index/") && path != "/ext/index/X/vtx" && n.withoutIndex.Load():
		return nil, history.ErrNotServed
	case path == "/ext/index/X/vtx" && n.vertices != nil:
		var args indexer.GetContainerRangeArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		if int(args.StartIndex) >= len(n.vertices) {
			return nil, fmt.Errorf("start index (%d) > last accepted index (%d)", args.StartIndex, len(n.vertices)-1)
		}
		// A few at a time, so that it takes a while.
		rest := n.vertices[args.StartIndex:]
		return indexer.GetContainerRangeResponse{Containers: rest[:min(len(rest), int(args.NumToFetch), 10)]}, nil
	}
	if n.right != nil && strings.HasSuffix(method, ".getUTXOs") {
		return n.utxos(map[string]string{"platform": "P", "avm": "X", "avax": "C"}[strings.TrimSuffix(method, ".getUTXOs")], params, n.right)
	}
	return n.Call(path, method, params)
}

// connect finds out about a node what whoever records it has to know.
func connect(t testing.TB, url string) (*node.Client, *genesis.Genesis) {
	t.Helper()
	client, g, err := dial(url)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, g
}
