package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/internal/node"
)

// chainNode is a node of one EVM chain.
type chainNode struct {
	blockchainID ids.ID
	chainID      uint64
	away         atomic.Bool
	calls        atomic.Int64
}

// ServeHTTP implements http.Handler for single calls and batches.
func (n *chainNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.calls.Add(1)
	if n.away.Load() {
		http.Error(w, "away", http.StatusInternalServerError)
		return
	}
	type call struct {
		ID     json.RawMessage
		Method string
	}
	var all []call
	var raw json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&raw)
	batch := json.Unmarshal(raw, &all) == nil
	if !batch {
		all = make([]call, 1)
		_ = json.Unmarshal(raw, &all[0])
	}
	var answers []string
	for _, c := range all {
		result := "null"
		switch c.Method {
		case "info.getBlockchainID":
			result = fmt.Sprintf(`{"blockchainID":%q}`, n.blockchainID)
		case "eth_chainId":
			result = fmt.Sprintf(`"0x%x"`, n.chainID)
		case "eth_call":
			result = fmt.Sprintf(`"0x%s"`, n.blockchainID.Hex())
		case "eth_blockNumber":
			result = `"0x5"`
		}
		answers = append(answers, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result))
	}
	text := strings.Join(answers, ",")
	if batch {
		text = "[" + text + "]"
	}
	_, _ = w.Write([]byte(text))
}

// TestChainsAreFoundByName finds chains by each of their names, whether or not other nodes answer.
func TestChainsAreFoundByName(t *testing.T) {
	c, l1, twin, again := &chainNode{blockchainID: ids.ID{1}, chainID: 43112}, &chainNode{blockchainID: ids.ID{2}, chainID: 7}, &chainNode{blockchainID: ids.ID{3}, chainID: 8}, &chainNode{blockchainID: ids.ID{4}, chainID: 8}
	var chains []evmChain
	for i, n := range []*chainNode{c, l1, l1, twin, again} {
		server := httptest.NewServer(n)
		defer server.Close()
		client, err := node.New(node.Options{Endpoints: []string{server.URL}})
		require.NoError(t, err)
		defer client.Close()
		chains = append(chains, evmChain{client: client, own: i > 0, name: fmt.Sprint("evm ", i)})
	}
	s := newSentMessages(5, chains)
	requireCode := func(name string, want aggregator.Code) {
		t.Helper()
		_, err := s.by(t.Context(), name, ids.ID{9})
		var failed *aggregator.Error
		require.True(t, errors.As(err, &failed), "%s: %v", name, err)
		require.Equal(t, want, failed.Code, "%s: %v", name, failed)
	}
	// The nodes of the fake chains do not know the transaction: the chain was found.
	const found = "UNKNOWN_TRANSACTION"
	twin.away.Store(true)
	requireCode("7", found) // although one node does not answer
	requireCode("8", found) // of the two only one is known
	requireCode("99", aggregator.CodeNodeUnavailable)
	twin.away.Store(false)
	for name, want := range map[string]aggregator.Code{
		"c-chain": found, "43112": found, ids.ID{1}.String(): found, "07": found, ids.ID{2}.String(): found, ids.ID{4}.String(): found,
		"99": evmmessage.CodeUnknownChain, ids.ID{9}.String(): evmmessage.CodeUnknownChain,
		"": evmmessage.CodeUnknownChain, "C": evmmessage.CodeUnknownChain, "-1": evmmessage.CodeUnknownChain, strings.Repeat("x", 1000): evmmessage.CodeUnknownChain,
	} {
		requireCode(name, want)
	}
	requireCode("8", evmmessage.CodeUnknownChain) // both are known by now
	calls := l1.calls.Load()
	requireCode("99", evmmessage.CodeUnknownChain)
	require.Equal(t, calls, l1.calls.Load(), "a known chain was asked again")
}
