package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/data"
	"quorate/handlers/docs/conform"
	"quorate/handlers/evm"
	"quorate/handlers/networks"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	index "quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/node"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
	"quorate/internal/webhook"
)

// api is a service with one EVM chain, whose progress may change.
type api struct {
	*echo.Echo
	book     *webhook.Book
	progress *reply.Progress
	registry *reply.Progress // of the validators of fuji
}

func newAPI(t *testing.T, guard *access.Guard) api {
	t.Helper()
	s := store.NewMemory()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	a := api{book: webhook.NewBook(s, 3), progress: &reply.Progress{Height: 100, CaughtUp: true}, registry: &reply.Progress{Height: 7, CaughtUp: true}}
	chains, err := evm.NewChains([]evm.Chain{{
		ChainID: 43113, BlockchainID: ids.ID{1}, Primary: true, Progress: func(context.Context) reply.Progress { return *a.progress },
		Index: (*index.Index)(nil), Contracts: (*contracts.Book)(nil), URIs: (*contracts.Book)(nil), Node: (*node.EVM)(nil), // not read
	}}, false)
	require.NoError(t, err)
	a.Echo, err = handlers.New(handlers.Options{
		EVM: evm.Options{Chains: chains}, Webhooks: a.book, Access: guard,
		Data: networks.Fixed(map[string]data.Network{"fuji": {
			NetworkID: constants.FujiID, XChainID: ids.ID{2}, CChainID: ids.ID{1}, AVAXAssetID: ids.ID{3},
			Progress: func(context.Context, ids.ID) data.Progress { return data.Progress{} }, RegistryProgress: func(context.Context) data.Progress { return *a.registry },
		}}),
	})
	require.NoError(t, err)
	conform.Watch(t, a.Echo)
	return a
}

func (a api) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

const (
	one = "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"
	two = "0x0200000000000000000000000000000000000005"
)

func request(url string) map[string]any {
	return map[string]any{
		"eventType": "address_activity", "url": url, "chainId": "c-chain", "name": "a name", "includeLogs": true,
		"metadata": map[string]any{"addresses": []string{strings.ToLower(one)}, "eventSignatures": []string{"0x" + strings.Repeat("Ab", 32)}},
	}
}

// TestOfficialClient calls the ten operations with the official client, which validates all answers.
func TestOfficialClient(t *testing.T) {
	a := newAPI(t, nil)
	server := httptest.NewServer(a)
	defer server.Close()
	client := chainkit.Install(t)
	created := client.Run(t, server.URL, []chainkit.Call{
		{Name: "create", Path: "webhooks.create", Request: request("https://example.org/hook")},
		{Name: "create another", Path: "webhooks.create", Request: request("https://example.org/2")},
		{Name: "create a third", Path: "webhooks.create", Request: request("https://example.org/3")},
	})
	for _, r := range created {
		require.Nil(t, r.Error, "%+v", r.Error)
	}
	hook := created[0].Pages[0]
	id := hook["id"]
	require.Equal(t, "43113", hook["chainId"])
	require.Equal(t, "active", hook["status"])
	require.Equal(t, []any{one}, hook["metadata"].(map[string]any)["addresses"])
	stored, err := a.book.Get(t.Context(), "", id.(string))
	require.NoError(t, err)
	require.EqualValues(t, 101, stored.From)

	change := func(addresses ...string) map[string]any {
		return map[string]any{"id": id, "addressesChangeRequest": map[string]any{"addresses": addresses}}
	}
	calls := []chainkit.Call{
		{Name: "get", Path: "webhooks.get", Request: map[string]any{"id": id}},
		{Name: "list", Path: "webhooks.list", List: "webhooks", Request: map[string]any{"pageSize": 2}},
		{Name: "update", Path: "webhooks.update", Request: map[string]any{"id": id, "updateWebhookRequest": map[string]any{"name": "", "includeInternalTxs": true}}},
		{Name: "add", Path: "webhooks.addresses.add", Request: change(two, one, two)},
		{Name: "addresses", Path: "webhooks.addresses.list", List: "addresses", Request: map[string]any{"id": id, "pageSize": 1}},
		{Name: "remove", Path: "webhooks.addresses.remove", Request: change(one)},
		{Name: "secret", Path: "webhooks.getSharedSecret"},
		{Name: "rotate", Path: "webhooks.generateOrRotateSharedSecret"},
		{Name: "deactivate", Path: "webhooks.deactivate", Request: map[string]any{"id": id}},
		{Name: "inactive", Path: "webhooks.list", List: "webhooks", Request: map[string]any{"status": "inactive"}},
	}
	results := make(map[string][]map[string]any)
	for _, r := range client.Run(t, server.URL, calls) {
		require.Nil(t, r.Error, "%s: %+v", r.Name, r.Error)
		results[r.Name] = r.Pages
	}
	require.Equal(t, hook, results["get"][0])
	require.Len(t, results["list"], 2)
	require.Len(t, results["list"][0]["webhooks"], 2)
	require.Len(t, results["list"][1]["webhooks"], 1)
	require.Equal(t, "", results["update"][0]["name"])
	require.Equal(t, true, results["update"][0]["includeInternalTxs"])
	require.Equal(t, []any{one, two}, results["add"][0]["metadata"].(map[string]any)["addresses"])
	require.Len(t, results["addresses"], 2)
	require.Equal(t, []any{two}, results["addresses"][0]["addresses"])
	require.EqualValues(t, 2, results["addresses"][0]["totalAddresses"])
	require.Equal(t, []any{two}, results["remove"][0]["metadata"].(map[string]any)["addresses"])
	require.Len(t, results["secret"][0]["secret"], 64)
	require.NotEqual(t, results["secret"][0], results["rotate"][0])
	require.Equal(t, "inactive", results["deactivate"][0]["status"])
	require.Len(t, results["inactive"][0]["webhooks"], 1)

	failures := client.Run(t, server.URL, []chainkit.Call{
		{Name: "unknown", Path: "webhooks.get", Request: map[string]any{"id": "401da7d9-d6d7-46c8-b431-72ff1e1543f4"}},
		{Name: "bad URL", Path: "webhooks.create", Request: request("ftp://example.org")},
	})
	apitest.RequireClientErrors(t, failures, []chainkit.Error{
		{Type: "NotFoundError", Status: 404, Message: "id: you have no webhook"}, {Type: "BadRequestError", Status: 400, Message: "url: must be"},
	})
}

func TestInvalidRequests(t *testing.T) {
	a := newAPI(t, nil)
	valid := `{"eventType":"address_activity","url":"https://example.org","chainId":"43113","metadata":{"addresses":["` + one + `"]}}`
	require.Equal(t, 201, a.do(http.MethodPost, "/v1/webhooks", valid).Code)
	many := strings.Repeat(`"`+one+`",`, webhook.MaxAddresses) + `"` + two + `"`
	for _, c := range []struct{ old, replacement, message string }{
		{`"address_activity"`, `"validator_activity"`, "chainId: webhooks for validator_activity have none"},
		{`"address_activity"`, `"primary_network_address_activity"`, "eventType: primary_network_address_activity is not offered"},
		{`"address_activity"`, `"x"`, "eventType: must be"},
		{`"address_activity"`, `7`, "eventType must be a string"},
		{`"https://example.org"`, `""`, "url: must be"},
		{`"url":"https://example.org",`, ``, "url is missing"},
		{`"https://example.org"`, `"https://user:pass@example.org"`, "url: must not contain a user"},
		{`"https://example.org"`, `"https:///path"`, "url: must be"},
		{`"https://example.org"`, `"https://` + strings.Repeat("a", 2048) + `"`, "url has 2056 bytes"},
		{`"43113"`, `""`, "chainId is missing"},
		{`"43113"`, `"7"`, "chainId: \"7\" is no chain"},
		{`"metadata"`, `"network":"fuji","metadata"`, "network: webhooks for address_activity have none"},
		{`"metadata"`, `"name":"` + strings.Repeat("n", 257) + `","metadata"`, "name has 257 bytes"},
		{`"metadata"`, `"includeLogs":"yes","metadata"`, "includeLogs must be true or false"},
		{`"metadata"`, `"secret":"x","metadata"`, `unknown field "secret"`},
		{`["` + one + `"]`, `[]`, "metadata.addresses is missing"},
		{`["` + one + `"]`, `["0x12"]`, "metadata.addresses[0]"},
		{`["` + one + `"]`, `[7]`, "addresses[0] must be a string"},
		{`["` + one + `"]`, `[` + many + `]`, "addresses has 501 elements"},
		{`"metadata":{`, `"metadata":{"eventSignatures":["0x1"],`, "metadata.eventSignatures[0]"},
		{`"metadata":{`, `"metadata":{"keys":["0x1"],`, `unknown field "keys" in metadata`},
		{valid, `[]`, "the request body must be a JSON object"},
	} {
		body := strings.Replace(valid, c.old, c.replacement, 1)
		status := http.StatusBadRequest
		if strings.HasPrefix(c.message, `chainId: "7"`) {
			status = http.StatusNotFound
		}
		apitest.RequireError(t, a.do(http.MethodPost, "/v1/webhooks", body), 400, status, c.message)
	}
	for _, id := range []string{"x", strings.ToUpper("401da7d9-d6d7-86c8-b431-72ff1e1543f4"), "401da7d9-d6d7-86c8-b431-72ff1e1543f4"} {
		apitest.RequireError(t, a.do(http.MethodGet, "/v1/webhooks/"+id, ""), 400, 404, "id: you have no webhook")
	}
	apitest.RequireError(t, a.do(http.MethodGet, "/v1/webhooks?status=on", ""), 400, 400, "status: must be")
	apitest.RequireError(t, a.do(http.MethodGet, "/v1/webhooks?pageSize=101", ""), 400, 400, "pageSize: must be")
}

// TestBounds checks the number of webhooks of an owner and of a chain that catches up.
func TestBounds(t *testing.T) {
	a := newAPI(t, nil)
	create := func(n int) *httptest.ResponseRecorder {
		return a.do(http.MethodPost, "/v1/webhooks", fmt.Sprintf(`{"eventType":"address_activity","url":"https://example.org/%d","chainId":"43113","metadata":{"addresses":[%q]}}`, n, one))
	}
	a.progress.CaughtUp = false
	apitest.RequireError(t, create(0), 400, 503, "the index of this chain is still catching up")
	a.progress.CaughtUp = true
	for n := range 3 {
		require.Equal(t, 201, create(n).Code)
	}
	apitest.RequireError(t, create(4), 400, 400, "there are as many active webhooks as allowed")
	deactivateAll := func() []webhook.Webhook {
		all, err := a.book.List(t.Context(), "")
		require.NoError(t, err)
		for _, w := range all {
			require.Equal(t, 200, a.do(http.MethodDelete, "/v1/webhooks/"+w.ID, "").Code)
		}
		return all
	}
	for range 5 {
		require.LessOrEqual(t, len(deactivateAll()), 6, "the oldest inactive ones are deleted")
		for n := range 3 {
			require.Equal(t, 201, create(n).Code)
		}
	}
	a.progress.Height = 200
	inactive := deactivateAll()[0]
	require.Equal(t, 200, a.do(http.MethodPatch, "/v1/webhooks/"+inactive.ID, `{"status":"active"}`).Code)
	again, err := a.book.Get(t.Context(), "", inactive.ID)
	require.NoError(t, err)
	require.EqualValues(t, 201, again.From)
}

// TestFull has as many webhooks of others as there may be: their number is no fault of the client.
func TestFull(t *testing.T) {
	a := newAPI(t, nil)
	for n := range webhook.MaxWebhooks {
		_, err := a.book.Create(t.Context(), webhook.Webhook{Owner: strconv.Itoa(n / 3), URL: "https://example.org", Chain: "c", ChainID: "43113"})
		require.NoError(t, err)
	}
	w := a.do(http.MethodPost, "/v1/webhooks", `{"eventType":"address_activity","url":"https://example.org","chainId":"43113","metadata":{"addresses":["`+one+`"]}}`)
	apitest.RequireError(t, w, 400, 503, "this instance has the maximum of 1000 webhooks of all API keys")
}

// TestOwners checks that an API key sees its own webhooks and secret only.
func TestOwners(t *testing.T) {
	file := access.KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	keys := make(map[string]string)
	for _, name := range []string{"ann", "ben"} {
		key, err := file.Add(name, "", time.Now())
		require.NoError(t, err)
		keys[name] = key
	}
	guard, err := access.New(access.Options{Keys: file})
	require.NoError(t, err)
	a := newAPI(t, guard)
	body := `{"eventType":"address_activity","url":"https://example.org","chainId":"43113","metadata":{"addresses":["` + one + `"]}}`
	const header = "x-glacier-api-key"
	apitest.RequireError(t, a.do(http.MethodPost, "/v1/webhooks", body), 400, 401, "webhooks belong to an API key")
	require.Equal(t, 201, a.do(http.MethodPost, "/v1/webhooks", body, header, keys["ann"]).Code)
	own, err := a.book.List(t.Context(), "ann")
	require.NoError(t, err)
	require.Len(t, own, 1)
	path := "/v1/webhooks/" + own[0].ID
	require.Equal(t, 200, a.do(http.MethodGet, path, "", header, keys["ann"]).Code)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		apitest.RequireError(t, a.do(method, path, "", header, keys["ben"]), 400, 404, "id: you have no webhook")
	}
	require.JSONEq(t, `{"webhooks":[]}`, a.do(http.MethodGet, "/v1/webhooks", "", header, keys["ben"]).Body.String())
	apitest.RequireError(t, a.do(http.MethodGet, "/v1/webhooks:getSharedSecret", "", header, keys["ben"]), 400, 404, "there is no shared secret yet")
	require.Equal(t, 200, a.do(http.MethodGet, "/v1/webhooks:getSharedSecret", "", header, keys["ann"]).Code)
}

// TestOff checks the answer while webhooks are off.
func TestOff(t *testing.T) {
	e, err := handlers.New(handlers.Options{})
	require.NoError(t, err)
	apitest.RequireError(t, apitest.Get(e, "/v1/webhooks"), 400, 404, "webhooks are off here")
}

// TestMessages delivers the transactions of an address of a generated chain. The official client verifies signatures and
// messages.
func TestMessages(t *testing.T) {
	a := newAPI(t, nil)
	a.progress.Height = 0
	blocks, busiest := generate(t)
	type message struct{ signature, body string }
	messages := make(chan message, 10_000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/json" {
			messages <- message{r.Header.Get("x-signature"), string(body)}
		}
	}))
	defer receiver.Close()
	body := fmt.Sprintf(`{"eventType":"address_activity","url":%q,"chainId":"43113","includeLogs":true,"includeInternalTxs":true,"metadata":{"addresses":[%q]}}`, receiver.URL, busiest)
	require.Equal(t, 201, a.do(http.MethodPost, "/v1/webhooks", body).Code)
	secret, err := a.book.Secret(t.Context(), "")
	require.NoError(t, err)

	source := sourceOf(blocks)
	worker := webhook.NewWorker(webhook.Options{Book: a.book, AllowPrivate: true, Source: func(string) (webhook.Source, bool) { return source, true }})
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(ctx) })
	defer running.Wait()
	defer end()

	var want, got []string
	for _, b := range blocks {
		for i := range b.Transactions {
			if involves(&b.Transactions[i], busiest) {
				want = append(want, b.Transactions[i].Hash.Hex())
			}
		}
	}
	require.Greater(t, len(want), 20)
	var calls []chainkit.Call
	transfers, internals := 0, 0
	for range want {
		m := <-messages
		var parsed struct {
			Event struct {
				Transaction struct {
					TxHash                                            string
					ERC20Transfers, ERC721Transfers, ERC1155Transfers []any
					InternalTransactions                              []any
				}
				Logs []any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(m.body), &parsed))
		tx := parsed.Event.Transaction
		got = append(got, tx.TxHash)
		transfers += len(tx.ERC20Transfers) + len(tx.ERC721Transfers) + len(tx.ERC1155Transfers)
		internals += len(tx.InternalTransactions)
		calls = append(calls, chainkit.Call{Name: tx.TxHash, Path: "receive", Request: map[string]any{"secret": secret, "signature": m.signature, "body": m.body}})
	}
	require.ElementsMatch(t, want, got)
	require.Positive(t, transfers)
	require.Positive(t, internals)
	last := calls[len(calls)-1].Request
	calls = append(calls, chainkit.Call{Name: "changed", Path: "receive", Request: map[string]any{
		"secret": secret, "signature": last["signature"], "body": strings.Replace(last["body"].(string), `"nonce":"`, `"nonce":"1`, 1),
	}})
	for i, r := range chainkit.Install(t).Run(t, receiver.URL, calls) {
		require.Nil(t, r.Error)
		require.Equal(t, map[string]any{"signed": i < len(want), "message": true}, r.Pages[0], calls[i].Request["body"])
	}
}

// generate returns the blocks of a chain and the address that most of its transactions come from or go to.
func generate(t *testing.T) (blocks []*chain.Block, busiest common.Address) {
	t.Helper()
	g, err := evmchain.New(evmchain.Options{Txs: 400, Record: true})
	require.NoError(t, err)
	seen := make(map[common.Address]int)
	for g.Txs() < 400 {
		b, err := g.Next()
		require.NoError(t, err)
		blocks = append(blocks, b.Decoded)
		for _, tx := range b.Decoded.Transactions {
			if tx.To != nil {
				seen[*tx.To]++
			}
			if seen[tx.From]++; seen[tx.From] > seen[busiest] {
				busiest = tx.From
			}
		}
	}
	return blocks, busiest
}

// involves reports whether a transaction involves an address, which is of no contract.
func involves(tx *chain.Transaction, a common.Address) bool {
	is := tx.From == a || tx.To != nil && *tx.To == a
	for i := range tx.Logs {
		for _, transfer := range chain.Transfers(&tx.Logs[i]) {
			is = is || transfer.From == a || transfer.To == a
		}
	}
	for _, f := range tx.Frames {
		is = is || !f.Reverted && (!f.Value.IsZero() || f.Creates()) && (f.From == a || f.To == a)
	}
	return is
}

// sourceOf returns a source of blocks with consecutive numbers.
func sourceOf(blocks []*chain.Block) webhook.Source {
	decimals := uint8(18)
	first := blocks[0].Number
	tokens := make(map[common.Address]*webhook.Token)
	for _, b := range blocks {
		for i := range b.Transactions {
			for j := range b.Transactions[i].Logs {
				for _, t := range chain.Transfers(&b.Transactions[i].Logs[j]) {
					tokens[t.Contract] = &webhook.Token{Standard: t.Standard, Name: "<Tök\u2028en>", Symbol: "T\"", Decimals: &decimals}
				}
			}
		}
	}
	return webhook.NewEVM(webhook.EVMOptions{
		ChainID: 43113, Native: webhook.Token{Name: "Avalanche", Symbol: "AVAX", Decimals: &decimals},
		Tip: func() (uint64, bool) { return first + uint64(len(blocks)) - 1, true },
		Fetch: func(_ context.Context, from uint64, n int) ([]*chain.Block, error) {
			return blocks[from-first:][:n], nil
		},
		Tokens: func(_ context.Context, addresses []common.Address, _ time.Time) ([]*webhook.Token, error) {
			found := make([]*webhook.Token, len(addresses))
			for i, a := range addresses {
				found[i] = tokens[a]
			}
			return found, nil
		},
	})
}
