package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/avm"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"

	"quorate/e2e/localnet"
)

// rpcAnswer is what came of a request, whatever it was.
type rpcAnswer struct {
	status            int
	contentType, body string
	nosniff           string
}

// ask sends a request as it is.
func ask(t testing.TB, ctx context.Context, verb, url, contentType, body string) rpcAnswer {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, verb, url, strings.NewReader(body))
	require.NoError(t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return rpcAnswer{response.StatusCode, response.Header.Get("Content-Type"), string(content), response.Header.Get("X-Content-Type-Options")}
}

func callBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
}

// alike says how two answers are compared.
type alike struct {
	// shape compares member names and JSON kinds alone.
	shape bool
	// sets are members whose lists have no order, loose those whose values are the
	// answering node's own.
	sets, loose []string
	// free are members whose value is of one kind, and whatever it is.
	free []string
}

// kind is what of a value remains if it is loose: for texts, no more than that.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(b) > 600 {
		return string(b[:600]) + "..."
	}
	return string(b)
}

// differences are between what the node and the service say, each with where it is.
func (a alike) differences(at string, node, service any) (all []string) {
	differ := func() []string {
		return []string{fmt.Sprintf("%s: the node has %s, the service %s", at, text(node), text(service))}
	}
	if kind(node) != kind(service) {
		return differ()
	}
	switch node := node.(type) {
	case map[string]any:
		service := service.(map[string]any)
		names := maps.Clone(node)
		maps.Copy(names, service)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			one, ok := node[name]
			other, also := service[name]
			switch {
			case !ok:
				all = append(all, fmt.Sprintf("%s.%s: only the service has it: %s", at, name, text(other)))
			case !also:
				all = append(all, fmt.Sprintf("%s.%s: only the node has it: %s", at, name, text(one)))
			case slices.Contains(a.free, name):
				if kind(one) != kind(other) {
					all = append(all, fmt.Sprintf("%s.%s: the node has %s, the service %s", at, name, text(one), text(other)))
				}
			default:
				inner := a
				inner.shape = a.shape || slices.Contains(a.loose, name)
				if slices.Contains(a.sets, name) && kind(one) == "list" && kind(other) == "list" {
					one, other = a.sorted(one.([]any)), a.sorted(other.([]any))
				}
				all = append(all, inner.differences(at+"."+name, one, other)...)
			}
		}
	case []any:
		service := service.([]any)
		if a.shape {
			if len(node) > 0 && len(service) > 0 {
				return a.differences(at+"[0]", node[0], service[0])
			}
			return nil
		}
		if len(node) != len(service) {
			return append(differ(), fmt.Sprintf("%s: %d and %d", at, len(node), len(service)))
		}
		for i := range node {
			all = append(all, a.differences(fmt.Sprintf("%s[%d]", at, i), node[i], service[i])...)
		}
	default:
		if !a.shape && node != service {
			return differ()
		}
	}
	return all
}

// sorted is a list in an order that does not depend on what is loose.
func (a alike) sorted(list []any) []any {
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			kept := make(map[string]any)
			for name, inner := range v {
				if !slices.Contains(a.loose, name) && !slices.Contains(a.sets, name) {
					kept[name] = strip(inner)
				}
			}
			return kept
		default:
			return v
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y any) int {
		b, _ := json.Marshal(strip(x))
		c, _ := json.Marshal(strip(y))
		return bytes.Compare(b, c)
	})
	return list
}

// parsed is a body as JSON, or as text.
func parsed(body string) any {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return body
	}
	return v
}

func (a alike) compare(node, service rpcAnswer) (all []string) {
	if node.status != service.status {
		all = append(all, fmt.Sprintf("HTTP status: the node has %d, the service %d", node.status, service.status))
	}
	if node.contentType != service.contentType {
		all = append(all, fmt.Sprintf("content type: the node has %q, the service %q", node.contentType, service.contentType))
	}
	if node.nosniff != service.nosniff {
		all = append(all, fmt.Sprintf("X-Content-Type-Options: the node has %q, the service %q", node.nosniff, service.nosniff))
	}
	return append(all, a.differences("body", parsed(node.body), parsed(service.body))...)
}

// nodeAPI is a service, its index caught up, beside a node with the same history.
type nodeAPI struct {
	network       *localnet.Network
	node          string
	service       *service
	keys          []*secp256k1.PrivateKey
	xChain, asset string
	compared      int
}

// same asks both, and reports what differs.
func (n *nodeAPI) same(ctx context.Context, t *testing.T, how alike, path, method, params string) {
	t.Helper()
	n.both(ctx, t, how, n.service.url, path, method, params, method)
}

// both asks the service at one of its listeners, and for a method by its own name.
func (n *nodeAPI) both(ctx context.Context, t *testing.T, how alike, base, path, method, params, serviceMethod string) {
	t.Helper()
	n.compared++
	node := ask(t, ctx, http.MethodPost, n.node+path, "application/json", callBody(method, params))
	service := ask(t, ctx, http.MethodPost, base+path, "application/json", callBody(serviceMethod, params))
	for _, d := range how.compare(node, service) {
		t.Errorf("%s %s %s: %s", path, serviceMethod, params, d)
	}
}

// result is what the node says, which must be no error.
func (n *nodeAPI) result(ctx context.Context, t *testing.T, path, method, params string, into any) {
	t.Helper()
	require.NoError(t, localnet.Call(ctx, n.node, path, method, json.RawMessage(params), into), "%s %s", method, params)
}

// listed are the blocks of a chain and its transactions, by their IDs.
func (n *nodeAPI) listed(ctx context.Context, t *testing.T, path, prefix string) (blocks, txs []string) {
	t.Helper()
	var tip struct{ Height string }
	n.result(ctx, t, path, prefix+".getHeight", "{}", &tip)
	for h := 0; ; h++ {
		var reply struct {
			Block struct {
				ID  string
				Tx  *struct{ ID string }
				Txs []struct{ ID string }
			}
		}
		n.result(ctx, t, path, prefix+".getBlockByHeight", fmt.Sprintf(`{"height":%d,"encoding":"json"}`, h), &reply)
		blocks = append(blocks, reply.Block.ID)
		for _, tx := range reply.Block.Txs {
			txs = append(txs, tx.ID)
		}
		if reply.Block.Tx != nil {
			txs = append(txs, reply.Block.Tx.ID)
		}
		if fmt.Sprint(h) == tip.Height {
			return blocks, txs
		}
	}
}

var encodings = []string{"", `,"encoding":"hex"`, `,"encoding":"HexC"`, `,"encoding":"hexnc"`, `,"encoding":"json"`}

// startNodeAPI brings up a network with a history, and a service that has recorded it.
func startNodeAPI(t testing.TB, ctx context.Context) *nodeAPI {
	t.Helper()
	program := buildService(t)
	network := localnet.Start(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("node_api:\n  admin: true\n  health_interval: 1s\nnetworks:\n  local:\n    keep_containers: all\n"), 0o600))
	n := &nodeAPI{network: network, node: network.Node(0).URL, keys: []*secp256k1.PrivateKey{genesis.EWOQKey}}
	n.service = startService(t, program, n.node, "--ahead-rounds", "0", "--config", config)
	for range 2 {
		key, err := secp256k1.NewPrivateKey()
		require.NoError(t, err)
		n.keys = append(n.keys, key)
	}
	history(t, ctx, n.node, n.keys)
	id, err := info.NewClient(n.node).GetBlockchainID(ctx, "X")
	require.NoError(t, err)
	n.xChain = id.String()
	n.asset = stakingAsset(t, ctx, platformvm.NewClient(n.node))

	tips := make(map[string]uint64)
	for _, chain := range []string{"P", "X", "C"} {
		_, last, err := indexer.NewClient(n.node + "/ext/index/" + chain + "/block").GetLastAccepted(ctx)
		require.NoError(t, err)
		tips[chain] = last + 1
	}
	require.Eventually(t, func() bool { return n.service.recorded(ctx, tips) }, time.Minute, 100*time.Millisecond)
	return n
}

// addresses of the keys on a chain, each alone and then all together.
func (n *nodeAPI) addresses(t testing.TB, chain string) (groups [][]string) {
	t.Helper()
	var all []string
	for _, key := range n.keys {
		a, err := address.Format(chain, constants.GetHRP(localnet.NetworkID), key.Address().Bytes())
		require.NoError(t, err)
		all = append(all, a)
		groups = append(groups, []string{a})
	}
	groups = append(groups, all, []string{n.keys[1].Address().String(), all[2], all[2]})
	nobody, err := address.Format(chain, constants.GetHRP(localnet.NetworkID), make([]byte, 20))
	require.NoError(t, err)
	return append(groups, []string{nobody})
}

// What the service answers as a node does is what a node answers.
func TestNodeAPI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	start := time.Now()
	n := startNodeAPI(t, ctx)
	t.Logf("ready after %s", time.Since(start))
	for _, part := range []struct {
		name    string
		compare func(context.Context, *testing.T)
	}{
		{"info", n.info},
		{"asset chain", n.assetChain},
		{"platform chain", n.platformChain},
		{"index", n.index},
		{"pages", n.pages},
		{"bad requests", n.badRequests},
		{"official clients", n.officialClients},
	} {
		t.Run(part.name, func(t *testing.T) { part.compare(ctx, t) })
	}
	t.Logf("%d calls compared; all after %s", n.compared, time.Since(start))
}

func (n *nodeAPI) info(ctx context.Context, t *testing.T) {
	const path = "/ext/info"
	exact := alike{}
	for _, method := range []string{"getNetworkID", "getNetworkName", "getTxFee", "upgrades"} {
		n.same(ctx, t, exact, path, "info."+method, "{}")
	}
	for _, alias := range []string{"X", "P", "C", "avm", "platform", "evm", n.xChain, constants.PlatformChainID.String(), "", "nothing"} {
		n.same(ctx, t, exact, path, "info.getBlockchainID", `{"alias":"`+alias+`"}`)
		n.same(ctx, t, exact, path, "info.isBootstrapped", `{"chain":"`+alias+`"}`)
	}
	for _, method := range []string{"getNodeID", "getNodeIP", "getNodeVersion", "peers"} {
		n.both(ctx, t, alike{shape: true}, n.service.private, path, "info."+method, "{}", "info."+method)
	}
	n.both(ctx, t, alike{}, n.service.private, path, "info.getVMs", "{}", "info.getVMs")
	// Which proposals are current depends on the version.
	n.same(ctx, t, alike{shape: true, free: []string{"acps"}}, path, "info.acps", "{}")
	n.same(ctx, t, exact, path, "info.peers", `{"nodeIDs":["`+ids.GenerateTestNodeID().String()+`"]}`)
}

func (n *nodeAPI) assetChain(ctx context.Context, t *testing.T) {
	blocks, txs := n.listed(ctx, t, "/ext/bc/X", "avm")
	txs = append(txs, n.asset) // of the genesis
	exact := alike{}
	for _, prefix := range []string{"avm", "xvm"} {
		compare := func(how alike, path, method, params string) {
			t.Helper()
			n.both(ctx, t, how, n.service.url, path, "avm."+method, params, prefix+"."+method)
		}
		for _, path := range []string{"/ext/bc/X", "/ext/X", "/ext/bc/avm", "/ext/avm", "/ext/bc/" + n.xChain} {
			compare(exact, path, "getHeight", "{}")
		}
		compare(exact, "/ext/bc/X", "getTxFee", "{}")
		for _, encoding := range encodings {
			for h := range blocks {
				compare(exact, "/ext/bc/X", "getBlockByHeight", fmt.Sprintf(`{"height":"%d"%s}`, h, encoding))
				compare(exact, "/ext/bc/X", "getBlock", fmt.Sprintf(`{"blockID":"%s"%s}`, blocks[h], encoding))
			}
			for _, tx := range txs {
				compare(exact, "/ext/bc/X", "getTx", fmt.Sprintf(`{"txID":"%s"%s}`, tx, encoding))
			}
			if prefix == "xvm" {
				break
			}
		}
		for _, tx := range txs {
			compare(exact, "/ext/bc/X", "getTxStatus", `{"txID":"`+tx+`"}`)
			compare(exact, "/ext/bc/X", "getAssetDescription", `{"assetID":"`+tx+`"}`)
		}
		compare(exact, "/ext/bc/X", "getAssetDescription", `{"assetID":"AVAX"}`)
		for _, group := range n.addresses(t, "X") {
			for _, partial := range []string{"", `,"includePartial":true`} {
				compare(alike{sets: []string{"balances"}}, "/ext/bc/X", "getAllBalances", `{"address":"`+group[0]+`"`+partial+`}`)
				for _, asset := range append([]string{"AVAX"}, txs...) {
					compare(alike{sets: []string{"utxoIDs"}}, "/ext/bc/X", "getBalance", `{"address":"`+group[0]+`","assetID":"`+asset+`"`+partial+`}`)
				}
			}
		}
		n.outputs(ctx, t, compare, "/ext/bc/X", []string{"", "X", "P", "C", "avm", constants.PlatformChainID.String()}, n.addresses(t, "X"))
	}
}

// outputs compares getUTXOs of groups of owners.
func (n *nodeAPI) outputs(_ context.Context, t *testing.T, compare func(alike, string, string, string), path string, sources []string, groups [][]string) {
	t.Helper()
	how := alike{sets: []string{"utxos"}, loose: []string{"utxo"}} // the order is each node's own
	for _, group := range groups {
		for _, source := range sources {
			for _, encoding := range []string{"", `,"encoding":"hexnc"`, `,"limit":2000`, `,"limit":0`} {
				params := `{"addresses":["` + strings.Join(group, `","`) + `"]` + encoding
				if source != "" {
					params += `,"sourceChain":"` + source + `"`
				}
				compare(how, path, "getUTXOs", params+"}")
			}
		}
	}
}

// pages compares what comes of all pages together.
func (n *nodeAPI) pages(ctx context.Context, t *testing.T) {
	for _, chain := range []struct{ path, method, alias string }{{"/ext/bc/X", "avm.getUTXOs", "X"}, {"/ext/bc/P", "platform.getUTXOs", "P"}} {
		for _, group := range n.addresses(t, chain.alias) {
			for _, limit := range []int{1, 2, 3, 1024} {
				for _, source := range []string{"X", "P", "C"} {
					walk := func(base string) (all []string) {
						start := ""
						for range 1000 {
							var page struct {
								UTXOs      []string
								NumFetched string
								EndIndex   struct{ Address, UTXO string }
							}
							params := fmt.Sprintf(`{"addresses":["%s"],"limit":%d,"sourceChain":"%s"%s}`, strings.Join(group, `","`), limit, source, start)
							require.NoError(t, localnet.Call(ctx, base, chain.path, chain.method, json.RawMessage(params), &page), "%s %s", base, params)
							require.Equal(t, fmt.Sprint(len(page.UTXOs)), page.NumFetched)
							all = append(all, page.UTXOs...)
							if len(page.UTXOs) < limit {
								slices.Sort(all)
								return all
							}
							start = fmt.Sprintf(`,"startIndex":{"address":"%s","utxo":"%s"}`, page.EndIndex.Address, page.EndIndex.UTXO)
						}
						require.Fail(t, "too many pages", "%s of %v", chain.method, group)
						return nil
					}
					node, service := slices.Compact(walk(n.node)), walk(n.service.url)
					if len(group) == 1 {
						require.Equal(t, slices.Compact(slices.Clone(service)), service, "an output comes twice")
					}
					require.Equal(t, node, slices.Compact(service), "%s of %v by %d from %s", chain.method, group, limit, source)
				}
			}
		}
	}
}

func (n *nodeAPI) platformChain(ctx context.Context, t *testing.T) {
	const path = "/ext/bc/P"
	blocks, txs := n.listed(ctx, t, path, "platform")
	txs = append(txs, n.xChain) // of the genesis
	exact := alike{}
	compare := func(how alike, path, method, params string) {
		t.Helper()
		n.same(ctx, t, how, path, "platform."+method, params)
	}
	for _, p := range []string{path, "/ext/P", "/ext/bc/platform", "/ext/platform", "/ext/bc/" + constants.PlatformChainID.String()} {
		compare(exact, p, "getHeight", "{}")
	}
	for _, encoding := range encodings {
		for h := range blocks {
			compare(exact, path, "getBlockByHeight", fmt.Sprintf(`{"height":%d%s}`, h, encoding))
			compare(exact, path, "getBlock", fmt.Sprintf(`{"blockID":"%s"%s}`, blocks[h], encoding))
		}
		for _, tx := range txs {
			compare(exact, path, "getTx", fmt.Sprintf(`{"txID":"%s"%s}`, tx, encoding))
		}
	}
	for _, tx := range txs {
		compare(exact, path, "getTxStatus", `{"txID":"`+tx+`"}`)
		compare(exact, path, "getRewardUTXOs", `{"txID":"`+tx+`"}`)
	}
	var chains struct {
		Blockchains []struct{ ID, SubnetID string }
	}
	n.result(ctx, t, path, "platform.getBlockchains", "{}", &chains)
	require.Len(t, chains.Blockchains, 3)
	compare(exact, path, "getBlockchains", "{}")
	compare(exact, path, "getBlockchainStatus", `{"blockchainID":"P"}`)
	subnets := []string{constants.PrimaryNetworkID.String()}
	for _, chain := range chains.Blockchains {
		how := exact
		if chain.SubnetID == constants.PrimaryNetworkID.String() {
			how.loose = []string{"status"} // Validating is the node's own
		} else {
			subnets = append(subnets, chain.SubnetID)
		}
		compare(how, path, "getBlockchainStatus", `{"blockchainID":"`+chain.ID+`"}`)
		compare(exact, path, "validatedBy", `{"blockchainID":"`+chain.ID+`"}`)
	}
	compare(exact, path, "getBlockchainStatus", `{"blockchainID":"`+ids.GenerateTestID().String()+`"}`)

	var current struct{ Validators []struct{ NodeID string } }
	n.result(ctx, t, path, "platform.getCurrentValidators", "{}", &current)
	require.Len(t, current.Validators, localnet.Size+1)
	validators := alike{sets: []string{"validators", "delegators"}, loose: []string{"uptime", "connected"}}
	compare(validators, path, "getCurrentValidators", "{}")
	compare(validators, path, "getCurrentValidators", `{"subnetID":null,"nodeIDs":[]}`)
	for _, v := range current.Validators {
		compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+v.NodeID+`"]}`)
		compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+v.NodeID+`","`+v.NodeID+`"]}`)
		compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+v.NodeID+`","`+current.Validators[0].NodeID+`"]}`)
	}
	compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+ids.GenerateTestNodeID().String()+`"]}`)
	for _, subnet := range append(subnets, ids.GenerateTestID().String()) {
		compare(validators, path, "getCurrentValidators", `{"subnetID":"`+subnet+`"}`)
		for _, method := range []string{"getCurrentSupply", "getSubnet", "validates", "getStakingAssetID", "getTotalStake", "getMinStake"} {
			compare(exact, path, method, `{"subnetID":"`+subnet+`"}`)
		}
	}
	for _, method := range []string{"getProposedHeight", "getTimestamp", "getFeeConfig", "getValidatorFeeConfig", "getValidatorFeeState"} {
		compare(exact, path, method, "{}")
	}
	compare(alike{sets: []string{"subnets"}}, path, "getSubnets", "{}")
	compare(alike{shape: true}, path, "getFeeState", "{}")
	compare(exact, path, "getValidatorsAt", `{"height":0}`)
	compare(exact, path, "getAllValidatorsAt", `{"height":1}`)

	groups := n.addresses(t, "P")
	for _, group := range groups {
		compare(alike{sets: []string{"utxoIDs"}}, path, "getBalance", `{"addresses":["`+strings.Join(group, `","`)+`"]}`)
		compare(exact, path, "getStake", `{"addresses":["`+strings.Join(group, `","`)+`"]}`)
	}
	compare(exact, path, "getBalance", "{}")
	n.outputs(ctx, t, compare, path, []string{"", "P", "X", "C", n.xChain}, groups)
}

// indexes are the node's.
var indexes = []string{"C/block", "P/block", "X/block", "X/tx", "X/vtx"}

func (n *nodeAPI) index(ctx context.Context, t *testing.T) {
	how := alike{loose: []string{"timestamp"}} // when each of them had it
	for _, name := range indexes {
		path := "/ext/index/" + name
		compare := func(method, params string) {
			t.Helper()
			n.same(ctx, t, how, path, "index."+method, params)
		}
		all, err := indexer.NewClient(n.node+path).GetContainerRange(ctx, 0, 1024)
		if strings.HasSuffix(name, "tx") {
			require.ErrorContains(t, err, "no containers have been accepted")
		} else {
			require.NoError(t, err)
			require.NotEmpty(t, all)
		}
		for _, encoding := range encodings {
			compare("getLastAccepted", "{"+strings.TrimPrefix(encoding, ",")+"}")
			for i, c := range all {
				compare("getContainerByIndex", fmt.Sprintf(`{"index":%d%s}`, i, encoding))
				compare("getContainerByID", fmt.Sprintf(`{"id":"%s"%s}`, c.ID, encoding))
			}
			compare("getContainerByIndex", fmt.Sprintf(`{"index":"%d"%s}`, len(all), encoding))
			compare("getContainerByID", fmt.Sprintf(`{"id":"%s"%s}`, ids.GenerateTestID(), encoding))
			for _, window := range [][2]int{{0, 1}, {0, 1024}, {1, 2}, {len(all) - 1, 1024}, {len(all), 1}, {1 << 40, 1}, {0, 1025}, {1 << 40, 2000}} {
				compare("getContainerRange", fmt.Sprintf(`{"startIndex":"%d","numToFetch":%d%s}`, max(window[0], 0), window[1], encoding))
			}
		}
		for _, c := range all {
			compare("getIndex", fmt.Sprintf(`{"id":"%s"}`, c.ID))
			compare("isAccepted", fmt.Sprintf(`{"id":"%s"}`, c.ID))
		}
		for _, params := range []string{"{}", fmt.Sprintf(`{"id":"%s"}`, ids.GenerateTestID()), fmt.Sprintf(`{"containerID":"%s"}`, n.xChain)} {
			compare("getIndex", params)
			compare("isAccepted", params)
			compare("getContainerByID", params)
		}
		// Here the node fails, against its own documentation.
		none := ask(t, ctx, http.MethodPost, n.service.url+path, "application/json", callBody("index.getContainerRange", `{"startIndex":5}`))
		require.JSONEq(t, `{"jsonrpc":"2.0","result":{"containers":[]},"id":7}`, none.body)

		// The times are when the service had them, which cannot be before a node had.
		if len(all) == 0 {
			continue
		}
		ours, err := indexer.NewClient(n.service.url+path).GetContainerRange(ctx, 0, 1024)
		require.NoError(t, err)
		for i := range all {
			require.GreaterOrEqual(t, ours[i].Timestamp, all[i].Timestamp, "container %d", i)
			require.LessOrEqual(t, ours[i].Timestamp, time.Now().UnixNano())
		}
	}
}

var anyUTXO = regexp.MustCompile(`UTXO [1-9A-Za-z]{40,}`)

// badRequests are refused by both in the same words.
func (n *nodeAPI) badRequests(ctx context.Context, t *testing.T) {
	const contentType = "application/json"
	type request struct{ verb, path, contentType, body string }
	var all []request
	add := func(path string, bodies ...string) {
		for _, b := range bodies {
			all = append(all, request{http.MethodPost, path, contentType, b})
		}
	}
	paths := []string{"/ext/info", "/ext/bc/P", "/ext/bc/X", "/ext/index/P/block"}
	methods := map[string]string{"/ext/info": "info.getNetworkID", "/ext/bc/P": "platform.getHeight", "/ext/bc/X": "avm.getHeight", "/ext/index/P/block": "index.isAccepted"}
	for _, path := range paths {
		good := callBody(methods[path], "{}")
		for _, verb := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodPatch, http.MethodOptions} {
			all = append(all, request{verb, path, contentType, good})
		}
		for _, kind := range []string{"", "text/plain", "application/jsonx", "application/json, text/plain", "APPLICATION/JSON", "application/json; charset=latin1", "application/json ;x"} {
			all = append(all, request{http.MethodPost, path, kind, good})
		}
		service, _, _ := strings.Cut(methods[path], ".")
		add(path, "", " ", "{", "[", "[]", "["+good+"]", "1", `"text"`, "null", "true", "{}", "nonsense", good+" and more", good[:len(good)-1],
			`{"jsonrpc":"1.0","id":1,"method":"`+methods[path]+`"}`,
			`{"id":1,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":2.0,"id":1,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":1}`,
			`{"jsonrpc":"2.0","id":1,"method":5}`,
			`{"jsonrpc":"2.0","method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":null,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":"text <>&","method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":{"a":[1, 2]},"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"`+methods[path]+`"}`,
			`{"jsonrpc":"2.0","id":1.50,"method":"`+methods[path]+`","params":[]}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":[{}]}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":[{},{}]}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":null}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":"text"}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":1}`,
			`{"jsonrpc":"2.0","id":1,"method":"`+methods[path]+`","params":[1]}`,
			`{"JSONRPC":"2.0","ID":1,"Method":"`+methods[path]+`","extra":{}}`,
			callBody(service, "{}"), callBody(service+".", "{}"), callBody("."+service, "{}"), callBody(service+".a.b", "{}"), callBody("", "{}"),
			callBody(service+".GetHeight", "{}"), callBody(service+".nothing", "{}"), callBody("nothing.getHeight", "{}"), callBody(strings.ToUpper(service)+".getHeight", "{}"),
			callBody(service+".été", "{}"), callBody(service+"._x", "{}"),
		)
	}
	for _, path := range []string{"/", "/ext", "/ext/", "/ext/nothing", "/ext/info/", "/ext/INFO", "/ext/info/more", "/ext/bc", "/ext/bc/", "/ext/bc/nothing", "/ext/bc/x", "/ext/bc/X/", "/ext/bc/X/events", "/ext/bc/P/rpc",
		"/ext/index", "/ext/index/P", "/ext/index/P/tx", "/ext/index/platform/block", "/ext/index/X/block/", "//ext/info", "/ext//bc/X", "/ext/./info", "/ext/bc/../info", "/ext/bc/C"} {
		if path == "/" { // where the service has more than a node
			continue
		}
		add(path, callBody("info.getNetworkID", "{}"))
		all = append(all, request{http.MethodGet, path, "", ""})
	}

	// Arguments, by method.
	type arguments struct {
		path, method string
		params       []string
	}
	unknown := ids.GenerateTestID().String()
	id := func(member string) []string {
		var all []string
		for _, v := range []string{"null", `""`, `"x"`, `"0x00"`, "5", "{}", "[]", `"` + n.xChain[1:] + `"`, `"` + unknown + `"`, `"11111111111111111111111111111111LpoYY"`} {
			all = append(all, `{"`+member+`":`+v+`}`)
		}
		return append(all, "{}")
	}
	number := func(member string) []string {
		var all []string
		for _, v := range []string{"-1", `"-1"`, "1.5", "1e3", `"1e3"`, `"x"`, `""`, "true", "[]", "18446744073709551615", `"18446744073709551615"`, "18446744073709551616", `"18446744073709551616"`, `"+1"`, `"0x1"`, `" 1"`, `"99999"`} {
			all = append(all, `{"`+member+`":`+v+`}`)
		}
		return all
	}
	encoding := func(before string) []string {
		var all []string
		for _, v := range []string{`""`, `"cb58"`, `"CB58"`, "5", `"hexx"`, "{}", "null", `"JSON"`, `"hExNc"`} {
			all = append(all, `{`+before+`"encoding":`+v+`}`)
		}
		return all
	}
	x, p := n.addresses(t, "X")[0][0], n.addresses(t, "P")[0][0]
	foreign, err := address.Format("X", "fuji", n.keys[0].Address().Bytes())
	require.NoError(t, err)
	bare, err := address.FormatBech32(constants.GetHRP(localnet.NetworkID), n.keys[0].Address().Bytes())
	require.NoError(t, err)
	aliased := "avm-" + bare
	byID := n.xChain + "-" + bare
	addresses := []string{x, p, foreign, bare, aliased, byID, "", "x", "X-", "X-local1", "C-" + bare, "nothing-" + bare, "X-" + strings.ToUpper(bare), n.keys[0].Address().String(), n.keys[0].Address().String()[1:], n.xChain, "X-" + bare + "q"}
	var single, lists []string
	for _, a := range addresses {
		single = append(single, `{"address":"`+a+`","assetID":"AVAX"}`)
		lists = append(lists, `{"addresses":["`+a+`"],"limit":1024}`, `{"addresses":["`+a+`"],"limit":1024,"sourceChain":"C"}`)
	}
	lists = append(lists, "{}", `{"addresses":null}`, `{"addresses":[]}`, `{"addresses":"x"}`, `{"addresses":[5]}`, `{"addresses":{}}`,
		`{"addresses":[`+strings.Repeat(`"x",`, 1024)+`"x"]}`, `{"addresses":["x"],"limit":-1}`, `{"addresses":["x"],"limit":"x"}`, `{"addresses":["x"],"limit":4294967296}`, `{"addresses":["x"],"sourceChain":"nothing"}`)
	utxos := func(own string) []string {
		all := slices.Clone(lists)
		for _, more := range []string{`"limit":-1`, `"limit":"5000"`, `"limit":4294967296`, `"sourceChain":"nothing"`, `"sourceChain":5`, `"sourceChain":"` + unknown + `"`, `"encoding":"json"`, `"encoding":""`,
			`"startIndex":{}`, `"startIndex":null`, `"startIndex":5`, `"startIndex":{"address":"` + own + `"}`, `"startIndex":{"utxo":"` + unknown + `"}`, `"startIndex":{"address":"x","utxo":"x"}`,
			`"startIndex":{"address":"` + own + `","utxo":"x"}`, `"startIndex":{"address":"` + foreign + `","utxo":"` + unknown + `"}`} {
			all = append(all, `{"addresses":["`+own+`"],`+more+`}`)
		}
		return all
	}
	height := append(number("height"), encoding("")...)
	for _, a := range []arguments{
		{"/ext/info", "info.getBlockchainID", []string{"{}", `{"alias":5}`, `{"alias":null}`, `{"alias":"nothing <>"}`, `{"ALIAS":"X"}`}},
		{"/ext/info", "info.isBootstrapped", []string{"{}", `{"chain":5}`, `{"chain":""}`, `{"chain":"nothing"}`, `{"chain":"` + unknown + `"}`}},
		{"/ext/info", "info.peers", []string{`{"nodeIDs":["x"]}`, `{"nodeIDs":"x"}`, `{"nodeIDs":5}`, `{"nodeIDs":["` + unknown + `"]}`}},
		{"/ext/bc/X", "avm.getBlock", append(id("blockID"), encoding("")...)},
		{"/ext/bc/X", "avm.getBlockByHeight", height},
		{"/ext/bc/X", "avm.getTx", append(id("txID"), encoding(`"txID":"`+n.asset+`",`)...)},
		{"/ext/bc/X", "avm.getTxStatus", id("txID")},
		{"/ext/bc/X", "avm.getAssetDescription", id("assetID")},
		{"/ext/bc/X", "avm.getBalance", append(single, `{"address":"`+x+`"}`, `{"address":"`+x+`","assetID":"x"}`, `{"address":"`+x+`","assetID":"`+unknown+`"}`, `{"address":"y","assetID":"x"}`, `{"address":5}`, `{"includePartial":"true"}`)},
		{"/ext/bc/X", "avm.getAllBalances", append(single, "{}", `{"address":5}`)},
		{"/ext/bc/X", "avm.getUTXOs", utxos(x)},
		{"/ext/bc/X", "avm.issueTx", []string{"{}", `{"tx":"x"}`, `{"tx":"0x00"}`, `{"tx":"","encoding":"json"}`}},
		{"/ext/bc/P", "platform.getBlock", append(id("blockID"), encoding("")...)},
		{"/ext/bc/P", "platform.getBlockByHeight", height},
		{"/ext/bc/P", "platform.getTx", append(id("txID"), encoding(`"txID":"`+n.xChain+`",`)...)},
		{"/ext/bc/P", "platform.getTxStatus", id("txID")},
		{"/ext/bc/P", "platform.getBlockchainStatus", append(id("blockchainID"), `{"blockchainID":"X-"}`)},
		{"/ext/bc/P", "platform.getCurrentSupply", id("subnetID")},
		{"/ext/bc/P", "platform.getBalance", lists},
		{"/ext/bc/P", "platform.getUTXOs", utxos(p)},
		{"/ext/bc/P", "platform.getCurrentValidators", append(id("subnetID"), `{"nodeIDs":["x"]}`, `{"nodeIDs":5}`, `{"nodeIDs":null}`, `{"nodeIDs":["`+unknown+`"]}`, `{"nodeIDs":[""]}`)},
		{"/ext/bc/P", "platform.getValidatorsAt", number("height")},
		{"/ext/bc/P", "platform.getPendingValidators", []string{"{}"}},
		{"/ext/bc/P", "platform.getL1Validator", id("validationID")},
		{"/ext/index/P/block", "index.getLastAccepted", encoding("")},
		{"/ext/index/P/block", "index.getContainerByIndex", append(number("index"), encoding("")...)},
		{"/ext/index/P/block", "index.getContainerByID", append(id("id"), encoding("")...)},
		{"/ext/index/P/block", "index.getIndex", id("id")},
		{"/ext/index/P/block", "index.isAccepted", id("id")},
		{"/ext/index/P/block", "index.getContainerRange", append(append(number("numToFetch"), `{"startIndex":-1,"numToFetch":1}`, `{"startIndex":"18446744073709551615","numToFetch":1024}`), encoding(`"numToFetch":1,`)...)},
	} {
		for _, params := range a.params {
			add(a.path, callBody(a.method, params))
		}
	}
	require.Greater(t, len(all), 60)
	how := alike{sets: []string{"validators", "utxos", "balances", "utxoIDs"}, loose: []string{"utxo", "uptime", "connected", "timestamp"}}
	different := 0
	for _, r := range all {
		node := ask(t, ctx, r.verb, n.node+r.path, r.contentType, r.body)
		service := ask(t, ctx, r.verb, n.service.url+r.path, r.contentType, r.body)
		if strings.Contains(r.body, `"json"`) { // which of the outputs fails first is each one's own
			node.body, service.body = anyUTXO.ReplaceAllString(node.body, "UTXO"), anyUTXO.ReplaceAllString(service.body, "UTXO")
		}
		found := how.compare(node, service)
		for _, d := range found {
			shown := r.body
			if len(shown) > 300 {
				shown = shown[:300] + "..."
			}
			t.Errorf("%s %s (%s) %s: %s", r.verb, r.path, r.contentType, shown, d)
		}
		if len(found) > 0 {
			different++
		}
	}
	n.compared += len(all)
	t.Logf("%d bad requests, %d answered differently", len(all), different)
}

// officialClients has the node's own clients call the service as they are.
func (n *nodeAPI) officialClients(ctx context.Context, t *testing.T) {
	for _, chain := range []string{"P", "X", "C"} {
		theirs := indexer.NewClient(n.node + "/ext/index/" + chain + "/block")
		ours := indexer.NewClient(n.service.url + "/ext/index/" + chain + "/block")
		wantAll, err := theirs.GetContainerRange(ctx, 0, 1024)
		require.NoError(t, err)
		gotAll, err := ours.GetContainerRange(ctx, 0, 1024)
		require.NoError(t, err)
		require.Len(t, gotAll, len(wantAll))
		for i, want := range wantAll {
			require.Equal(t, want.ID, gotAll[i].ID)
			require.Equal(t, want.Bytes, gotAll[i].Bytes)
			got, err := ours.GetContainerByIndex(ctx, uint64(i))
			require.NoError(t, err)
			require.Equal(t, gotAll[i], got)
			got, at, err := ours.GetContainerByID(ctx, want.ID)
			require.NoError(t, err)
			require.Equal(t, uint64(i), at)
			require.Equal(t, gotAll[i], got)
			at, err = ours.GetIndex(ctx, want.ID)
			require.NoError(t, err)
			require.Equal(t, uint64(i), at)
			accepted, err := ours.IsAccepted(ctx, want.ID)
			require.NoError(t, err)
			require.True(t, accepted)
		}
		last, at, err := ours.GetLastAccepted(ctx)
		require.NoError(t, err)
		require.Equal(t, uint64(len(wantAll)-1), at)
		require.Equal(t, gotAll[at], last)
		accepted, err := ours.IsAccepted(ctx, ids.GenerateTestID())
		require.NoError(t, err)
		require.False(t, accepted)
	}
	n.platformClient(ctx, t)
	n.assetClient(ctx, t)
}

// equal asks the same of the node's and the service's client.
func equal[C, R any](t *testing.T, node, service C, call func(C) (R, error)) R {
	t.Helper()
	want, err := call(node)
	require.NoError(t, err, "the node")
	got, err := call(service)
	require.NoError(t, err, "the service")
	require.Equal(t, want, got)
	return got
}

func (n *nodeAPI) platformClient(ctx context.Context, t *testing.T) {
	type client = *platformvm.Client
	theirs, ours := platformvm.NewClient(n.node), platformvm.NewClient(n.service.url)
	type two struct{ a, b any }
	primary := constants.PrimaryNetworkID
	owners := []ids.ShortID{n.keys[0].Address(), n.keys[1].Address()}
	height := equal(t, theirs, ours, func(c client) (uint64, error) { return c.GetHeight(ctx) })
	equal(t, theirs, ours, func(c client) (uint64, error) { return c.GetProposedHeight(ctx) })
	equal(t, theirs, ours, func(c client) (any, error) {
		b, err := c.GetBalance(ctx, owners) //nolint:staticcheck // deprecated, and part of the surface
		if err == nil {
			slices.SortFunc(b.UTXOIDs, func(x, y *avax.UTXOID) int { return strings.Compare(x.String(), y.String()) })
		}
		return b, err
	})
	utxos := func(raw [][]byte, _ ids.ShortID, _ ids.ID, err error) ([][]byte, error) {
		slices.SortFunc(raw, bytes.Compare)
		return raw, err
	}
	xID, err := ids.FromString(n.xChain)
	require.NoError(t, err)
	equal(t, theirs, ours, func(c client) ([][]byte, error) {
		return utxos(c.GetUTXOs(ctx, owners, 1024, ids.ShortEmpty, ids.Empty))
	})
	equal(t, theirs, ours, func(c client) ([][]byte, error) {
		return utxos(c.GetAtomicUTXOs(ctx, owners, "X", 1024, ids.ShortEmpty, ids.Empty))
	})
	chains := equal(t, theirs, ours, func(c client) ([]platformvm.APIBlockchain, error) { return c.GetBlockchains(ctx) }) //nolint:staticcheck // as above
	subnet := chains[0].SubnetID
	require.NotEqual(t, primary, subnet)
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetSubnet(ctx, subnet) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetSubnets(ctx, []ids.ID{subnet}) }) //nolint:staticcheck // as above
	equal(t, theirs, ours, func(c client) (ids.ID, error) { return c.GetStakingAssetID(ctx, primary) })
	stakers := equal(t, theirs, ours, func(c client) ([]platformvm.ClientPermissionlessValidator, error) {
		all, err := c.GetCurrentValidators(ctx, primary, nil)
		for i := range all {
			all[i].Uptime, all[i].Connected = nil, nil
		}
		slices.SortFunc(all, func(x, y platformvm.ClientPermissionlessValidator) int { return x.NodeID.Compare(y.NodeID) })
		return all, err
	})
	require.Len(t, stakers, localnet.Size+1)
	equal(t, theirs, ours, func(c client) (any, error) {
		a, b, err := c.GetCurrentSupply(ctx, primary)
		return two{a, b}, err
	})
	sample, err := ours.SampleValidators(ctx, primary, 3)
	require.NoError(t, err)
	require.Len(t, sample, 3)
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetBlockchainStatus(ctx, chains[0].ID.String()) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.ValidatedBy(ctx, xID) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.Validates(ctx, subnet) })
	_, err = ours.IssueTx(ctx, []byte{1})
	require.Error(t, err)
	_, want := theirs.IssueTx(ctx, []byte{1})
	require.EqualError(t, err, want.Error())
	equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetTx(ctx, subnet) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetTxStatus(ctx, subnet) })
	equal(t, theirs, ours, func(c client) (any, error) {
		a, b, err := c.GetStake(ctx, owners, false) //nolint:staticcheck // as above
		return two{a, b}, err
	})
	equal(t, theirs, ours, func(c client) (any, error) {
		a, b, err := c.GetMinStake(ctx, primary)
		return two{a, b}, err
	})
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetTotalStake(ctx, primary) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetRewardUTXOs(ctx, &api.GetTxArgs{TxID: subnet}) }) //nolint:staticcheck // as above
	equal(t, theirs, ours, func(c client) (time.Time, error) { return c.GetTimestamp(ctx) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetValidatorsAt(ctx, primary, platformapi.Height(height)) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetAllValidatorsAt(ctx, platformapi.Height(height)) })
	block := equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlockByHeight(ctx, height) })
	require.NotEmpty(t, block)
	var byHeight struct{ Block struct{ ID ids.ID } }
	n.result(ctx, t, "/ext/bc/P", "platform.getBlockByHeight", fmt.Sprintf(`{"height":%d,"encoding":"json"}`, height), &byHeight)
	equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlock(ctx, byHeight.Block.ID) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetFeeConfig(ctx) })
	_, _, _, err = ours.GetFeeState(ctx)
	require.NoError(t, err)
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetValidatorFeeConfig(ctx) })
	_, _, _, err = ours.GetValidatorFeeState(ctx)
	require.NoError(t, err)
	_, _, err = ours.GetL1Validator(ctx, subnet)
	_, _, want = theirs.GetL1Validator(ctx, subnet)
	require.EqualError(t, err, want.Error())
}

func (n *nodeAPI) assetClient(ctx context.Context, t *testing.T) {
	type client = *avm.Client
	for _, chain := range []string{"X", n.xChain} {
		theirs, ours := avm.NewClient(n.node, chain), avm.NewClient(n.service.url, chain)
		height := equal(t, theirs, ours, func(c client) (uint64, error) { return c.GetHeight(ctx) })
		equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlockByHeight(ctx, height) })
		var byHeight struct{ Block struct{ ID ids.ID } }
		n.result(ctx, t, "/ext/bc/X", "avm.getBlockByHeight", fmt.Sprintf(`{"height":%d,"encoding":"json"}`, height), &byHeight)
		equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlock(ctx, byHeight.Block.ID) })
		asset, err := ids.FromString(n.asset)
		require.NoError(t, err)
		equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetTx(ctx, asset) })
		equal(t, theirs, ours, func(c client) (any, error) { return c.GetTxStatus(ctx, asset) }) //nolint:staticcheck // deprecated, and part of the surface
		for _, name := range []string{"AVAX", n.asset} {
			equal(t, theirs, ours, func(c client) (any, error) { return c.GetAssetDescription(ctx, name) })
		}
		equal(t, theirs, ours, func(c client) (any, error) {
			fee, create, err := c.GetTxFee(ctx)
			return [2]uint64{fee, create}, err
		})
		for _, key := range n.keys {
			owner := key.Address()
			equal(t, theirs, ours, func(c client) (any, error) {
				b, err := c.GetBalance(ctx, owner, "AVAX", true) //nolint:staticcheck // as above
				if err == nil {
					slices.SortFunc(b.UTXOIDs, func(x, y avax.UTXOID) int { return strings.Compare(x.String(), y.String()) })
				}
				return b, err
			})
			equal(t, theirs, ours, func(c client) (any, error) {
				b, err := c.GetAllBalances(ctx, owner, true) //nolint:staticcheck // as above
				slices.SortFunc(b, func(x, y avm.Balance) int { return strings.Compare(x.AssetID, y.AssetID) })
				return b, err
			})
			for _, source := range []string{"P", "C"} {
				equal(t, theirs, ours, func(c client) ([][]byte, error) {
					raw, _, _, err := c.GetAtomicUTXOs(ctx, []ids.ShortID{owner}, source, 1024, ids.ShortEmpty, ids.Empty)
					slices.SortFunc(raw, bytes.Compare)
					return raw, err
				})
			}
			equal(t, theirs, ours, func(c client) ([][]byte, error) {
				raw, _, _, err := c.GetUTXOs(ctx, []ids.ShortID{owner}, 1024, ids.ShortEmpty, ids.Empty)
				slices.SortFunc(raw, bytes.Compare)
				return raw, err
			})
		}
		_, err = ours.IssueTx(ctx, []byte{1})
		_, want := theirs.IssueTx(ctx, []byte{1})
		require.EqualError(t, err, want.Error())
	}
}
