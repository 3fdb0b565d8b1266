package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/stretchr/testify/require"
)

// clientMethod is the method of an operation in chainkit and avacloud-sdk, which is called by its path.
type clientMethod struct {
	path string
	// list is the field of a page that has the items; empty if there are no pages.
	list string
}

// clientMethods are the methods by operation ID.
var clientMethods = map[string]clientMethod{
	"getTxByHash":                           {"data.primaryNetwork.transactions.get", ""},
	"listLatestPrimaryNetworkTransactions":  {"data.primaryNetwork.transactions.listLatest", "transactions"},
	"listSubnets":                           {"data.primaryNetwork.listSubnets", "subnets"},
	"listDelegators":                        {"data.primaryNetwork.listDelegators", "delegators"},
	"listVerticesByHeight":                  {"data.primaryNetwork.vertices.listByHeight", "vertices"},
	"listLatestXChainVertices":              {"data.primaryNetwork.vertices.listLatest", "vertices"},
	"listBalances":                          {"data.primaryNetwork.balances.listByAddresses", ""},
	"listUtxos":                             {"data.primaryNetwork.utxos.listByAddresses", "utxos"},
	"listUtxosOfBody":                       {"data.primaryNetwork.utxos.listByAddressesV2", "utxos"},
	"listStakingTransactions":               {"data.primaryNetwork.transactions.listActiveStakingTransactions", "transactions"},
	"getSubnet":                             {"data.primaryNetwork.getSubnetById", ""},
	"listBlockchains":                       {"data.primaryNetwork.listBlockchains", "blockchains"},
	"getBlockchain":                         {"data.primaryNetwork.getBlockchainById", ""},
	"listValidators":                        {"data.primaryNetwork.listValidators", "validators"},
	"getValidator":                          {"data.primaryNetwork.getValidatorDetails", "validators"},
	"listL1Validators":                      {"data.primaryNetwork.listL1Validators", "validators"},
	"getAssetDetails":                       {"data.primaryNetwork.getAssetDetails", ""},
	"getChainIdsForAddresses":               {"data.primaryNetwork.getChainIdsForAddresses", ""},
	"listLatestPrimaryNetworkBlocks":        {"data.primaryNetwork.blocks.listLatest", "blocks"},
	"listPrimaryNetworkBlocksByNodeId":      {"data.primaryNetwork.blocks.listByNodeId", "blocks"},
	"getLastActivityTimestampByAddresses":   {"data.primaryNetwork.utxos.getLastActivityTimestampByAddresses", ""},
	"getLastActivityTimestampByAddressesV2": {"data.primaryNetwork.utxos.getLastActivityTimestampByAddressesV2", ""},
	"listAssetTransactions":                 {"data.primaryNetwork.transactions.listAssetTransactions", "transactions"},
	"getBlockById":                          {"data.primaryNetwork.blocks.get", ""},
	"listHistoricalPrimaryNetworkRewards":   {"data.primaryNetwork.rewards.listHistoricalRewards", "historicalRewards"},
	"listPendingPrimaryNetworkRewards":      {"data.primaryNetwork.rewards.listPendingRewards", "pendingRewards"},
	"getRollingWindowMetrics":               {"metrics.chains.getRollingWindowMetrics", ""},
	"getChainMetrics":                       {"metrics.chains.getMetrics", "results"},
	"getNetworkDetails":                     {"data.primaryNetwork.getNetworkDetails", ""},
	"getNetworkMetrics":                     {"metrics.networks.getStakingMetrics", "results"},
	"listMetricChains":                      {"metrics.chains.list", "chains"},
	"getMetricChain":                        {"metrics.chains.get", ""},
	"listChains":                            {"data.evm.chains.list", ""},
	"getChain":                              {"data.evm.chains.get", ""},
	"listAddressChains":                     {"data.evm.address.chains.list", ""},
	"listLatestTransactions":                {"data.evm.transactions.listLatest", "transactions"},
	"getTransaction":                        {"data.evm.transactions.get", ""},
	"listLatestBlocks":                      {"data.evm.blocks.listLatest", "blocks"},
	"getBlock":                              {"data.evm.blocks.get", ""},
	"listBlockTransactions":                 {"data.evm.blocks.listTransactions", ""},
	"listInternalTransactions":              {"data.evm.address.transactions.listInternal", "transactions"},
	"listErc1155Transfers":                  {"data.evm.address.transactions.listErc1155", "transactions"},
	"listErc1155Balances":                   {"data.evm.address.balances.listErc1155", "erc1155TokenBalances"},
	"getDeploymentTransaction":              {"data.evm.contracts.getDeploymentTransaction", ""},
	"listContractDeployments":               {"data.evm.address.contracts.listDeployments", "contracts"},
	"listTokens":                            {"data.nfts.list", "tokens"},
	"getToken":                              {"data.nfts.get", ""},
	"getContractMetadata":                   {"data.evm.contracts.getMetadata", ""},
	"listTransactions":                      {"data.evm.address.transactions.list", "transactions"},
	"listNativeTransactions":                {"data.evm.address.transactions.listNative", "transactions"},
	"listErc20Transactions":                 {"data.evm.address.transactions.listErc20", "transactions"},
	"listErc721Transactions":                {"data.evm.address.transactions.listErc721", "transactions"},
	"getNativeBalance":                      {"data.evm.address.balances.getNative", ""},
	"listErc20Balances":                     {"data.evm.address.balances.listErc20", "erc20TokenBalances"},
	"listErc721Balances":                    {"data.evm.address.balances.listErc721", "erc721TokenBalances"},
	"listCollectibleBalances":               {"data.evm.address.balances.listCollectibles", "collectibleBalances"},
	"listIcmMessages":                       {"data.icm.list", "messages"},
	"getIcmMessage":                         {"data.icm.get", ""},
	"listIcmMessagesByAddress":              {"data.icm.listByAddress", ""}, // chainkit reads one page
	"listTransfers":                         {"data.evm.contracts.listTransfers", "transfers"},
}

// conformed are the operations that the tests called through clients.
var conformed struct {
	sync.Mutex
	operations map[string]bool
}

// TestMain also requires that all tests together call all operations.
func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "quorate-e2e"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && !testing.Short() {
		for _, id := range slices.Sorted(maps.Keys(clientMethods)) {
			if !conformed.operations[id] {
				fmt.Println("no test calls the operation through the official clients:", id)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// clients calls a service through the official clients. They only know public networks, so that a proxy between them and
// the service has the local network's name and blockchain IDs for those of fuji.
type clients struct {
	t       testing.TB
	service *service
	dir     string
	url     string
	// documented are method and path by operation ID, and glacier the methods of glacier-sdk by method and path.
	documented, glacier map[string]string

	mu      sync.Mutex
	answers []clientAnswer
}

// clientAnswer is what the service answered to a client.
type clientAnswer struct {
	request string
	body    []byte
}

func newClients(t testing.TB, ctx context.Context, s *service) *clients {
	t.Helper()
	c := &clients{t: t, service: s, dir: t.TempDir(), documented: make(map[string]string), glacier: make(map[string]string)}
	c.install(ctx)
	target, err := url.Parse(s.url)
	require.NoError(t, err)
	known := []string{`"network":"local"`, `"network":"fuji"`}
	for alias, id := range map[string]string{"X": "2JVSBoinj9C2J33VntvzYtVJNZdN2NKiwwKjcumHUWEb5DbBrm", "C": "yH8D7ThNJkxmtkuv2jgBa4P1Rn3Qpr4pPr7QYNfcdoS6k6HWp"} {
		local, err := info.NewClient(s.node).GetBlockchainID(ctx, alias)
		require.NoError(t, err)
		known = append(known, local.String(), id)
	}
	fuji := strings.NewReplacer(known...)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path = strings.Replace(r.Out.URL.Path, "/networks/fuji", "/networks/local", 1)
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			content, err := io.ReadAll(r.Body)
			body := []byte(fuji.Replace(string(content)))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answers = append(c.answers, clientAnswer{r.Request.Method + " " + r.Request.URL.String(), body})
			return err
		},
	})
	t.Cleanup(server.Close)
	c.url = server.URL

	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	_, content := s.ask(ctx, "/docs/openapi.json", nil)
	require.NoError(t, json.Unmarshal(content, &document))
	for path, methods := range document.Paths {
		for method, raw := range methods {
			var operation struct{ OperationID string }
			if json.Unmarshal(raw, &operation) == nil && operation.OperationID != "" {
				c.documented[operation.OperationID] = strings.ToUpper(method) + " " + path
			}
		}
	}
	var methods []struct{ Call, Method, Path string }
	require.NoError(t, json.Unmarshal(c.node(ctx, nil, "glacier.mjs"), &methods))
	for _, m := range methods {
		c.glacier[m.Method+" "+m.Path] = m.Call
	}
	for id, at := range c.documented {
		// Other tests call the aggregator and webhooks. A new network has no vertices.
		if c.glacier[at] == "" || strings.Contains(at, "/webhooks") || strings.Contains(at, "/signatureAggregator/") || id == "getVertexByHash" {
			continue
		}
		_, ok := clientMethods[id]
		require.True(t, ok, "operation %s has no method of the clients", id)
	}
	return c
}

// install copies the program that runs the clients, and installs their packages unless the tests of the module above left
// them in the cache (package testenv).
func (c *clients) install(ctx context.Context) {
	c.t.Helper()
	const from, lock = "../handlers/chainkit", "package-lock.json"
	for _, name := range []string{"package.json", lock, "client.mjs", "glacier.mjs"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(c.t, err)
		require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), content, 0o600))
		if name != lock {
			continue
		}
		digest := sha256.Sum256(content)
		kept, err := filepath.Abs(fmt.Sprintf("../.cache/npm-%x/node_modules", digest[:8]))
		require.NoError(c.t, err)
		if _, err := os.Stat(kept); err == nil {
			require.NoError(c.t, os.Symlink(kept, filepath.Join(c.dir, "node_modules")))
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "node_modules")); err == nil {
		return
	}
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = c.dir
	out, err := install.CombinedOutput()
	require.NoError(c.t, err, "%s", out)
}

func (c *clients) node(ctx context.Context, input []byte, program string) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", program)
	node.Dir, node.Stdin = c.dir, bytes.NewReader(input)
	var errors bytes.Buffer
	node.Stderr = &errors
	out, err := node.Output()
	require.NoError(c.t, err, "%s", &errors)
	return out
}

// clientCall is a call of an operation. A list is read with pages of each of some sizes.
type clientCall struct {
	operation string
	request   map[string]any
}

// sentCall is a clientCall as the program reads it.
type sentCall struct {
	Name    string         `json:"name"`
	Path    string         `json:"path"`
	Request map[string]any `json:"request"`
	List    string         `json:"list,omitempty"`
}

// require makes the calls with each client. A client must hand out what the service answered, and lists must not depend on
// the size of their pages.
func (c *clients) require(ctx context.Context, calls []clientCall) {
	c.t.Helper()
	for _, sdk := range []string{"", "avacloud-sdk", "glacier-sdk"} {
		var sent []sentCall
		for _, call := range calls {
			method, ok := clientMethods[call.operation]
			require.True(c.t, ok, call.operation)
			at := c.documented[call.operation]
			require.NotEmpty(c.t, at, call.operation)
			path := method.path
			if sdk == "glacier-sdk" {
				if path = c.glacier[at]; path == "" {
					continue
				}
			}
			sizes := []int{0}
			if method.list != "" {
				sizes = []int{1, 2, 3}
			}
			for _, size := range sizes {
				request := maps.Clone(call.request)
				if size > 0 {
					request["pageSize"] = size
				}
				if sdk == "glacier-sdk" && strings.Contains(at, "{network}") {
					request["network"] = "fuji"
				}
				sent = append(sent, sentCall{Name: call.operation, Path: path, Request: request, List: method.list})
			}
		}
		c.run(ctx, sdk, sent)
	}
	conformed.Lock()
	defer conformed.Unlock()
	if conformed.operations == nil {
		conformed.operations = make(map[string]bool)
	}
	for _, call := range calls {
		conformed.operations[call.operation] = true
	}
}

// fallen gives the items of a list the balances of the same list read later: they fall with each block, and blocks may come
// in between.
func fallen(t testing.TB, list, later []any, about string) {
	t.Helper()
	const balance = "remainingBalance"
	for i := range min(len(list), len(later)) {
		before, _ := list[i].(map[string]any)
		now, _ := later[i].(map[string]any)
		was, had := before[balance].(float64)
		is, has := now[balance].(float64)
		if had && has {
			require.LessOrEqual(t, is, was, about)
			before[balance] = is
		}
	}
}

// updated gives the items of a list the update times of the same list read later: the service asks again for metadata that it
// did not get, and may do so in between.
func updated(t testing.TB, list, later any, about string) {
	t.Helper()
	const at = "metadataLastUpdatedTimestamp"
	switch before := list.(type) {
	case []any:
		now, _ := later.([]any)
		for i := range min(len(before), len(now)) {
			updated(t, before[i], now[i], about)
		}
	case map[string]any:
		now, _ := later.(map[string]any)
		was, had := before[at].(float64)
		is, has := now[at].(float64)
		if had && has {
			require.GreaterOrEqual(t, is, was, about)
			before[at] = is
		}
		for key := range before {
			updated(t, before[key], now[key], about)
		}
	}
}

func (c *clients) run(ctx context.Context, sdk string, calls []sentCall) {
	c.t.Helper()
	c.answers = nil
	input, err := json.Marshal(map[string]any{"url": c.url, "sdk": sdk, "calls": calls})
	require.NoError(c.t, err)
	var results []struct {
		Pages []map[string]any
		Error *struct{ Type, Message string }
	}
	require.NoError(c.t, json.Unmarshal(c.node(ctx, input, "client.mjs"), &results))
	require.Len(c.t, results, len(calls))
	answers, made, items := c.answers, 0, 0
	lost := make(map[string]string)
	var last []any // of the same list with pages of another size
	for i, r := range results {
		call := calls[i]
		if r.Error != nil && r.Error.Type == "NoMethod" && sdk == "avacloud-sdk" {
			continue
		}
		about := fmt.Sprintf("%s %s %v", cmp.Or(sdk, "chainkit"), call.Name, call.Request)
		require.Nil(c.t, r.Error, "%s: %+v\n%s", about, r.Error, answers[:min(1, len(answers))])
		require.GreaterOrEqual(c.t, len(answers), len(r.Pages), about)
		made++
		var all []any
		for k, page := range r.Pages {
			var answer map[string]any
			require.NoError(c.t, json.Unmarshal(answers[k].body, &answer), about)
			c.compare(sdk, call.Name, answer, page, lost)
			if call.List != "" {
				require.Equal(c.t, k < len(r.Pages)-1, answer["nextPageToken"] != nil, about)
				all = append(all, page[call.List].([]any)...)
			}
		}
		answers = answers[len(r.Pages):]
		items += len(all)
		if i > 0 && call.List != "" && calls[i-1].Name == call.Name && call.Request["pageSize"] != 1 {
			fallen(c.t, last, all, about)
			updated(c.t, last, all, about)
			require.Equal(c.t, last, all, about)
		}
		last = all
	}
	require.Empty(c.t, answers)
	require.Empty(c.t, lost, "%s does not hand out what the service answers", cmp.Or(sdk, "chainkit"))
	c.t.Logf("%s: %d calls, %d items of lists", cmp.Or(sdk, "chainkit"), made, items)
}

// additions are documented fields that chainkit does not know, by operation: the contract asks for them, or the answers to
// other operations have them. An output, a balance or a delegation has several forms, of which chainkit takes the first that
// fits.
var additions = map[string][]string{
	"listErc20Balances":                    {"balanceSource", "transferSum"},
	"listValidators":                       {"connected"},
	"getValidator":                         {"connected"},
	"listL1Validators":                     {"publicKey", "proofOfPossession", "creationTxHash", "deactivationTimestamp", "minNonce", "validationStatus"},
	"listIcmMessages":                      {"lifecycle"},
	"getIcmMessage":                        {"lifecycle"},
	"listIcmMessagesByAddress":             {"lifecycle"},
	"listDelegators":                       {"grossReward", "netReward"},
	"listUtxos":                            {"creationTxHash", "timestamp", "locktime", "groupId", "payload", "consumingTxTimestamp"},
	"listBalances":                         {"status", "locked", "unlocked"},
	"getTxByHash":                          outputs,
	"listLatestPrimaryNetworkTransactions": outputs,
	"listAssetTransactions":                outputs,
}

// outputs are additions to outputs and L1 validators in transactions.
var outputs = []string{
	"amount", "assetId", "blockNumber", "blockTimestamp", "consumingBlockNumber", "consumingBlockTimestamp", "staked", "txHash", "publicKey", "proofOfPossession",
}

// compare adds to lost what the service answered and a client does not hand out, by the place in the answer. avacloud-sdk is
// older than some fields.
func (c *clients) compare(sdk, at string, answer, page any, lost map[string]string) {
	switch answer := answer.(type) {
	case map[string]any:
		handed, _ := page.(map[string]any)
		for key, value := range answer {
			_, ok := handed[key]
			operation, _, _ := strings.Cut(at, ".")
			if ok || sdk != "avacloud-sdk" && !slices.Contains(additions[operation], key) {
				c.compare(sdk, at+"."+key, value, handed[key], lost)
			}
		}
	case []any:
		handed, _ := page.([]any)
		if len(handed) != len(answer) {
			lost[at] = fmt.Sprintf("%d items, want %d", len(handed), len(answer))
			return
		}
		for i := range answer {
			c.compare(sdk, at+"[]", answer[i], handed[i], lost)
		}
	default:
		if answer != page {
			lost[at] = fmt.Sprintf("%v, want %v", page, answer)
		}
	}
}
