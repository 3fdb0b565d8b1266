package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/e2e/localnet"
)

func (n *nodeAPI) assetChain(ctx context.Context, t *testing.T) {
	blocks, txs := n.listed(ctx, t, "/ext/bc/X", "avm")
	txs = append(txs, n.asset) // of the genesis
	// A node that has not been restarted shows null in what it made itself at the genesis.
	exact := alike{blank: []string{"txs", "credentials"}}
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
	seen := make(map[string]int)
	for _, chain := range []struct{ path, method, alias string }{{"/ext/bc/X", "avm.getUTXOs", "X"}, {"/ext/bc/P", "platform.getUTXOs", "P"}} {
		for _, group := range n.addresses(t, chain.alias) {
			for _, limit := range []int{1, 2, 3, 1024} {
				for _, source := range []string{"X", "P", "C"} {
					walk := func(base string, limit int) (all []string) {
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
						require.Fail(t, "too many pages", "%s of %v from %s, by %d of %s", chain.method, group, source, limit, base)
						return nil
					}
					// What comes from another chain begins, on a node, with what came last:
					// a page of one would be the same for ever.
					node, service := slices.Compact(walk(n.node, max(limit, 2))), walk(n.service.url, limit)
					if len(group) == 1 {
						require.Equal(t, slices.Compact(slices.Clone(service)), service, "an output comes twice")
					}
					require.Equal(t, node, slices.Compact(service), "%s of %v by %d from %s", chain.method, group, limit, source)
					seen[chain.alias+" from "+source] += len(node)
				}
			}
		}
	}
	for _, way := range []string{"X from X", "X from P", "X from C", "P from P", "P from X", "P from C"} {
		require.NotZero(t, seen[way], "outputs on %s", way)
	}
}
