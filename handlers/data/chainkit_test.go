package data_test

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/handlers/docs/conform"
)

// call is a call of the official client and what must come of it.
type call struct {
	chainkit.Call

	field string // what an answer that is no page has
	// active reports that there is an active validator, whose documented form is not the client's.
	active bool
	id     string // what tells the items apart
	count  int    // of items, on all pages
	pages  int
	first  map[string]any // what the first item has
}

// officialCalls are all operations, with everything that the client can send.
func officialCalls() []call {
	const network = "data.primaryNetwork."
	a, both := text(alice), "P-"+text(alice)+", X-"+text(bob)
	return append(slices.Concat(registryCalls(), stakeCalls(), archiveCalls(), listCalls()), []call{
		{
			Call: chainkit.Call{Name: "UTXOs of the P-Chain", Path: network + "utxos.listByAddresses", List: "utxos", Request: map[string]any{"blockchainId": "p-chain", "addresses": a, "includeSpent": true}},
			id:   "utxoId", count: 41, pages: 5,
		},
		{
			Call: chainkit.Call{Name: "UTXOs by amount", Path: network + "utxos.listByAddresses", List: "utxos", Request: map[string]any{
				"blockchainId": "11111111111111111111111111111111LpoYY", "addresses": both, "includeSpent": false, "pageSize": 4,
				"minUtxoAmount": 7.5, "sortBy": "amount", "sortOrder": "asc", "network": "testnet",
			}},
			id: "utxoId", count: 15, pages: 4,
		},
		{
			Call: chainkit.Call{Name: "UTXOs of the X-Chain", Path: network + "utxos.listByAddresses", List: "utxos", Request: map[string]any{"blockchainId": "x-chain", "addresses": a, "includeSpent": true, "pageSize": 2}},
			id:   "utxoId", count: 12, pages: 6,
		},
		{
			Call: chainkit.Call{Name: "UTXOs of an asset", Path: network + "utxos.listByAddresses", List: "utxos", Request: map[string]any{"blockchainId": xID.String(), "addresses": a, "assetId": art.String(), "pageSize": 1, "minUtxoAmount": 1}},
			id:   "utxoId", count: 4, pages: 4,
		},
		{
			Call: chainkit.Call{Name: "UTXOs of the C-Chain", Path: network + "utxos.listByAddresses", List: "utxos", Request: map[string]any{"blockchainId": "c-chain", "addresses": a, "includeSpent": true, "pageSize": 1}},
			id:   "utxoId", count: 3, pages: 3,
		},
		{
			Call: chainkit.Call{Name: "no UTXOs", Path: network + "utxos.listByAddresses", List: "utxos", Request: map[string]any{"blockchainId": cID.String(), "addresses": text(carol)}},
			id:   "utxoId", pages: 1,
		},
		{
			Call: chainkit.Call{Name: "rewards", Path: network + "rewards.listHistoricalRewards", List: "historicalRewards", Request: map[string]any{"addresses": both, "nodeIds": nodeA.String(), "currency": "eur", "sortOrder": "asc", "pageSize": 2}},
			id:   "utxoId", count: 3, pages: 2,
		},
		{
			Call: chainkit.Call{Name: "no rewards of a node", Path: network + "rewards.listHistoricalRewards", List: "historicalRewards", Request: map[string]any{"addresses": a, "nodeIds": nodeB.String()}},
			id:   "utxoId", pages: 1,
		},
		{
			Call: chainkit.Call{Name: "pending rewards", Path: network + "rewards.listPendingRewards", List: "pendingRewards", Request: map[string]any{"addresses": both, "sortOrder": "asc"}},
			id:   "txHash", count: 23, pages: 3,
			first: map[string]any{
				"txHash": ids.ID{118, 0xde}.String(), "rewardType": "DELEGATOR", "nodeId": nodeA.String(), "amountStaked": "25000000000", "addresses": []any{a},
				"startTimestamp": float64(ago(6 * time.Hour).Unix()), "endTimestamp": float64(now.Add(time.Hour).Unix()), "progress": 100 * 6. / 7,
				"estimatedReward": map[string]any{"assetId": avx.String(), "name": "Avalanche", "symbol": "AVAX", "denomination": 9., "type": "secp256k1", "amount": "1000"},
			},
		},
		{
			Call: chainkit.Call{Name: "pending rewards of a node", Path: network + "rewards.listPendingRewards", List: "pendingRewards", Request: map[string]any{"addresses": a, "nodeIds": nodeB.String(), "pageSize": 1}},
			id:   "txHash", pages: 1,
		},
		{Call: chainkit.Call{Name: "balances of the P-Chain", Path: network + "balances.listByAddresses", Request: map[string]any{"blockchainId": "p-chain", "addresses": both}}, pages: 1},
		{Call: chainkit.Call{Name: "balances of the X-Chain", Path: network + "balances.listByAddresses", Request: map[string]any{"blockchainId": "x-chain", "addresses": a, "blockTimestamp": 1_600_000_000}}, pages: 1},
		{Call: chainkit.Call{Name: "balances of the C-Chain", Path: network + "balances.listByAddresses", Request: map[string]any{"blockchainId": "c-chain", "addresses": a}}, pages: 1},
		{
			Call: chainkit.Call{Name: "staking", Path: network + "transactions.listActiveStakingTransactions", List: "transactions", Request: map[string]any{"blockchainId": "p-chain", "addresses": a}},
			id:   "txHash", count: 23, pages: 3,
		},
		{
			Call: chainkit.Call{Name: "staking of some types", Path: network + "transactions.listActiveStakingTransactions", List: "transactions", Request: map[string]any{
				"blockchainId": "p-chain", "addresses": both, "txTypes": []string{"UNKNOWN", "AddValidatorTx", "OperationTx"},
				"startTimestamp": 1, "endTimestamp": 1_800_000_000, "sortOrder": "asc", "pageSize": 1,
			}},
			id: "txHash", count: 4, pages: 4,
		},
		{Call: chainkit.Call{Name: "subnets", Path: network + "listSubnets", List: "subnets", Request: map[string]any{}}, id: "subnetId", count: 150, pages: 2},
		{Call: chainkit.Call{Name: "oldest subnets", Path: network + "listSubnets", List: "subnets", Request: map[string]any{"sortOrder": "asc", "pageSize": 7}}, id: "subnetId", count: 150, pages: 22},
		{Call: chainkit.Call{Name: "delegators", Path: network + "listDelegators", List: "delegators", Request: map[string]any{}}, id: "txHash", count: 26, pages: 3},
		{
			Call: chainkit.Call{Name: "some delegators", Path: network + "listDelegators", List: "delegators", Request: map[string]any{"delegationStatus": "completed", "nodeIds": nodeA.String() + "," + nodeB.String(), "rewardAddresses": both, "pageSize": 2, "sortOrder": "asc"}},
			id:   "txHash", count: 3, pages: 2,
		},
		{
			Call: chainkit.Call{Name: "vertices", Path: network + "vertices.listByHeight", List: "vertices", Request: map[string]any{"blockchainId": "x-chain", "vertexHeight": 5}},
			id:   "vertexHash", count: 13, pages: 2,
		},
		{
			Call: chainkit.Call{Name: "latest vertices", Path: network + "vertices.listLatest", List: "vertices", Request: map[string]any{"blockchainId": "x-chain", "pageSize": 3}},
			id:   "vertexHash", count: 14, pages: 5,
		},
		{Call: chainkit.Call{Name: "a vertex", Path: network + "vertices.getByHash", Request: map[string]any{"blockchainId": "x-chain", "vertexHash": ids.ID{77}.String()}}, pages: 1, field: "vertexHash"},
		{
			Call: chainkit.Call{Name: "no vertices", Path: network + "vertices.listByHeight", List: "vertices", Request: map[string]any{"blockchainId": xID.String(), "vertexHeight": 1_000_000, "sortOrder": "asc"}},
			id:   "vertexHash", pages: 1,
		},
	}...)
}

func TestOfficialClient(t *testing.T) {
	client := chainkit.Install(t)
	for _, mode := range []compat.Mode{compat.Auto, compat.On, compat.Off} {
		t.Run(string(mode), func(t *testing.T) {
			e := surface(t, map[string]data.Network{"fuji": newFake().network()}, mode)
			made := conform.NewCalls(e)
			server := httptest.NewServer(e)
			defer server.Close()
			calls := officialCalls()
			for i, r := range client.Run(t, server.URL, plain(calls)) {
				c := calls[i]
				if mode == compat.Off && (c.List == "subnets" || c.active) {
					// The documented form of some genesis members and of active validators is not the client's.
					require.NotNil(t, r.Error, c.Name)
					require.Equal(t, "ResponseValidationError", r.Error.Type)
					continue
				}
				c.requireResult(t, r)
			}
			made.Require(t, "Primary network")
			made.Require(t, "Network metrics")
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
	utxos := func(blockchainID, addresses, network string) chainkit.Call {
		return chainkit.Call{Path: "data.primaryNetwork.utxos.listByAddresses", List: "utxos", Request: map[string]any{
			"blockchainId": blockchainID, "addresses": addresses, "network": network, "pageSize": 1,
		}}
	}
	results := client.Run(t, server.URL, []chainkit.Call{
		utxos("p-chain", "nobody", "fuji"),
		utxos("2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM", text(alice), "fuji"),
		utxos("p-chain", text(alice), "mainnet"),
	})
	p := f.progress[pID]
	p.CaughtUp = false
	f.progress[pID] = p
	results = append(results, client.Run(t, server.URL, []chainkit.Call{utxos("p-chain", text(alice), "fuji")})...)
	apitest.RequireClientErrors(t, results, []chainkit.Error{
		{Type: "BadRequestError", Message: `addresses: "nobody" is no address`, Status: 400},
		{Type: "BadRequestError", Message: "blockchainId: ", Status: 400},
		{Type: "NotFoundError", Message: "network: ", Status: 404},
		{Type: "ServiceUnavailableError", Message: "the index of the p-chain is still catching up", Status: 503},
	})

	apitest.RequireRefusals(t, client, fuji(t, newFake()), utxos("p-chain", text(alice), "fuji"),
		strings.NewReplacer(`"threshold":1`, `"threshold":"1"`), strings.NewReplacer(`"utxoType":"TRANSFER"`, `"utxoType":"transfer"`),
		strings.NewReplacer(`"blockNumber":"106"`, `"blockNumber":null`), strings.NewReplacer(`"chainInfo"`, `"info"`),
	)
}

func plain(calls []call) []chainkit.Call {
	all := make([]chainkit.Call, len(calls))
	for i, c := range calls {
		all[i] = c.Call
	}
	return all
}

// requireResult checks what comes of a call.
func (c *call) requireResult(t *testing.T, r chainkit.Result) {
	t.Helper()
	require.Equal(t, c.Name, r.Name)
	require.Nil(t, r.Error, "%s: %+v", c.Name, r.Error)
	require.Len(t, r.Pages, c.pages, c.Name)
	seen := make(map[string]bool)
	if c.first != nil {
		require.Equal(t, c.first, r.Pages[0][c.List].([]any)[0], c.Name)
	}
	for _, page := range r.Pages {
		if c.List == "" {
			require.NotEmpty(t, page[cmp.Or(c.field, "balances")])
			continue
		}
		for _, item := range page[c.List].([]any) {
			id := fmt.Sprint(item.(map[string]any)[c.id])
			require.False(t, seen[id], "%s: %s is there twice", c.Name, id)
			seen[id] = true
		}
	}
	require.Len(t, seen, c.count, c.Name)
}

// TestAvaCloudClient makes the calls with avacloud-sdk.
func TestAvaCloudClient(t *testing.T) {
	client := chainkit.Install(t).AvaCloud()
	e := fuji(t, newFake())
	made := conform.NewCalls(e)
	server := httptest.NewServer(e)
	defer server.Close()
	calls := officialCalls()
	for i, r := range client.Run(t, server.URL, plain(calls)) {
		c := calls[i]
		switch {
		case strings.HasSuffix(c.Path, "listByAddressesV2") || strings.Contains(c.Path, "getLastActivity"):
			require.NotNil(t, r.Error)
			require.Equal(t, chainkit.NoMethod, r.Error.Type, c.Name)
		case c.Request["minUtxoAmount"] != nil: // it does not send the parameter
			require.Nil(t, r.Error, "%s: %+v", c.Name, r.Error)
		default:
			c.requireResult(t, r)
		}
	}
	made.Require(t, "Primary network", "listUtxosOfBody", "getLastActivityTimestampByAddresses", "getLastActivityTimestampByAddressesV2")
}
