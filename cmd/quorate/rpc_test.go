package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/simnet"
	"quorate/simnet/history"
)

// rpcAnswer is what came of a call.
type rpcAnswer struct {
	status int
	header http.Header
	body   string

	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func callRPC(t *testing.T, url, method, params string) rpcAnswer {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	a := rpcAnswer{status: response.StatusCode, header: response.Header, body: string(content)}
	if response.StatusCode == http.StatusOK {
		require.NoError(t, json.Unmarshal(content, &a), a.body)
	}
	return a
}

// A client of a node finds one below /ext, and one for each further network.
func TestNodeSurface(t *testing.T) {
	one, err := simnet.Start(simnet.Options{Seed: 21, NetworkID: 50001, History: &simnet.History{Options: history.Options{Txs: 50}}})
	require.NoError(t, err)
	defer one.Close()
	two, err := simnet.Start(simnet.Options{Seed: 22, NetworkID: 50002})
	require.NoError(t, err)
	defer two.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"mainnet": one, "fuji": two})
	defer s.stop(t)

	for path, id := range map[string]string{"/ext/info": "50001", "/mainnet/ext/info": "50001", "/fuji/ext/info": "50002", "/testnet/ext/info": "50002"} {
		for _, base := range []string{s.base, s.private} {
			a := callRPC(t, base+path, "info.getNetworkID", "{}")
			require.JSONEq(t, `{"networkID":"`+id+`"}`, string(a.Result), path)
			require.Regexp(t, "^NodeID-", a.header.Get("Node-Id"))
			require.Equal(t, "Origin", a.header.Get("Vary"))
		}
	}
	for _, path := range []string{"/ext/nothing", "/ext/info/", "/other/ext/info", "/ext/", "/mainnet/ext/"} {
		a := callRPC(t, s.base+path, "info.getNetworkID", "{}")
		require.Equal(t, http.StatusNotFound, a.status, path)
		require.Equal(t, "404 page not found\n", a.body, path)
	}
	var a rpcAnswer
	for path, want := range map[string]string{"/fuji/ext//info": "/fuji/ext/info", "//ext/info": "/ext/info", "/ext//info": "/ext/info"} {
		a = callRPC(t, s.base+path, "info.getNetworkID", "{}")
		require.Equal(t, http.StatusMovedPermanently, a.status, path)
		require.Equal(t, want, a.header.Get("Location"))
	}

	// What the service has no answer for is the nodes'.
	for _, path := range []string{"/ext/P", "/ext/bc/P", "/ext/bc/platform", "/ext/bc/11111111111111111111111111111111LpoYY"} {
		a := callRPC(t, s.base+path, "platform.getProposedHeight", "{}")
		require.Nil(t, a.Error, path)
		require.Contains(t, string(a.Result), "height", path)
	}
	a = callRPC(t, s.base+"/ext/info", "info.getBlockchainID", `{"alias":"X"}`)
	var reply struct{ BlockchainID string }
	require.NoError(t, json.Unmarshal(a.Result, &reply))
	for _, path := range []string{"/ext/X", "/ext/bc/avm", "/ext/bc/" + reply.BlockchainID} {
		for _, prefix := range []string{"avm", "xvm"} {
			a := callRPC(t, s.base+path, prefix+".getHeight", "{}")
			require.Nil(t, a.Error, path)
			require.Contains(t, string(a.Result), "height", path)
		}
	}
	// The rules of the other surfaces are not a node's.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, s.base+"/ext/info", nil)
	require.NoError(t, err)
	request.Header.Set("Origin", "https://a.example")
	request.Header.Set("Access-Control-Request-Method", "POST")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "true", response.Header.Get("Access-Control-Allow-Credentials"))
}
