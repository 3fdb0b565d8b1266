package evm_test

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/docs/conform"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
)

// call is a call of the official client and what must come of it.
type call struct {
	chainkit.Call

	field string // what an answer that is no page has
	// id tells the items apart; a list of members.
	id    []string
	count int // of items, on all pages
	pages int
}

// officialCalls are all operations, with everything that the client can send. The
// client has none for the Metrics API's.
func officialCalls() []call {
	const (
		wallet = "data.evm.address."
		chain  = "43113"
	)
	id := []string{"txHash", "logIndex", "address", "tokenId", "value"}
	return []call{
		{
			Call:  chainkit.Call{Name: "chains", Path: "data.evm.chains.list", Request: map[string]any{}},
			field: "chains",
		},
		{
			Call:  chainkit.Call{Name: "chains of a feature", Path: "data.evm.chains.list", Request: map[string]any{"feature": "nftIndexing"}},
			field: "chains",
		},
		{
			Call:  chainkit.Call{Name: "a chain", Path: "data.evm.chains.get", Request: map[string]any{"chainId": chain}},
			field: "networkToken",
		},
		{
			Call:  chainkit.Call{Name: "chains of an address", Path: wallet + "chains.list", Request: map[string]any{"address": alice.Hex()}},
			field: "indexedChains",
		},
		{
			Call:  chainkit.Call{Name: "an ERC-20 contract", Path: "data.evm.contracts.getMetadata", Request: map[string]any{"chainId": chain, "address": coin.Hex()}},
			field: "decimals",
		},
		{
			Call:  chainkit.Call{Name: "another contract", Path: "data.evm.contracts.getMetadata", Request: map[string]any{"chainId": chain, "address": till.Hex()}},
			field: "address",
		},
		{
			Call:  chainkit.Call{Name: "a fungible token", Path: "data.nfts.get", Request: map[string]any{"chainId": chain, "address": items.Hex(), "tokenId": "7"}},
			field: "tokenId",
		},
		{
			Call:  chainkit.Call{Name: "a token", Path: "data.nfts.get", Request: map[string]any{"chainId": chain, "address": cards.Hex(), "tokenId": "9"}},
			field: "ownerAddress",
		},
		{
			Call: chainkit.Call{Name: "latest transactions", Path: "data.evm.transactions.listLatest", List: "transactions", Request: map[string]any{"chainId": chain}},
			id:   id, count: 25, pages: 3,
		},
		{
			Call: chainkit.Call{Name: "failed transactions", Path: "data.evm.transactions.listLatest", List: "transactions", Request: map[string]any{"chainId": "c-chain", "status": "failed", "pageSize": 1}},
			id:   id, count: 2, pages: 2,
		},
		{
			Call: chainkit.Call{Name: "good transactions", Path: "data.evm.transactions.listLatest", List: "transactions", Request: map[string]any{"chainId": cChainID.String(), "status": "success", "pageSize": 100}},
			id:   id, count: 23, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "internal transactions", Path: wallet + "transactions.listInternal", List: "transactions", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 4}},
			id:   id, count: 23, pages: 6,
		},
		{
			Call: chainkit.Call{Name: "some internal transactions", Path: wallet + "transactions.listInternal", List: "transactions", Request: map[string]any{"chainId": chain, "address": lower(till), "startBlock": 990, "endBlock": 1000, "pageSize": 3}},
			id:   id, count: 10, pages: 4,
		},
		{
			Call: chainkit.Call{Name: "transfers", Path: wallet + "transactions.listErc1155", List: "transactions", Request: map[string]any{"chainId": chain, "address": bob.Hex()}},
			id:   id, count: 23, pages: 3,
		},
		{
			Call: chainkit.Call{Name: "some transfers", Path: wallet + "transactions.listErc1155", List: "transactions", Request: map[string]any{"chainId": chain, "address": bob.Hex(), "startBlock": 0, "endBlock": 999, "pageSize": 1}},
			id:   id, count: 11, pages: 11,
		},
		{
			Call: chainkit.Call{Name: "no transfers", Path: wallet + "transactions.listErc1155", List: "transactions", Request: map[string]any{"chainId": chain, "address": coin.Hex()}},
			id:   id, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "native transactions", Path: wallet + "transactions.listNative", List: "transactions", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 2}},
			id:   id, count: 25, pages: 13,
		},
		{
			Call: chainkit.Call{Name: "some native transactions", Path: wallet + "transactions.listNative", List: "transactions", Request: map[string]any{"chainId": "c-chain", "address": lower(alice), "startBlock": 990, "endBlock": 999, "pageSize": 3}},
			id:   id, count: 18, pages: 6,
		},
		{
			Call: chainkit.Call{Name: "ERC-20 transfers", Path: wallet + "transactions.listErc20", List: "transactions", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 3}},
			id:   id, count: 23, pages: 8,
		},
		{
			Call: chainkit.Call{Name: "ERC-721 transfers", Path: wallet + "transactions.listErc721", List: "transactions", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 1}},
			id:   id, count: 23, pages: 23,
		},
		{
			Call: chainkit.Call{Name: "transfers of an ERC-20 token", Path: "data.evm.contracts.listTransfers", List: "transfers", Request: map[string]any{"chainId": chain, "address": coin.Hex(), "pageSize": 3}},
			id:   id, count: 23, pages: 8,
		},
		{
			Call: chainkit.Call{Name: "transfers of an ERC-721 token", Path: "data.evm.contracts.listTransfers", List: "transfers", Request: map[string]any{"chainId": chain, "address": lower(cards), "pageSize": 1, "startBlock": 0, "endBlock": 2000}},
			id:   id, count: 23, pages: 23,
		},
		{
			Call: chainkit.Call{Name: "transfers of an ERC-1155 token", Path: "data.evm.contracts.listTransfers", List: "transfers", Request: map[string]any{"chainId": chain, "address": items.Hex(), "pageSize": 2}},
			id:   id, count: 23, pages: 12,
		},
		{
			Call: chainkit.Call{Name: "transfers of no token", Path: "data.evm.contracts.listTransfers", List: "transfers", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 2}},
			id:   id, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "interactions", Path: wallet + "transactions.list", List: "transactions", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 3, "sortOrder": "asc", "startBlock": 0, "endBlock": 2000}},
			id:   id, count: 25, pages: 9,
		},
		{
			Call: chainkit.Call{Name: "balances", Path: wallet + "balances.listErc1155", List: "erc1155TokenBalances", Request: map[string]any{"chainId": chain, "address": alice.Hex()}},
			id:   id, count: 24, pages: 3,
		},
		{
			Call: chainkit.Call{Name: "balances of old", Path: wallet + "balances.listErc1155", List: "erc1155TokenBalances", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "blockNumber": "7", "contractAddress": items.Hex(), "pageSize": 500}},
			id:   id, count: 23, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "native balance", Path: wallet + "balances.getNative", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "blockNumber": "7", "currency": "usd"}},
		},
		{
			Call: chainkit.Call{Name: "ERC-20 tokens", Path: wallet + "balances.listErc20", List: "erc20TokenBalances", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 3, "filterSpamTokens": true, "currency": "usd", "blockNumber": "900"}},
			id:   id, count: 23, pages: 8,
		},
		{
			Call: chainkit.Call{Name: "some ERC-20 tokens", Path: wallet + "balances.listErc20", List: "erc20TokenBalances", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "contractAddresses": fungible(2).Hex() + "," + fungible(7).Hex(), "pageSize": 1}},
			id:   id, count: 2, pages: 2,
		},
		{
			Call: chainkit.Call{Name: "ERC-721 balances", Path: wallet + "balances.listErc721", List: "erc721TokenBalances", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "contractAddress": cards.Hex(), "pageSize": 2}},
			id:   id, count: 23, pages: 12,
		},
		{
			Call: chainkit.Call{Name: "balances of collectibles", Path: wallet + "balances.listCollectibles", List: "collectibleBalances", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 3}},
			id:   id, count: 47, pages: 16,
		},
		{
			Call: chainkit.Call{Name: "chains with metrics", Path: "metrics.chains.list", List: "chains", Request: map[string]any{}},
			id:   []string{"blockchainId"}, count: 1, pages: 1,
		},
		{
			Call:  chainkit.Call{Name: "a chain with metrics", Path: "metrics.chains.get", Request: map[string]any{"chainId": chain}},
			field: "evmChainId",
		},
		{
			Call: chainkit.Call{Name: "transactions by day", Path: "metrics.chains.getMetrics", List: "results", Request: map[string]any{"chainId": chain, "metric": "txCount"}},
			id:   []string{"timestamp"}, count: 30, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "senders by month", Path: "metrics.chains.getMetrics", List: "results", Request: map[string]any{"chainId": chain, "metric": "activeSenders", "timeInterval": "month", "startTimestamp": 5 * 86400, "endTimestamp": 20 * 86400, "pageSize": 4}},
			id:   []string{"timestamp"}, count: 15, pages: 4,
		},
		{
			Call:  chainkit.Call{Name: "windows of txCount", Path: "metrics.chains.getRollingWindowMetrics", Request: map[string]any{"chainId": chain, "metric": "txCount"}},
			field: "result",
		},
		{
			Call:  chainkit.Call{Name: "windows of maxGasPrice", Path: "metrics.chains.getRollingWindowMetrics", Request: map[string]any{"chainId": chain, "metric": "maxGasPrice"}},
			field: "result",
		},
		{
			Call: chainkit.Call{Name: "a deployment", Path: "data.evm.contracts.getDeploymentTransaction", Request: map[string]any{"chainId": chain, "address": cards.Hex(), "currency": "eur"}},
		},
		{
			Call: chainkit.Call{Name: "blocks", Path: "data.evm.blocks.listLatest", List: "blocks", Request: map[string]any{"chainId": chain, "pageSize": 3}},
			id:   []string{"blockNumber"}, count: 25, pages: 9,
		},
		{
			Call: chainkit.Call{Name: "transactions of a block", Path: "data.evm.blocks.listTransactions", Request: map[string]any{"chainId": chain, "blockId": "998"}}, // the client reads one page
		},
		{
			Call: chainkit.Call{Name: "a block", Path: "data.evm.blocks.get", Request: map[string]any{"chainId": chain, "blockId": hash(999).Hex()}},
		},
		{
			Call: chainkit.Call{Name: "a transaction", Path: "data.evm.transactions.get", Request: map[string]any{"chainId": chain, "txHash": hash(9_996).Hex()}},
		},
		{
			Call: chainkit.Call{Name: "a plain deployment", Path: "data.evm.contracts.getDeploymentTransaction", Request: map[string]any{"chainId": chain, "address": till.Hex()}},
		},
		{
			Call: chainkit.Call{Name: "deployments", Path: wallet + "contracts.listDeployments", List: "contracts", Request: map[string]any{"chainId": chain, "address": alice.Hex(), "pageSize": 6}},
			id:   id, count: 20, pages: 4,
		},
		{
			Call: chainkit.Call{Name: "deployments by a contract", Path: wallet + "contracts.listDeployments", List: "contracts", Request: map[string]any{"chainId": chain, "address": till.Hex()}},
			id:   id, count: 3, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "tokens", Path: "data.nfts.list", List: "tokens", Request: map[string]any{"chainId": chain, "address": cards.Hex()}},
			id:   id, count: 23, pages: 3,
		},
		{
			Call: chainkit.Call{Name: "tokens that say nothing", Path: "data.nfts.list", List: "tokens", Request: map[string]any{"chainId": chain, "address": bare.Hex()}},
			id:   id, count: 1, pages: 1,
		},
		{
			Call: chainkit.Call{Name: "fungible tokens", Path: "data.nfts.list", List: "tokens", Request: map[string]any{"chainId": chain, "address": items.Hex(), "pageSize": 1}},
			id:   id, count: 2, pages: 2,
		},
	}
}

// identity tells an item from others of its list.
func identity(item map[string]any, members []string) string {
	var text []string
	for _, member := range members {
		if v, ok := item[member]; ok {
			text = append(text, fmt.Sprint(v))
		}
	}
	if tx, ok := item["nativeTransaction"].(map[string]any); ok {
		text = append(text, fmt.Sprint(tx["txHash"]))
	}
	if token, ok := item["erc1155Token"].(map[string]any); ok {
		text = append(text, fmt.Sprint(token["tokenId"]))
	}
	return strings.Join(text, " ")
}

// requireCalls makes calls and checks what comes of them. Refused are those whose
// documented form the client does not take.
func requireCalls(t *testing.T, client *chainkit.Client, url string, calls []call, refused func(call) bool) []chainkit.Result {
	t.Helper()
	plain := make([]chainkit.Call, len(calls))
	for i, c := range calls {
		plain[i] = c.Call
	}
	results := client.Run(t, url, plain)
	for i, r := range results {
		c := calls[i]
		require.Equal(t, c.Name, r.Name)
		if refused(c) {
			require.NotNil(t, r.Error, c.Name)
			require.Equal(t, "ResponseValidationError", r.Error.Type, c.Name)
			continue
		}
		require.Nil(t, r.Error, "%s: %+v", c.Name, r.Error)
		if c.List == "" {
			require.Len(t, r.Pages, 1)
			switch c.Name {
			case "native balance":
				require.Equal(t, "1234567890123456789", r.Pages[0]["nativeTokenBalance"].(map[string]any)["balance"])
			case "a block":
				require.Equal(t, "999", r.Pages[0]["blockNumber"])
			case "transactions of a block":
				require.Len(t, r.Pages[0]["transactions"], 2)
			default:
				require.NotEmpty(t, r.Pages[0][cmp.Or(c.field, "nativeTransaction")])
			}
			continue
		}
		require.Len(t, r.Pages, c.pages, c.Name)
		seen := make(map[string]bool)
		for _, page := range r.Pages {
			for _, item := range page[c.List].([]any) {
				id := identity(item.(map[string]any), c.id)
				require.False(t, seen[id], "%s: %s is there twice", c.Name, id)
				seen[id] = true
			}
		}
		require.Len(t, seen, c.count, c.Name)
	}
	return results
}

// requireClientWindows checks the rolling windows in what a client returned; some of them if it does not know all.
func requireClientWindows(t *testing.T, results []chainkit.Result, calls int, names ...string) {
	t.Helper()
	for _, r := range results {
		if metric, ok := strings.CutPrefix(r.Name, "windows of "); ok {
			require.Nil(t, r.Error, "%s: %+v", r.Name, r.Error)
			requireWindows(t, metric, r.Pages[0]["result"], names...)
			calls--
		}
	}
	require.Zero(t, calls)
}

func TestOfficialClient(t *testing.T) {
	client := chainkit.Install(t)
	for name, mode := range map[string]compat.Mode{"auto": compat.Auto, "on": compat.On, "off": compat.Off} {
		t.Run(name, func(t *testing.T) {
			e := surface(t, mode, api.Options{Lists: lists(t)}, newFake().chain())
			made := conform.NewCalls(e)
			server := httptest.NewServer(e)
			defer server.Close()
			results := requireCalls(t, client, server.URL, officialCalls(), func(c call) bool {
				// One documented value differs from the client's: the status of indexed metadata.
				documented := strings.HasSuffix(c.Name, "transfers") && c.Name != "no transfers" && c.Name != "ERC-20 transfers" || c.Name == "interactions" || strings.Contains(c.Name, "balances") ||
					c.Name == "tokens" || c.Name == "fungible tokens" || c.Name == "transfers of an ERC-721 token" || c.Name == "transfers of an ERC-1155 token"
				return mode == compat.Off && documented
			})
			requireClientWindows(t, results, 2)
			var calls []chainkit.Call
			for metric := range windowValues {
				calls = append(calls, chainkit.Call{Name: "windows of " + metric, Path: "metrics.chains.getRollingWindowMetrics", Request: map[string]any{"chainId": "c-chain", "metric": metric}})
			}
			requireClientWindows(t, client.Run(t, server.URL, calls), len(windowValues))
			made.Require(t, "EVM")
			made.Require(t, "Chain metrics")
		})
	}
	t.Run("errors", func(t *testing.T) { testClientErrors(t, client) })
}

// testClientErrors checks that our errors become the client's, and that a response
// it does not like would make the tests above fail.
func testClientErrors(t *testing.T, client *chainkit.Client) {
	t.Helper()
	f := newFake()
	server := httptest.NewServer(fuji(t, f))
	defer server.Close()
	latest := func(chain, status string) chainkit.Call {
		return chainkit.Call{Path: "data.evm.transactions.listLatest", List: "transactions", Request: map[string]any{"chainId": chain, "status": status}}
	}
	internal := chainkit.Call{Path: "data.evm.address.transactions.listInternal", List: "transactions", Request: map[string]any{"chainId": "43113", "address": "nobody"}}
	account := chainkit.Call{Path: "data.evm.contracts.getDeploymentTransaction", Request: map[string]any{"chainId": "43113", "address": bob.Hex()}}
	contracts := chainkit.Call{Path: "metrics.chains.getRollingWindowMetrics", Request: map[string]any{"chainId": "43113", "metric": "contracts"}}
	results := client.Run(t, server.URL, []chainkit.Call{internal, account, latest("1", "failed"), contracts})
	f.progress = reply.Progress{}
	results = append(results, client.Run(t, server.URL, []chainkit.Call{latest("43113", "failed")})...)
	apitest.RequireClientErrors(t, results, []chainkit.Error{
		{Type: "BadRequestError", Message: `address: "nobody" is no address`, Status: 400},
		{Type: "NotFoundError", Message: "address: no transaction", Status: 404},
		{Type: "NotFoundError", Message: "chainId: ", Status: 404},
		{Type: "BadRequestError", Message: `metric: "contracts" is none of`, Status: 400},
		{Type: "ServiceUnavailableError", Message: "the index of this chain is still catching up", Status: 503},
	})

	apitest.RequireRefusals(t, client, fuji(t, newFake()), chainkit.Call{Path: "data.evm.transactions.listLatest", List: "transactions", Request: map[string]any{"chainId": "43113"}},
		strings.NewReplacer(`"blockIndex":1`, `"blockIndex":"1"`), strings.NewReplacer(`"CONTRACT_CALL"`, `"contract call"`),
		strings.NewReplacer(`"blockNumber":"999"`, `"blockNumber":null`), strings.NewReplacer(`"to":`, `"towards":`),
	)
}

// TestAvaCloudClient makes the calls with avacloud-sdk.
func TestAvaCloudClient(t *testing.T) {
	client := chainkit.Install(t).AvaCloud()
	e := fuji(t, newFake())
	made := conform.NewCalls(e)
	server := httptest.NewServer(e)
	defer server.Close()
	results := requireCalls(t, client, server.URL, officialCalls(), func(call) bool { return false })
	requireClientWindows(t, results, 2, "lastHour", "lastDay", "lastMonth", "lastYear", "allTime")
	made.Require(t, "EVM")
}
