package evm_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers"
	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	api "quorate/handlers/evm"
	"quorate/internal/index/evm"
	"quorate/internal/node"
	"quorate/internal/webhook"
)

// chainIDs returns the chain IDs and the states of a list of chains in an answer.
func chainIDs(t *testing.T, h http.Handler, path, list string) (ids, states []string) {
	t.Helper()
	w := apitest.Get(h, path)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var answer map[string][]struct{ ChainID, Status string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	for _, c := range answer[list] {
		ids, states = append(ids, c.ChainID), append(states, c.Status)
	}
	return ids, states
}

func TestChains(t *testing.T) {
	f, late := newFake(), newFake()
	late.progress.Err = node.ErrUnavailable
	l1, mainnet := late.chain(), f.chain()
	l1.ChainID, l1.BlockchainID, l1.Primary, l1.Describe = 99_999, l1ID, false, nil
	mainnet.ChainID, mainnet.BlockchainID, mainnet.NetworkID = 43114, otherID, constants.MainnetID
	chains := new(api.Chains)
	require.NoError(t, chains.Set("fuji", []api.Chain{f.chain(), l1}, false))
	require.NoError(t, chains.Set("mainnet", []api.Chain{mainnet}, false))
	h := surface(t, compat.Auto, api.Options{Chains: chains})

	for path, want := range map[string][]string{
		"/v1/chains":              {"99999", "43114", "43113"}, // in the order of blockchain IDs
		"/v1/chains?network=fuji": {"99999", "43113"},
		"/v1/chains?network=testnet&feature=teleporter": {"99999", "43113"},
		"/v1/chains?network=mainnet":                    {"43114"},
		"/v1/chains?feature=webhooks":                   nil, // this instance sends none
	} {
		got, _ := chainIDs(t, h, path, "chains")
		require.Equal(t, want, got, path)
	}
	_, states := chainIDs(t, h, "/v1/chains?network=fuji", "chains")
	require.Equal(t, []string{"UNAVAILABLE", "OK"}, states)
	require.Contains(t, apitest.Get(h, "/v1/chains/43114").Body.String(), `"isTestnet":false`)
	unknown := apitest.Get(h, "/v1/chains/99999").Body.String()
	require.Contains(t, unknown, `"chainName":"","description":"","platformChainId":"`+l1ID.String()+`","vmName":"EVM","rpcUrl":"","isTestnet":true`)

	with, err := handlers.New(handlers.Options{EVM: api.Options{Chains: chains}, Webhooks: new(webhook.Book), PageKey: []byte("of these tests")})
	require.NoError(t, err)
	got, _ := chainIDs(t, with, "/v1/chains?feature=webhooks", "chains")
	require.Len(t, got, 3)

	none := surface(t, compat.Auto, api.Options{Chains: new(api.Chains)})
	require.JSONEq(t, `{"chains":[]}`, apitest.Get(none, "/v1/chains").Body.String())
	require.JSONEq(t, `{"indexedChains":[],"unindexedChains":[]}`, apitest.Get(none, "/v1/address/"+alice.Hex()+"/chains").Body.String())
	require.NoError(t, chains.Set("mainnet", nil, true))
	requireError(t, apitest.Get(h, "/v1/chains"), http.StatusServiceUnavailable, "this instance is starting")
}

// TestChainsOfAddress: an index that does not have all blocks cannot say that an address was never active.
func TestChainsOfAddress(t *testing.T) {
	f, other := newFake(), newFake()
	l1 := other.chain()
	l1.ChainID, l1.BlockchainID, l1.Primary = 99_999, l1ID, false
	h := surface(t, compat.Auto, api.Options{}, f.chain(), l1)
	path := "/v1/address/" + alice.Hex() + "/chains"
	ids, _ := chainIDs(t, h, path, "indexedChains")
	require.Equal(t, []string{"99999", "43113"}, ids)

	other.transactions, other.internals, other.transfers = nil, nil, nil
	require.Empty(t, apitest.Get(h, path).Header().Get("Indexed-Without"))
	ids, _ = chainIDs(t, h, path, "indexedChains")
	require.Equal(t, []string{"43113"}, ids)
	other.first, f.first = 7, 7
	require.Equal(t, "99999", apitest.Get(h, path).Header().Get("Indexed-Without"))

	other.progress.CaughtUp = false
	requireError(t, apitest.Get(h, path), http.StatusServiceUnavailable, "the index of chain "+l1ID.String()+" is still catching up")
	other.progress.CaughtUp = true
	other.err = &evm.OffError{Index: evm.AddressTransactions}
	w := apitest.Get(h, path)
	requireError(t, w, http.StatusServiceUnavailable, "this instance does not index it", "address_transactions")
	require.Contains(t, w.Body.String(), `"INDEX_OFF"`)
}
