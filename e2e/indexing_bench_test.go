package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/e2e/localnet"
)

// wanted returns the number in an environment variable, or a default.
func wanted(b *testing.B, name string, otherwise int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err, name)
	return n
}

// BenchmarkIndexing measures a service that indexes the chains of five real nodes from an empty store, and then the pages
// that it serves: with the API of a node alone, and with the P-Chain over P2P. Beside that stands the time that a client
// takes to fetch the same C-Chain blocks, receipts and call traces from the node. The node has answered all calls once
// before. E2E_EVM and E2E_PRIMARY set the number of
// transactions on the C-Chain, and on the P- and X-Chain each.
func BenchmarkIndexing(b *testing.B) {
	ctx, program := b.Context(), buildService(b)
	x := newTraffic(b, ctx, wanted(b, "E2E_EVM", 50_000), wanted(b, "E2E_PRIMARY", 2_500))
	tip, err := x.client.BlockNumber(ctx)
	require.NoError(b, err)
	p := newPChain(b, ctx, x.network.Node(0).URL)
	heights := map[string]uint64{"P": p.height(ctx), "X": xHeight(b, ctx, x.network.Node(0).URL), "C": tip}
	b.Logf("heights: %v", heights)
	rates := make(map[string][]float64)
	add := func(name string, value float64) { rates[name] = append(rates[name], value) }
	x.fetchAll(b, ctx, tip)
	for b.Loop() {
		add("node-alone-s", x.fetchAll(b, ctx, tip).Seconds())
		for _, way := range []struct{ name, nodes string }{{"api", "%s"}, {"p2p", "%s,p2p"}} {
			x.indexed(b, ctx, program, fmt.Sprintf(way.nodes, x.network.Node(0).URL), heights, func(what string, value float64) { add(way.name+"-"+what, value) })
		}
	}
	for name, all := range rates {
		b.ReportMetric(median(all), name)
	}
	b.ReportMetric(0, "ns/op")
}

func xHeight(b *testing.B, ctx context.Context, node string) uint64 {
	b.Helper()
	var reply struct {
		Height uint64 `json:",string"`
	}
	require.NoError(b, localnet.Call(ctx, node, "/ext/bc/X", "avm.getHeight", struct{}{}, &reply))
	return reply.Height
}

// fetchers is the number of requests at a time of fetchAll.
const fetchers = 4

// fetchAll fetches all blocks with transactions, receipts and call traces from a node, and drops them.
func (x *traffic) fetchAll(b *testing.B, ctx context.Context, tip uint64) time.Duration {
	b.Helper()
	began := time.Now()
	var next atomic.Uint64
	work, ctx := errgroup.WithContext(ctx)
	rpc := x.client.Client()
	for range fetchers {
		work.Go(func() error {
			for {
				number := hexutil.Uint64(next.Add(1))
				if uint64(number) > tip {
					return nil
				}
				var block, receipts, traces dropped
				if err := rpc.CallContext(ctx, &block, "eth_getBlockByNumber", number, true); err != nil {
					return err
				}
				if err := rpc.CallContext(ctx, &receipts, "eth_getBlockReceipts", number); err != nil {
					return err
				}
				if err := rpc.CallContext(ctx, &traces, "debug_traceBlockByNumber", number, map[string]string{"tracer": "callTracer"}); err != nil {
					return err
				}
			}
		})
	}
	require.NoError(b, work.Wait())
	return time.Since(began)
}

// dropped discards an answer.
type dropped struct{}

func (*dropped) UnmarshalJSON([]byte) error { return nil }

// indexed starts a service with an empty store, waits until it has indexed all chains, compares samples with the node,
// and measures pages.
func (x *traffic) indexed(b *testing.B, ctx context.Context, program, nodes string, heights map[string]uint64, add func(what string, value float64)) {
	b.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "networks:\n  local:\n    genesis_file: %s\n", genesisFile(b, ctx, x.network))
	fmt.Fprint(&text, "    evm_indexes: [address_transactions, token_balances, chain_metrics]\n    manual_peers:\n")
	for i := range x.network.Stakers() {
		nodeID, _, err := info.NewClient(x.network.Node(i).URL).GetNodeID(ctx)
		require.NoError(b, err)
		fmt.Fprintf(&text, "      - {node_id: %s, address: %q}\n", nodeID, x.network.StakingAddress(i))
	}
	file := filepath.Join(b.TempDir(), "quorate.yaml")
	require.NoError(b, os.WriteFile(file, []byte(text.String()), 0o600))
	node := func() time.Duration { return cpuOf(b, x.network.PID(0)) }
	began, nodeCPU := time.Now(), node()
	s := startService(b, program, nodes, "--config", file)
	defer s.stop()
	for left := map[string]bool{"P": true, "X": true, "C": true, "EVM": true}; len(left) > 0; time.Sleep(50 * time.Millisecond) {
		require.Less(b, time.Since(began), 20*time.Minute, "%v are not indexed:\n%s", left, s.log())
		status := s.indexStatuses() // once for all chains: it costs the service processor time
		for chain := range left {
			if s.indexedTo(ctx, status, chain) >= heights[strings.Replace(chain, "EVM", "C", 1)] {
				add(chain+"-s", time.Since(began).Seconds())
				delete(left, chain)
			}
		}
	}
	add("cpu-s", s.cpu().Seconds())
	add("node-cpu-s", (node() - nodeCPU).Seconds())
	x.requireSamples(b, ctx, s)
	for name, path := range x.pages(b) {
		s.timePages(b, ctx, name, path, add)
	}
}

// indexedTo returns the height up to which a chain is indexed. EVM is the C-Chain's EVM transactions; C is its transfers
// from and to the P- and X-Chain.
func (s *service) indexedTo(ctx context.Context, status map[string]chainStatus, chain string) uint64 {
	s.t.Helper()
	if chain != "EVM" {
		return max(status[chain].Next, 1) - 1
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+evmPath+"transactions?pageSize=1", nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	at, _ := strconv.ParseUint(response.Header.Get("Indexed-Height"), 10, 64)
	if response.StatusCode != http.StatusOK {
		return 0
	}
	return at
}

// requireSamples compares the native and token balances of some accounts with the node's.
func (x *traffic) requireSamples(b *testing.B, ctx context.Context, s *service) {
	b.Helper()
	for _, account := range x.accounts[:20] {
		want, err := x.client.BalanceAt(ctx, account.address, nil)
		require.NoError(b, err)
		status, content := s.ask(ctx, evmPath+"addresses/"+account.address.Hex()+"/balances:getNative", nil)
		require.Equal(b, http.StatusOK, status, "%s", content)
		require.Contains(b, string(content), `"balance":"`+want.String()+`"`)
		data, err := x.coin.abi.Pack("balanceOf", account.address)
		require.NoError(b, err)
		var coins hexutil.Bytes
		require.NoError(b, x.client.Client().CallContext(ctx, &coins, "eth_call", map[string]any{"to": x.coinAt, "data": hexutil.Bytes(data)}, "latest"))
		status, content = s.ask(ctx, evmPath+"addresses/"+account.address.Hex()+"/balances:listErc20", nil)
		require.Equal(b, http.StatusOK, status, "%s", content)
		require.Contains(b, string(content), `"balance":"`+common.BytesToHash(coins).Big().String()+`"`)
	}
}

// pages are paths of the Data API by name.
func (x *traffic) pages(b *testing.B) map[string]string {
	b.Helper()
	of := evmPath + "addresses/" + x.accounts[0].address.Hex()
	full := "?pageSize=100"
	owner, err := address.FormatBech32("local", genesis.EWOQKey.Address().Bytes())
	require.NoError(b, err)
	return map[string]string{
		"latest": evmPath + "transactions" + full, "transactions": of + "/transactions" + full, "internal": of + "/transactions:listInternals" + full,
		"erc20": of + "/transactions:listErc20" + full, "erc1155": of + "/transactions:listErc1155" + full, "balances": of + "/balances:listErc20" + full,
		"p-utxos": "/v1/networks/local/blockchains/p-chain/utxos" + full + "&addresses=" + owner, "x-utxos": "/v1/networks/local/blockchains/x-chain/utxos" + full + "&addresses=" + owner,
		"staking": "/v1/networks/local/blockchains/p-chain/transactions:listStaking" + full + "&addresses=" + owner, "subnets": "/v1/networks/local/subnets" + full,
	}
}

// timePages requests a page over one connection.
func (s *service) timePages(b *testing.B, ctx context.Context, name, path string, add func(what string, value float64)) {
	b.Helper()
	path, text, _ := strings.Cut(path, "?")
	query, err := url.ParseQuery(text)
	require.NoError(b, err)
	var all []float64
	for i := range 600 {
		began := time.Now()
		status, content := s.ask(ctx, path, query)
		took := time.Since(began)
		require.Equal(b, http.StatusOK, status, "%s: %s", path, content)
		if i >= 100 {
			all = append(all, took.Seconds()*1000)
		}
	}
	slices.Sort(all)
	add(name+"-p50-ms", all[len(all)/2])
	add(name+"-p99-ms", all[len(all)*99/100])
}
