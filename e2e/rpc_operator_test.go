package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/e2e/localnet"
)

// operatorsInfo compares what a node tells of itself. The one that is compared with
// validates nothing, where that makes a difference.
func (n *nodeAPI) operatorsInfo(ctx context.Context, t *testing.T) {
	const path = "/ext/info"
	for _, method := range []string{"getNodeID", "getNodeIP", "getNodeVersion", "peers"} {
		n.both(ctx, t, alike{shape: true}, n.service.private, path, "info."+method, "{}", "info."+method)
	}
	n.both(ctx, t, alike{}, n.service.private, path, "info.getVMs", "{}", "info.getVMs")
	// Which proposals are current depends on the version.
	n.same(ctx, t, alike{shape: true, free: []string{"acps"}}, path, "info.acps", "{}")
	n.same(ctx, t, alike{}, path, "info.peers", `{"nodeIDs":["`+ids.GenerateTestNodeID().String()+`"]}`)

	var peers []string
	for i := 1; i < localnet.Size; i++ { // no node is its own peer
		var reply struct{ NodeID string }
		require.NoError(t, localnet.Call(ctx, n.network.Node(i).URL, path, "info.getNodeID", struct{}{}, &reply))
		peers = append(peers, reply.NodeID)
	}
	// The socket's address, and what passed through it, are each one's own.
	about := alike{sets: []string{"peers", "trackedSubnets", "supportedACPs", "objectedACPs"}, loose: []string{"ip", "lastSent", "lastReceived", "observedUptime"}}
	for _, some := range [][]string{peers, peers[:1], {peers[1], ids.GenerateTestNodeID().String()}, {ids.EmptyNodeID.String()}} {
		n.same(ctx, t, about, path, "info.peers", `{"nodeIDs":["`+strings.Join(some, `","`)+`"]}`)
	}
	for _, params := range []string{"{}", "null", "[]", `{"subnetID":"` + n.l1.id.String() + `"}`, `{"subnetID":5}`, `{"subnetID":"x"}`} {
		n.between(ctx, t, alike{}, n.observer, n.service.url, path, "info.uptime", params, "info.uptime")
	}
	// Of a validator, the form; what the service would tell has a test beside it.
	uptime := ask(t, ctx, http.MethodPost, n.node+path, "application/json", callBody("info.uptime", "{}"))
	require.Regexp(t, `^{"jsonrpc":"2.0","result":{"rewardingStakePercentage":"\d+\.\d{4}","weightedAveragePercentage":"\d+\.\d{4}"},"id":7}\n$`, uptime.body)
	for _, chain := range []string{"P", "X", "C"} {
		n.between(ctx, t, alike{}, n.observer, n.service.url, "/ext/bc/P", "platform.getBlockchainStatus", `{"blockchainID":"`+chain+`"}`, "platform.getBlockchainStatus")
	}
}

// ownMessages are of checks whose message is about the index in the one case, and
// about consensus in the other.
var ownMessages = []string{"C", "P", "X"}

// reports compares reports of health: the same checks, in the same form, and equal
// messages where they can be.
func reports(node, service any) (all []string) {
	theirs, ok := node.(map[string]any)
	ours, also := service.(map[string]any)
	if !ok || !also {
		return alike{}.differences("report", node, service)
	}
	if theirs["error"] != nil {
		return alike{}.differences("error", node, service)
	}
	if theirs["result"] != nil && ours["result"] != nil {
		return append(reports(theirs["result"], ours["result"]), alike{free: []string{"result"}}.differences("answer", node, service)...)
	}
	all = alike{free: []string{"checks"}}.differences("report", node, service)
	checks, ok := theirs["checks"].(map[string]any)
	our, also := ours["checks"].(map[string]any)
	if !ok || !also {
		return append(all, "checks: there are none: "+text(node)+", "+text(service))
	}
	one, other := slices.Sorted(maps.Keys(checks)), slices.Sorted(maps.Keys(our))
	if !slices.Equal(one, other) {
		return append(all, fmt.Sprintf("checks: the node has %v, the service %v", one, other))
	}
	for _, name := range one {
		at, how := "checks."+name, alike{free: []string{"duration", "timestamp"}}
		a, b := checks[name].(map[string]any), our[name].(map[string]any)
		for _, when := range []any{a["timestamp"], b["timestamp"]} {
			if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(when)); err != nil {
				all = append(all, at+".timestamp: "+err.Error())
			}
		}
		said, ok := a["message"].(map[string]any)
		says, also := b["message"].(map[string]any)
		if ok && also {
			how.free = append(how.free, "message")
			if !slices.Contains(ownMessages, name) { // the service may say more
				for member, value := range said {
					if kind(value) != kind(says[member]) {
						all = append(all, fmt.Sprintf("%s.message.%s: the node has %s, the service %s", at, member, text(value), text(says[member])))
					}
				}
			}
		}
		all = append(all, how.differences(at, a, b)...)
	}
	return all
}

func (n *nodeAPI) health(ctx context.Context, t *testing.T) {
	healthy := func() bool {
		for _, base := range []string{n.observer, n.service.private} {
			if ask(t, ctx, http.MethodGet, base+"/ext/health", "", "").status != http.StatusOK {
				return false
			}
		}
		return true
	}
	require.Eventually(t, healthy, 2*time.Minute, 200*time.Millisecond, "the node or the service is not well")
	compare := func(verb, path, contentType, body string) {
		t.Helper()
		n.compared["health"]++
		node := ask(t, ctx, verb, n.observer+path, contentType, body)
		service := ask(t, ctx, verb, n.service.private+path, contentType, body)
		all := alike{}.compare(rpcAnswer{node.status, node.header, ""}, rpcAnswer{service.status, service.header, ""})
		for _, d := range append(all, reports(parsed(node.body), parsed(service.body))...) {
			t.Errorf("%s %s %s: %s", verb, path, body, d)
		}
	}
	primary := constants.PrimaryNetworkID.String()
	verbs := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	queries := []string{"", "?tag=application", "?tag=all", "?tag=" + primary, "?tag=nothing", "?tag=nothing&tag=" + primary, "?tag=", "?tag", "?TAG=nothing", "?tags=nothing", "?tag=bootstrapped", "?tag=a%zz"}
	for _, path := range []string{"/ext/health/health", "/ext/health/readiness", "/ext/health/liveness"} {
		for _, verb := range verbs {
			compare(verb, path, "", "")
		}
		compare(http.MethodPost, path, "application/json", callBody("health.health", "{}"))
		for _, query := range queries {
			compare(http.MethodGet, path+query, "", "")
		}
	}
	for _, query := range queries {
		compare(http.MethodGet, "/ext/health"+query, "text/plain", "")
		compare(http.MethodPost, "/ext/health"+query, "application/json", callBody("health.health", "{}"))
	}
	for _, method := range []string{"health.health", "health.readiness", "health.liveness"} {
		for _, params := range []string{
			"{}", "null", "[]", `{"tags":null}`, `{"tags":[]}`, `{"tags":[""]}`, `{"tags":["application"]}`, `{"tags":["all"]}`, `{"tags":["` + primary + `"]}`, `{"tags":["nothing"]}`, `{"tags":["nothing","` + primary + `"]}`, `{"TAGS":["nothing"]}`,
			`{"tags":"nothing"}`, `{"tags":5}`, `{"tags":[5]}`, `{"tags":{}}`, `{"tags":[["a"]]}`, `{"tag":"nothing"}`, "5", `"text"`, "[5]", `[{"tags":["nothing"]}]`,
		} {
			compare(http.MethodPost, "/ext/health", "application/json", callBody(method, params))
		}
	}
}

// admin sends both the same calls. A node that gets a new name for an endpoint waits
// until no request is under way, and starts none meanwhile (avalanchego, api/server,
// AddAliasesWithReadLock): with a WebSocket open it answers nothing any more. So the
// orders are to the node that the service does not use.
func (n *nodeAPI) admin(ctx context.Context, t *testing.T) {
	const path = "/ext/admin"
	exact := alike{}
	order := func(how alike, method, params string) {
		t.Helper()
		n.between(ctx, t, how, n.observer, n.service.private, path, "admin."+method, params, "admin."+method)
	}
	long := strings.Repeat("x", 513)
	pChain := constants.PlatformChainID.String()
	for _, params := range []string{"{}", `{"chain":null}`, `{"chain":""}`, `{"chain":"X"}`, `{"chain":"` + n.xChain + `"}`, `{"chain":"` + pChain + `"}`, `{"chain":"` + n.l1.id.String() + `"}`,
		`{"chain":"` + n.xChain[1:] + `"}`, `{"chain":5}`, `{"chain":"0x00"}`, `{"CHAIN":"` + n.xChain + `"}`} {
		order(exact, "getChainAliases", params)
	}
	for _, params := range []string{
		"{}", `{"endpoint":"info"}`, `{"alias":"who"}`, `{"endpoint":"info","alias":"who"}`, `{"endpoint":"info","alias":"who"}`, `{"endpoint":"info","alias":"info"}`, `{"endpoint":"info","alias":"bc/X"}`, `{"endpoint":"info","alias":"P"}`,
		`{"endpoint":"info","alias":"` + long[1:] + `"}`, `{"endpoint":"info","alias":"` + long + `"}`, `{"endpoint":"nothing","alias":"later"}`, `{"endpoint":"nothing","alias":"later"}`, `{"endpoint":"/info","alias":"/slashed"}`,
		`{"endpoint":"bc/X","alias":"asset"}`, `{"endpoint":"bc/` + n.xChain + `","alias":"theAsset"}`, `{"endpoint":"health","alias":"how"}`, `{"endpoint":"health/readiness","alias":"ready"}`, `{"endpoint":"index/P/block","alias":"blocks"}`, `{"endpoint":"index/P","alias":"lists"}`, `{"endpoint":"bc/C","alias":"evmChain"}`,
		`{"endpoint":5,"alias":"x"}`, `{"endpoint":"info","alias":5}`, `{"endpoint":"info","alias":["x"]}`, "5", `{"endpoint":"who","alias":"whoever"}`, `{"endpoint":"info","alias":"a <b> & c"}`, `{"endpoint":"info","alias":"été"}`,
	} {
		order(exact, "alias", params)
	}
	for _, params := range []string{
		"{}", `{"chain":"X"}`, `{"alias":"other"}`, `{"chain":"X","alias":"assets"}`, `{"chain":"X","alias":"assets"}`, `{"chain":"P","alias":"assets"}`, `{"chain":"` + n.xChain + `","alias":"more"}`, `{"chain":"assets","alias":"most"}`,
		`{"chain":"` + pChain + `","alias":"staking"}`, `{"chain":"C","alias":"contracts"}`, `{"chain":"Y","alias":"y"}`, `{"chain":"` + n.l1.id.String() + `","alias":"y"}`, `{"chain":"X","alias":"` + long + `"}`, `{"chain":"Y","alias":"` + long + `"}`,
		`{"chain":"X","alias":"P"}`, `{"chain":"X","alias":"X"}`, `{"chain":5,"alias":"x"}`, `{"chain":"X","alias":5}`, "[]",
	} {
		order(exact, "aliasChain", params)
	}
	for _, chain := range []string{n.xChain, pChain} {
		order(exact, "getChainAliases", `{"chain":"`+chain+`"}`)
	}
	// The paths of all these aliases.
	for _, p := range []string{"/ext/who", "/ext/whoever", "/ext/later", "/ext/ready", "/ext//slashed", "/ext/slashed", "/ext/asset", "/ext/theAsset", "/ext/theAsset/wallet", "/ext/how", "/ext/how/liveness", "/ext/blocks", "/ext/lists", "/ext/lists/block", "/ext/evmChain/rpc", "/ext/bc/assets",
		"/ext/assets", "/ext/bc/most", "/ext/bc/staking", "/ext/staking", "/ext/bc/contracts/rpc", "/ext/bc/y", "/ext/", "/ext/bc/", "/ext/" + long[1:]} {
		for _, method := range []string{"info.getNetworkID", "platform.getHeight", "avm.getHeight", "index.isAccepted", "health.liveness", "eth_chainId"} {
			n.between(ctx, t, exact, n.observer, n.service.private, p, method, "{}", method)
		}
	}
	named := func(how alike, path, method, params string) {
		t.Helper()
		n.between(ctx, t, how, n.observer, n.service.url, path, method, params, method)
	}
	for _, alias := range []string{"assets", "more", "most", "staking", "contracts", "who", "y"} {
		named(exact, "/ext/info", "info.getBlockchainID", `{"alias":"`+alias+`"}`)
		named(exact, "/ext/info", "info.isBootstrapped", `{"chain":"`+alias+`"}`)
		named(exact, "/ext/bc/P", "platform.getBlockchainStatus", `{"blockchainID":"`+alias+`"}`)
	}
	x := strings.TrimPrefix(n.addresses(t, "X")[0][0], "X")
	for _, chain := range []string{"assets", "staking"} {
		named(alike{sets: []string{"balances"}}, "/ext/bc/X", "avm.getAllBalances", `{"address":"`+chain+x+`"}`)
		named(alike{sets: []string{"utxos"}, loose: []string{"utxo"}}, "/ext/bc/X", "avm.getUTXOs", `{"addresses":["X`+x+`"],"sourceChain":"`+chain+`"}`)
	}

	// Levels. Which loggers there are besides main is each one's own.
	order(alike{shape: true, free: []string{"loggerLevels"}}, "getLoggerLevel", "{}")
	order(alike{shape: true, free: []string{"loggerLevels"}}, "getLoggerLevel", `{"loggerName":""}`)
	order(alike{shape: true}, "getLoggerLevel", `{"loggerName":"main"}`)
	for _, params := range []string{`{"loggerName":"nothing <>"}`, `{"loggerName":5}`, `{"loggerName":["main"]}`, "5"} {
		order(exact, "getLoggerLevel", params)
	}
	for _, level := range []string{"OFF", "FATAL", "ERROR", "WARN", "INFO", "TRACE", "DEBUG", "VERBO", "off", "Fatal", "eRROR", "Unkno", "UNKNO", "LOUD", "", " INFO", "1"} {
		order(exact, "setLoggerLevel", `{"loggerName":"main","logLevel":"`+level+`","displayLevel":"`+level+`"}`)
		order(exact, "getLoggerLevel", `{"loggerName":"main"}`)
	}
	for _, params := range []string{
		"{}", `{"loggerName":"main"}`, `{"loggerName":"nothing"}`, `{"loggerName":"nothing","logLevel":"INFO"}`, `{"loggerName":"nothing","displayLevel":"INFO"}`, `{"loggerName":"main","logLevel":null,"displayLevel":"WARN"}`,
		`{"loggerName":"main","logLevel":"DEBUG","displayLevel":null}`, `{"loggerName":"main","logLevel":null,"displayLevel":null}`, `{"loggerName":"main","logLevel":5}`, `{"loggerName":"main","logLevel":"INFO","displayLevel":"LOUD"}`,
		`{"loggerName":"main","logLevel":["INFO"]}`, `{"loggerName":"main","logLevel":"INFO"}`, `{"loggerName":"main","displayLevel":"ERROR"}`,
	} {
		order(exact, "setLoggerLevel", params)
		order(exact, "getLoggerLevel", `{"loggerName":"main"}`)
	}
	order(alike{shape: true, free: []string{"loggerLevels"}}, "setLoggerLevel", `{"logLevel":"INFO","displayLevel":"INFO"}`)

	// Profiles and the rest.
	for _, method := range []string{"stopCPUProfiler", "startCPUProfiler", "startCPUProfiler", "memoryProfile", "lockProfile", "stopCPUProfiler", "stopCPUProfiler", "stacktrace", "loadVMs"} {
		order(exact, method, "{}")
		order(exact, method, "null")
		order(exact, method, `{"name":5}`)
		order(exact, method, `"text"`)
		order(exact, method, "[5]")
	}
	order(exact, "stopCPUProfiler", "{}")
	order(alike{free: []string{"result"}}, "getConfig", "{}")
	order(exact, "getConfig", `"text"`)
	for _, key := range []string{"", "x", "0x", "0x0", "0xzz", "00", "0x00", "0xff", "0x" + strings.Repeat("ab", 40), n.xChain} {
		order(exact, "dbGet", `{"key":"`+key+`"}`)
	}
	for _, params := range []string{"{}", `{"key":null}`, `{"key":5}`, `{"key":["0x00"]}`} {
		order(exact, "dbGet", params)
	}
}

// cChain compares what is handed on to the nodes for the C-Chain, and what is at its
// and the other chains' further endpoints.
func (n *nodeAPI) cChain(ctx context.Context, t *testing.T) {
	const path = "/ext/bc/C/avax"
	outputs := alike{sets: []string{"utxos"}, loose: []string{"utxo"}}
	for _, group := range n.addresses(t, "C") {
		for _, source := range []string{"X", "P", "C", "", "nothing"} {
			n.same(ctx, t, outputs, path, "avax.getUTXOs", `{"addresses":["`+strings.Join(group, `","`)+`"],"sourceChain":"`+source+`"}`)
		}
	}
	unknown := ids.GenerateTestID().String()
	for _, method := range []string{"getAtomicTx", "getAtomicTxStatus"} {
		for _, params := range []string{"{}", `{"txID":"` + unknown + `"}`, `{"txID":"x"}`, `{"txID":"` + unknown + `","encoding":"json"}`} {
			n.same(ctx, t, alike{}, path, "avax."+method, params)
		}
	}
	for _, params := range []string{"{}", `{"tx":"x"}`, `{"tx":"0x00"}`} {
		n.same(ctx, t, alike{}, path, "avax.issueTx", params)
	}
	const ethereum = "/ext/bc/C/rpc"
	for _, body := range []string{
		callBody("eth_chainId", "[]"), callBody("eth_blockNumber", "[]"), callBody("eth_getBlockByNumber", `["0x1",true]`), callBody("eth_getBlockByNumber", `["0xffffff",true]`), callBody("eth_getBlockByNumber", `["x"]`),
		callBody("eth_nothing", "[]"), callBody("nothing", "{}"), callBody("eth_chainId", `"text"`), "[" + callBody("eth_chainId", "[]") + "," + callBody("net_version", "[]") + "," + callBody("eth_nothing", "[]") + "]",
		"", "[]", "{}", "[{}]", "nonsense", `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","method":"eth_chainId"}`,
	} {
		n.compared["Ethereum"]++
		node := ask(t, ctx, http.MethodPost, n.node+ethereum, "application/json", body)
		service := ask(t, ctx, http.MethodPost, n.service.url+ethereum, "application/json", body)
		for _, d := range (alike{}).compare(node, service) {
			t.Errorf("%s %s: %s", ethereum, body, d)
		}
	}
	for _, verb := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		for _, contentType := range []string{"", "application/json", "text/plain", "application/json-rpc", "APPLICATION/JSON; charset=latin1", "application/json, text/plain", "application/json;"} {
			for _, path := range []string{ethereum, ethereum + "?a=b"} {
				for _, body := range []string{"", callBody("eth_chainId", "[]")} {
					n.compared["Ethereum"]++
					node := ask(t, ctx, verb, n.node+path, contentType, body)
					service := ask(t, ctx, verb, n.service.url+path, contentType, body)
					for _, d := range (alike{}).compare(node, service) {
						t.Errorf("%s %s (%s) %s: %s", verb, path, contentType, body, d)
					}
				}
			}
		}
	}
	for _, chain := range []string{"P", "X", "C", n.xChain} {
		for _, method := range []string{"getProposedHeight", "getCurrentEpoch", "nothing"} {
			n.same(ctx, t, alike{}, "/ext/bc/"+chain+"/proposervm", "proposervm."+method, "{}")
		}
	}
}
