package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
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

// A node's client finds a network below /ext, and each further network below its name.
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
	for _, path := range []string{"/ext/nothing", "/ext/info/", "/other/ext/info", "/ext", "/mainnet/ext", "/ext/", "/mainnet/ext/"} {
		a := callRPC(t, s.base+path, "info.getNetworkID", "{}")
		require.Equal(t, http.StatusNotFound, a.status, path)
		require.Equal(t, "404 page not found\n", a.body, path)
	}
	var a rpcAnswer
	for path, want := range map[string]string{"/fuji/ext//info": "/fuji/ext/info", "//ext/info": "/ext/info", "/ext//info": "/ext/info"} {
		a = callRPC(t, s.base+path, "info.getNetworkID", "{}")
		require.Equal(t, http.StatusMovedPermanently, a.status, path)
		require.Equal(t, want, a.header.Get("Location"))
		require.Empty(t, a.body)
		require.Empty(t, a.header.Get("Content-Type"))
		require.Regexp(t, "^NodeID-", a.header.Get("Node-Id"))
		require.Equal(t, "Origin", a.header.Get("Vary"))
	}

	// Until the chains are indexed they are 503, as on a node that bootstraps.
	for _, path := range []string{"/ext/P", "/ext/X"} {
		require.Eventually(t, func() bool {
			return callRPC(t, s.base+path, "platform.getHeight", "{}").status == http.StatusOK
		}, 5*time.Minute, 10*time.Millisecond, path)
	}
	// Nodes answer the calls that the service cannot answer.
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
	// Some of the C-Chain's methods are for the operator alone. This node refuses all of
	// them, with another code.
	const method, params, refused = "debug_getRawHeader", `["latest"]`, -32601
	require.Equal(t, refused, callRPC(t, s.base+"/ext/bc/C/rpc", method, params).Error.Code)
	require.NotEqual(t, refused, callRPC(t, s.private+"/ext/bc/C/rpc", method, params).Error.Code)
	require.NotEmpty(t, callRPC(t, s.base+"/ext/bc/C/rpc", "eth_chainId", "[]").Result)
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

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

// Operators' methods are at the private address alone, and work.
func TestOperatorsNodeSurface(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 23, NetworkID: 50001, History: &simnet.History{Options: history.Options{Txs: 50}}})
	require.NoError(t, err)
	defer n.Close()
	dir, profiles := t.TempDir(), filepath.Join(t.TempDir(), "made", "on demand")
	file := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(file, []byte("node_api: {health_interval: 100ms, profile_dir: '"+profiles+"'}\n"), 0o600))
	networks := map[string]*simnet.Network{"local": n}
	s := startService(t, dir, networks, "--config", file, "--admin")

	for _, path := range []string{"/ext/health", "/ext/health/liveness", "/ext/admin", "/local/ext/admin"} {
		a := callRPC(t, s.base+path, "health.health", "{}")
		require.Equal(t, http.StatusNotFound, a.status, path)
	}
	require.Equal(t, `rpc: can't find method "info.GetNodeID"`, callRPC(t, s.base+"/ext/info", "info.getNodeID", "{}").Error.Message)
	a := callRPC(t, s.private+"/ext/info", "info.getNodeID", "{}")
	require.Contains(t, string(a.Result), a.header.Get("Node-Id"))

	// Health: everything is well, once it has been looked at.
	var report struct {
		Checks  map[string]struct{ Error string }
		Healthy bool
	}
	require.Eventually(t, func() bool {
		status, body := get(t, s.private+"/ext/health")
		report.Checks = nil
		require.NoError(t, json.Unmarshal([]byte(body), &report), body)
		require.Equal(t, report.Healthy, status == http.StatusOK, body)
		return report.Healthy
	}, 5*time.Minute, 50*time.Millisecond, "%v", &report)
	names := slices.Sorted(maps.Keys(report.Checks))
	require.Equal(t, []string{"C", "P", "X", "bls", "bootstrapped", "database", "diskspace", "futureupgrade", "network", "router"}, names)
	require.Eventually(t, func() bool { // readiness has its own runs of the check
		status, body := get(t, s.private+"/local/ext/health/readiness")
		return status == http.StatusOK && strings.Contains(body, `"bootstrapped":{"message":[],`)
	}, 5*time.Minute, 50*time.Millisecond)
	_, body := get(t, s.private+"/ext/health/liveness")
	require.Equal(t, `{"checks":{},"healthy":true}`+"\n", body)
	a = callRPC(t, s.private+"/ext/health", "health.health", `{"tags":["11111111111111111111111111111111LpoYY"]}`)
	require.Contains(t, string(a.Result), `"P":{`)
	a = callRPC(t, s.private+"/ext/health", "health.health", `{"tags":["other"]}`)
	require.NotContains(t, string(a.Result), `"P":{`)
	require.NotNil(t, callRPC(t, s.private+"/ext/health", "health.health", `{"tags":"other"}`).Error)
	require.Eventually(t, func() bool { // a check that takes too long now and then is the machine's
		_, body := get(t, s.private+"/metrics")
		return strings.Contains(body, `quorate_health_checks_failing{check="health",network="local",tag="application"} 0`)
	}, 5*time.Minute, 50*time.Millisecond)

	// Loggers: at once.
	admin := s.private + "/ext/admin"
	require.JSONEq(t, `{"loggerLevels":{"main":{"logLevel":"DEBUG","displayLevel":"DEBUG"},"local":{"logLevel":"DEBUG","displayLevel":"DEBUG"}}}`,
		string(callRPC(t, admin, "admin.getLoggerLevel", `{}`).Result))
	callRPC(t, s.base+"/ext/info", "info.seen", `{}`)
	require.Contains(t, s.log.String(), `"path":"/ext/info"`)
	require.JSONEq(t, `{"loggerLevels":{"main":{"logLevel":"OFF","displayLevel":"WARN"}}}`,
		string(callRPC(t, admin, "admin.setLoggerLevel", `{"loggerName":"main","logLevel":"off","displayLevel":"Warn"}`).Result))
	callRPC(t, s.base+"/local/ext/info", "info.unseen", `{}`)
	require.NotContains(t, s.log.String(), `"path":"/local/ext/info"`)
	for params, want := range map[string]string{
		`{}`: "need to specify either displayLevel or logLevel",
		`{"loggerName":"other","logLevel":"INFO"}`: `logger with name "other" not found`,
		`{"logLevel":"LOUD"}`:                      "couldn't unmarshal an argument. Ensure arguments are valid and properly formatted. See documentation for example calls",
	} {
		require.Equal(t, want, callRPC(t, admin, "admin.setLoggerLevel", params).Error.Message)
	}

	// Profiles.
	for _, method := range []string{"startCPUProfiler", "memoryProfile", "lockProfile", "stopCPUProfiler", "stacktrace"} {
		require.JSONEq(t, `{}`, string(callRPC(t, admin, "admin."+method, `{}`).Result), method)
	}
	require.Equal(t, "cpu profiler doesn't exist", callRPC(t, admin, "admin.stopCPUProfiler", `{}`).Error.Message)
	for _, name := range []string{"cpu.profile", "mem.profile", "lock.profile", "stacktrace.txt"} {
		info, err := os.Stat(filepath.Join(profiles, name))
		require.NoError(t, err)
		require.NotZero(t, info.Size(), name)
	}
	require.JSONEq(t, `{"newVMs":{}}`, string(callRPC(t, admin, "admin.loadVMs", `{}`).Result))
	var settings map[string]string
	require.NoError(t, json.Unmarshal(callRPC(t, admin, "admin.getConfig", `{}`).Result, &settings))
	require.Equal(t, "100ms", settings["node_api.health_interval"])
	require.Equal(t, "true", settings["node_api.admin"])

	// Names, which are kept.
	require.JSONEq(t, `{}`, string(callRPC(t, admin, "admin.alias", `{"endpoint":"info","alias":"who"}`).Result))
	require.JSONEq(t, `{}`, string(callRPC(t, admin, "admin.alias", `{"endpoint":"health","alias":"how"}`).Result))
	// An index is below the base of its chain.
	for endpoint, alias := range map[string]string{"index/P": "lists", "index/P/block": "list"} {
		require.JSONEq(t, `{}`, string(callRPC(t, admin, "admin.alias", `{"endpoint":"`+endpoint+`","alias":"`+alias+`"}`).Result))
	}
	require.Equal(t, http.StatusNotFound, callRPC(t, s.base+"/ext/list", "index.isAccepted", `{}`).status)
	require.NotEqual(t, http.StatusNotFound, callRPC(t, s.base+"/ext/lists/block", "index.isAccepted", `{}`).status)
	require.JSONEq(t, `{}`, string(callRPC(t, admin, "admin.aliasChain", `{"chain":"P","alias":"staking"}`).Result))
	for _, test := range []struct{ method, params, want string }{
		{"alias", `{"endpoint":"info","alias":"who"}`, "route is either already aliased or already maps to a handle: /ext/who"},
		{"alias", `{"endpoint":"info","alias":"health"}`, "failed to create endpoint as /ext/health already exists"},
		{"alias", `{"endpoint":"info","alias":"` + strings.Repeat("x", 513) + `"}`, "alias length is too long"},
		{"aliasChain", `{"chain":"X","alias":"staking"}`, "alias already mapped to an ID: staking"},
		{"aliasChain", `{"chain":"Y","alias":"y"}`, "there is no ID with alias: Y"},
		{"getChainAliases", `{"chain":"X"}`, "input string is smaller than the checksum size"},
		{"getChainAliases", `{}`, "base58 decoding error: zero length string"},
	} {
		require.Equal(t, test.want, callRPC(t, admin, "admin."+test.method, test.params).Error.Message, "%s %s", test.method, test.params)
	}
	require.JSONEq(t, `{"aliases":null}`, string(callRPC(t, admin, "admin.getChainAliases", `{"chain":"`+ids.ID{1}.String()+`"}`).Result))
	for range 2 {
		require.JSONEq(t, `{"aliases":["P","platform","11111111111111111111111111111111LpoYY","staking"]}`,
			string(callRPC(t, admin, "admin.getChainAliases", `{"chain":"11111111111111111111111111111111LpoYY"}`).Result))
		for _, base := range []string{s.base, s.private} {
			require.Nil(t, callRPC(t, base+"/ext/who", "info.getNetworkID", `{}`).Error)
			require.Nil(t, callRPC(t, base+"/ext/bc/staking", "platform.getHeight", `{}`).Error)
		}
		require.Nil(t, callRPC(t, s.private+"/ext/how", "health.liveness", `{}`).Error)
		status, _ := get(t, s.private+"/ext/how/liveness")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, http.StatusNotFound, callRPC(t, s.base+"/ext/how", "health.liveness", `{}`).status)
		s.stop(t)
		s = startService(t, dir, networks, "--config", file, "--admin")
		admin = s.private + "/ext/admin"
	}
	s.stop(t)

	s = startService(t, dir, networks)
	require.Equal(t, http.StatusNotFound, callRPC(t, s.private+"/ext/admin", "admin.loadVMs", `{}`).status, "not allowed")
	s.stop(t)
}

// As long as no node has answered, the answers to clients and to the operator say so.
func TestNodeSurfaceBeforeTheNodeAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listen, private, unused := freeAddress(t), freeAddress(t), freeAddress(t)
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--listen", listen, "--private-listen", private, "--data-dir", t.TempDir(), "--network", "local=http://" + unused}, strings.NewReader(""), &lines{}, &lines{})
	}()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + private + "/healthz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil
	}, 5*time.Minute, 20*time.Millisecond)
	a := callRPC(t, "http://"+listen+"/ext/info", "info.getNetworkID", "{}")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.body, "has not answered yet")
	for _, path := range []string{"/ext/health", "/local/ext/health"} {
		status, body := get(t, "http://"+private+path)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, body, "start one, or correct networks.local.nodes")
	}
	cancel()
	require.Zero(t, <-done)
}
