package data_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/handlers/compat"
	"quorate/handlers/data"
)

// call is a call of a method of the official JavaScript client.
type call struct {
	Name    string         `json:"name"`
	Path    string         `json:"path"`
	Request map[string]any `json:"request"`
	// List is the member of a page that has the items; empty if there are no pages.
	List string `json:"list,omitempty"`

	id    string // what tells the items apart
	count int    // of items, on all pages
	pages int
}

type result struct {
	Name  string
	Pages []map[string]any
	Error *struct {
		Type, Message string
		Status        int
	}
}

// officialCalls are all operations, with everything that the client can send.
func officialCalls() []call {
	const network = "data.primaryNetwork."
	a, both := text(alice), "P-"+text(alice)+", X-"+text(bob)
	return []call{
		{
			Name: "UTXOs of the P-Chain", Path: network + "utxos.listByAddresses", List: "utxos", id: "utxoId", count: 41, pages: 5,
			Request: map[string]any{"blockchainId": "p-chain", "addresses": a, "includeSpent": true},
		},
		{
			Name: "UTXOs by amount", Path: network + "utxos.listByAddresses", List: "utxos", id: "utxoId", count: 15, pages: 4,
			Request: map[string]any{
				"blockchainId": "11111111111111111111111111111111LpoYY", "addresses": both, "includeSpent": false, "pageSize": 4,
				"minUtxoAmount": 7.5, "sortBy": "amount", "sortOrder": "asc", "network": "testnet",
			},
		},
		{
			Name: "UTXOs of the X-Chain", Path: network + "utxos.listByAddresses", List: "utxos", id: "utxoId", count: 12, pages: 6,
			Request: map[string]any{"blockchainId": "x-chain", "addresses": a, "includeSpent": true, "pageSize": 2},
		},
		{
			Name: "UTXOs of an asset", Path: network + "utxos.listByAddresses", List: "utxos", id: "utxoId", count: 4, pages: 4,
			Request: map[string]any{"blockchainId": xID.String(), "addresses": a, "assetId": art.String(), "pageSize": 1, "minUtxoAmount": 1},
		},
		{
			Name: "UTXOs of the C-Chain", Path: network + "utxos.listByAddresses", List: "utxos", id: "utxoId", count: 3, pages: 3,
			Request: map[string]any{"blockchainId": "c-chain", "addresses": a, "includeSpent": true, "pageSize": 1},
		},
		{
			Name: "no UTXOs", Path: network + "utxos.listByAddresses", List: "utxos", id: "utxoId", pages: 1,
			Request: map[string]any{"blockchainId": cID.String(), "addresses": text(carol)},
		},
		{Name: "balances of the P-Chain", Path: network + "balances.listByAddresses", pages: 1, Request: map[string]any{"blockchainId": "p-chain", "addresses": both}},
		{Name: "balances of the X-Chain", Path: network + "balances.listByAddresses", pages: 1, Request: map[string]any{"blockchainId": "x-chain", "addresses": a, "blockTimestamp": 1_600_000_000}},
		{Name: "balances of the C-Chain", Path: network + "balances.listByAddresses", pages: 1, Request: map[string]any{"blockchainId": "c-chain", "addresses": a}},
		{
			Name: "staking", Path: network + "transactions.listActiveStakingTransactions", List: "transactions", id: "txHash", count: 23, pages: 3,
			Request: map[string]any{"blockchainId": "p-chain", "addresses": a},
		},
		{
			Name: "staking of some types", Path: network + "transactions.listActiveStakingTransactions", List: "transactions", id: "txHash", count: 4, pages: 4,
			Request: map[string]any{
				"blockchainId": "p-chain", "addresses": both, "txTypes": []string{"UNKNOWN", "AddValidatorTx", "OperationTx"},
				"startTimestamp": 1, "endTimestamp": 1_800_000_000, "sortOrder": "asc", "pageSize": 1,
			},
		},
		{Name: "subnets", Path: network + "listSubnets", List: "subnets", id: "subnetId", count: 150, pages: 2, Request: map[string]any{}},
		{Name: "oldest subnets", Path: network + "listSubnets", List: "subnets", id: "subnetId", count: 150, pages: 22, Request: map[string]any{"sortOrder": "asc", "pageSize": 7}},
		{Name: "delegators", Path: network + "listDelegators", List: "delegators", id: "txHash", count: 26, pages: 3, Request: map[string]any{}},
		{
			Name: "some delegators", Path: network + "listDelegators", List: "delegators", id: "txHash", count: 3, pages: 2,
			Request: map[string]any{"delegationStatus": "completed", "nodeIds": nodeA.String() + "," + nodeB.String(), "rewardAddresses": both, "pageSize": 2, "sortOrder": "asc"},
		},
		{
			Name: "vertices", Path: network + "vertices.listByHeight", List: "vertices", id: "vertexHash", count: 13, pages: 2,
			Request: map[string]any{"blockchainId": "x-chain", "vertexHeight": 5},
		},
		{
			Name: "no vertices", Path: network + "vertices.listByHeight", List: "vertices", id: "vertexHash", pages: 1,
			Request: map[string]any{"blockchainId": xID.String(), "vertexHeight": 1_000_000, "sortOrder": "asc"},
		},
	}
}

func TestOfficialClient(t *testing.T) {
	directory := installClient(t)
	for _, mode := range []compat.Mode{compat.Auto, compat.On, compat.Off} {
		t.Run(string(mode), func(t *testing.T) {
			server := httptest.NewServer(surface(t, map[string]data.Network{"fuji": newFake().network()}, mode))
			defer server.Close()
			calls := officialCalls()
			for i, r := range runClient(t, directory, server.URL, calls) {
				c := calls[i]
				require.Equal(t, c.Name, r.Name)
				if mode == compat.Off && c.List == "subnets" {
					// The documented form of some genesis members is not the client's.
					require.NotNil(t, r.Error, c.Name)
					require.Equal(t, "ResponseValidationError", r.Error.Type)
					continue
				}
				require.Nil(t, r.Error, "%s: %+v", c.Name, r.Error)
				require.Len(t, r.Pages, c.pages, c.Name)
				seen := make(map[string]bool)
				for _, page := range r.Pages {
					if c.List == "" {
						require.NotEmpty(t, page["balances"])
						continue
					}
					for _, item := range page[c.List].([]any) {
						id := item.(map[string]any)[c.id].(string)
						require.False(t, seen[id], "%s: %s is there twice", c.Name, id)
						seen[id] = true
					}
				}
				require.Len(t, seen, c.count, c.Name)
			}
		})
	}
	t.Run("errors", func(t *testing.T) { testClientErrors(t, directory) })
}

// testClientErrors checks that our errors become the client's, and that a response
// it does not like would make the tests above fail.
func testClientErrors(t *testing.T, directory string) {
	t.Helper()
	f := newFake()
	server := httptest.NewServer(fuji(t, f))
	defer server.Close()
	utxos := func(blockchainID, addresses, network string) call {
		return call{Path: "data.primaryNetwork.utxos.listByAddresses", List: "utxos", Request: map[string]any{
			"blockchainId": blockchainID, "addresses": addresses, "network": network, "pageSize": 1,
		}}
	}
	results := runClient(t, directory, server.URL, []call{
		utxos("p-chain", "nobody", "fuji"),
		utxos("2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM", text(alice), "fuji"),
		utxos("p-chain", text(alice), "mainnet"),
	})
	p := f.progress[pID]
	p.CaughtUp = false
	f.progress[pID] = p
	results = append(results, runClient(t, directory, server.URL, []call{utxos("p-chain", text(alice), "fuji")})...)
	for i, want := range []struct {
		kind, message string
		status        int
	}{
		{"BadRequestError", `addresses: "nobody" is no address`, 400},
		{"BadRequestError", "blockchainId: ", 400},
		{"NotFoundError", "network: ", 404},
		{"ServiceUnavailableError", "the index of the p-chain is still catching up", 503},
	} {
		require.NotNil(t, results[i].Error)
		require.Equal(t, want.kind, results[i].Error.Type)
		require.Equal(t, want.status, results[i].Error.Status)
		require.Contains(t, results[i].Error.Message, want.message)
	}

	h := fuji(t, newFake())
	for _, change := range []*strings.Replacer{
		strings.NewReplacer(`"threshold":1`, `"threshold":"1"`), strings.NewReplacer(`"utxoType":"TRANSFER"`, `"utxoType":"transfer"`),
		strings.NewReplacer(`"blockNumber":"106"`, `"blockNumber":null`), strings.NewReplacer(`"chainInfo"`, `"info"`),
	} {
		broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, r)
			w.Header().Set("Content-Type", "application/json")
			_, err := change.WriteString(w, recorder.Body.String())
			require.NoError(t, err)
		}))
		r := runClient(t, directory, broken.URL, []call{utxos("p-chain", text(alice), "fuji")})
		broken.Close()
		require.NotNil(t, r[0].Error)
		require.Equal(t, "ResponseValidationError", r[0].Error.Type)
	}
}

// runClient makes calls one after the other.
func runClient(t *testing.T, directory, url string, calls []call) []result {
	t.Helper()
	input, err := json.Marshal(map[string]any{"url": url, "calls": calls})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "client.mjs")
	node.Dir, node.Stdin = directory, bytes.NewReader(input)
	var output, errors bytes.Buffer
	node.Stdout, node.Stderr = &output, &errors
	require.NoError(t, node.Run(), "%s", &errors)
	var results []result
	require.NoError(t, json.Unmarshal(output.Bytes(), &results), "%s", &output)
	require.Len(t, results, len(calls))
	return results
}

// installClient returns a directory with the client and its packages. What was
// installed is kept in .cache at the top of the repository if that is there, by the
// lock file it was installed from.
func installClient(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("chainkit/package-lock.json")
	require.NoError(t, err)
	digest := sha256.Sum256(lock)
	name := "chainkit-" + hex.EncodeToString(digest[:8])
	cache, err := filepath.Abs("../../.cache")
	require.NoError(t, err)
	directory := t.TempDir()
	for _, file := range []string{"package.json", "package-lock.json", "client.mjs"} {
		content, err := os.ReadFile(filepath.Join("chainkit", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(directory, file), content, 0o600))
	}
	kept := filepath.Join(cache, name)
	modules := filepath.Join(directory, "node_modules")
	if _, err := os.Stat(kept); err == nil {
		require.NoError(t, os.Symlink(filepath.Join(kept, "node_modules"), modules))
		return directory
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = directory
	output, err := npm.CombinedOutput()
	require.NoError(t, err, "installing the official client needs Node.js with npm, and a registry or its cache: %s", output)
	if _, err := os.Stat(cache); err != nil {
		return directory
	}
	// Another test may do the same: only what is complete gets its name.
	part, err := os.MkdirTemp(cache, name+"-*.part")
	require.NoError(t, err)
	defer os.RemoveAll(part)
	require.NoError(t, os.CopyFS(filepath.Join(part, "node_modules"), os.DirFS(modules)))
	if err := os.Rename(part, kept); err != nil {
		_, missing := os.Stat(kept)
		require.NoError(t, missing, "keeping what was installed: %v", err)
	}
	return directory
}
