package index_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/index"
	"quorate/internal/node"
)

// fakeNode serves the blocks of a chain as avalanchego does. Its fields may be
// changed while holding mu.
type fakeNode struct {
	chain *pchaintest.Chain
	url   string

	mu sync.Mutex
	// accepted is how many blocks of the chain there are, genesis included.
	accepted uint64
	// ranges says whether the index API is on; missing is how many of the first
	// blocks it does not have, because it was not always.
	ranges  bool
	missing uint64
	// most is the greatest range that it answers in time; 0 means any.
	most uint64
	// short bounds how many containers it gives, whatever it is asked for; 0 means
	// any number.
	short uint64
	// forbidden answers the index API with a status that no node gives.
	forbidden bool
	// broken cuts connections, if it says so.
	broken func() bool
	// asked gets the first height of each requested block or range. It may block.
	asked func(height uint64)
	// calls counts what was asked, by method.
	calls map[string]int
}

func newFakeNode(t testing.TB, chain *pchaintest.Chain, ranges bool) *fakeNode {
	n := &fakeNode{chain: chain, accepted: chain.Next(), ranges: ranges, calls: make(map[string]int)}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *fakeNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *fakeNode) count(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     uint64 `json:"id"`
		Method string `json:"method"`
		Params struct {
			Height     avajson.Uint64 `json:"height"`
			StartIndex avajson.Uint64 `json:"startIndex"`
			NumToFetch avajson.Uint64 `json:"numToFetch"`
		} `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	asked, height := n.asked, uint64(call.Params.Height)
	if call.Method == "index.getContainerRange" {
		height = uint64(call.Params.StartIndex) + 1 + n.missing
	}
	n.mu.Unlock()
	if asked != nil {
		asked(height)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[call.Method]++
	if n.broken != nil && n.broken() {
		panic(http.ErrAbortHandler)
	}
	fail := func(format string, args ...any) {
		message, _ := json.Marshal(fmt.Sprintf(format, args...))
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":%s,"data":null},"id":%d}`, message, call.ID)
	}
	result := func(v any) {
		text, _ := json.Marshal(v)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","result":%s,"id":%d}`, text, call.ID)
	}
	switch r.URL.Path + " " + call.Method {
	case "/ext/bc/P platform.getHeight":
		result(map[string]any{"height": avajson.Uint64(n.accepted - 1)})
	case "/ext/bc/P platform.getBlockByHeight":
		if uint64(call.Params.Height) >= n.accepted {
			fail("couldn't get block at height %d: not found", call.Params.Height)
			return
		}
		text, _ := formatting.Encode(formatting.Hex, n.chain.Blocks[call.Params.Height].Bare)
		result(map[string]any{"block": text, "encoding": "hex"})
	case "/ext/index/P/block index.getContainerRange":
		start, count := uint64(call.Params.StartIndex), uint64(call.Params.NumToFetch)
		last := n.accepted - n.missing - 2
		switch {
		case n.forbidden:
			http.Error(w, "not here", http.StatusForbidden)
		case !n.ranges:
			http.NotFound(w, r)
		case count == 0 || count > 1024:
			fail("numToFetch must be in [1,1024] but is %d", count)
		case n.accepted <= n.missing+1:
			fail("no containers have been accepted")
		case start > last:
			fail("start index (%d) > last accepted index (%d)", start, last)
		case n.most > 0 && count > n.most:
			panic(http.ErrAbortHandler)
		default:
			if n.short > 0 {
				count = min(count, n.short)
			}
			containers := []map[string]any{}
			for i := start; i <= last && i < start+count; i++ {
				text, _ := formatting.Encode(formatting.Hex, n.chain.Blocks[i+1+n.missing].Enveloped)
				containers = append(containers, map[string]any{
					"id": ids.ID{1}, "bytes": text, "timestamp": time.Unix(0, 1), "encoding": "hex", "index": avajson.Uint64(i),
				})
			}
			result(map[string]any{"containers": containers})
		}
	default:
		http.NotFound(w, r)
	}
}

// source is a source of the P-Chain that asks nodes over HTTP.
func source(t testing.TB, nodes ...*fakeNode) *index.PChainSource {
	t.Helper()
	var endpoints []string
	for _, n := range nodes {
		endpoints = append(endpoints, n.url)
	}
	client, err := node.New(node.Options{Endpoints: endpoints})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return index.NewPChainSource(client, nil)
}
