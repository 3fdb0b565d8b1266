package simnet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/simnet/evmchain"
	"quorate/internal/simnet/history"
)

// ethereum calls an EVM chain through the node API.
func ethereum(t *testing.T, n *Network, chain, method string, params any) (result json.RawMessage) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.NodeURL()+"/ext/bc/"+chain+"/rpc", bytes.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode, chain)
	var answer struct {
		Result json.RawMessage
		Error  any
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Nil(t, answer.Error)
	return answer.Result
}

func TestEVMChainsAreBehindTheNodeAPI(t *testing.T) {
	n := start(t, Options{
		Seed: 3, Validators: 2, L1Validators: 2,
		History: &History{Options: history.Options{Txs: 200}, Dir: t.TempDir()},
		EVM: []EVM{
			{Options: evmchain.Options{Txs: 200}, Dir: t.TempDir()},
			{Options: evmchain.Options{Txs: 100}, Dir: t.TempDir()},
			{Options: evmchain.Options{Txs: 100, ChainID: 5}, Dir: t.TempDir()},
		},
	})
	require.Len(t, n.EVM(), 3)
	_, l1 := n.L1()
	last := n.EVM()[2].Generator().BlockchainID()
	client := dial(t, n)
	for chain, want := range map[string]struct {
		node         int
		chainID      string
		blockchainID ids.ID
	}{
		"C": {0, "0xa868", n.Blockchain()}, n.Blockchain().String(): {0, "0xa868", n.Blockchain()},
		l1.String(): {1, "0x182b9", l1}, last.String(): {2, "0x5", last},
	} {
		require.JSONEq(t, `"`+want.chainID+`"`, string(ethereum(t, n, chain, "eth_chainId", []any{})))
		require.JSONEq(t, fmt.Sprintf(`"0x%x"`, n.EVM()[want.node].Tip()), string(ethereum(t, n, chain, "eth_blockNumber", []any{})))
		got := ethereum(t, n, chain, "eth_call", []any{map[string]any{"to": evmchain.Warp, "data": "0x4213cf78"}, "latest"})
		require.JSONEq(t, fmt.Sprintf(`"0x%x"`, want.blockchainID[:]), string(got))
		block := ethereum(t, n, chain, "eth_getBlockByNumber", []any{"latest", true})
		require.Equal(t, want.node == 0, bytes.Contains(block, []byte("extDataHash")), "headers of %s are the C-Chain's", chain)
	}
	subnetID, err := client.ValidatedBy(t.Context(), last)
	require.NoError(t, err)
	l1Subnet, _ := n.L1()
	require.Equal(t, l1Subnet, subnetID)
	require.Nil(t, n.evmAt("/ext/bc/X/rpc"))
	require.Nil(t, n.evmAt("/ext/bc/C/proposervm"))
}
