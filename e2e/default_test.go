package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/e2e/proxy"
)

// firstBlock is the first block of the C-Chain, after the genesis, that the node in
// defaultNode has.
const firstBlock = 6

// stateSynced makes a node look as if it had state-synced the C-Chain: it has the genesis
// and nothing else before a block. A real one has 256 blocks before the one it synced to,
// which takes a local network ten minutes to make.
func stateSynced(first uint64) []proxy.Rule {
	early := func(c proxy.Call) bool {
		var params []json.RawMessage
		var text string
		return json.Unmarshal(c.Params, &params) == nil && len(params) > 0 && json.Unmarshal(params[0], &text) == nil && text != "0x0"
	}
	var rules []proxy.Rule
	for _, method := range []string{"eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getHeaderByNumber"} {
		rule := proxy.Null(method)
		rule.When = early
		rules = append(rules, proxy.Below(first, rule))
	}
	return rules
}

// defaultNode compares the answers of a service whose only node has the settings that a
// node has by default: no index, no tracing, a pruned C-Chain that was state-synced.
func (n *nodeAPI) defaultNode(ctx context.Context, t *testing.T, stakes *shortStakes) {
	began := n.comparisons()
	behind := proxy.Start(t, n.network.ObserveBare().URL, stateSynced(firstBlock)...)
	full := n.service
	s := startService(t, n.program, behind.URL, "--ahead-rounds", "0")
	n.service = s
	defer func() { n.service = full }()
	p := platformvm.NewClient(n.node)
	height, err := p.GetHeight(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.indexed(ctx, map[string]uint64{"P": height}) }, time.Minute, 100*time.Millisecond)

	t.Run("the P-Chain is as the nodes have it", func(t *testing.T) {
		s.t = t
		n.platformAlone(ctx, t)
		n.delegations(ctx, t, stakes)
		n.stakes(ctx, t)
		n.subnets(ctx, t)
	})
	t.Run("what the C-Chain's past decides is refused with the reason", func(t *testing.T) {
		s.t = t
		text := n.bech32(t, "C", 0)
		for _, list := range []string{"balances", "utxos"} {
			status, body := s.ask(ctx, "/v1/networks/local/blockchains/c-chain/"+list, url.Values{"addresses": {text}})
			require.Equal(t, http.StatusServiceUnavailable, status, "%s", body)
			require.Contains(t, string(body), "state-sync-enabled", "what to configure")
			n.compared["refusals"]++
		}
	})
	t.Run("the C-Chain from the node's first block on", func(t *testing.T) {
		s.t = t
		n.laterTransactions(ctx, t)
	})
	t.Run("calls that no node traced are not left out in silence", func(t *testing.T) {
		s.t = t
		status, body := s.ask(ctx, evmPath+"addresses/"+n.chain.account.Hex()+"/transactions:listInternals", nil)
		t.Logf("%d %s", status, body)
		require.Contains(t, string(body), "trac", "status %d", status)
		n.compared["refusals"]++
	})
	t.Run("the reasons are where operators look", func(t *testing.T) {
		s.t = t
		status, body := s.askPrivate(t, "/readyz")
		require.Equal(t, http.StatusOK, status, "%s", body)
		require.Contains(t, string(body), "state-sync-enabled")
		log, err := os.ReadFile(filepath.Join(s.dataDir, "output.log"))
		require.NoError(t, err)
		require.Contains(t, string(log), "state-sync-enabled")
		require.Contains(t, string(log), "debug_traceBlockByNumber")
	})
	t.Run("messages are signed", func(t *testing.T) {
		s.t = t
		chain := newCChain(t, ctx, n.node)
		m, _ := chain.message(ctx, chain.sendByAccount(ctx, []byte("by way of a default node")))
		requireVerifiedOn(t, ctx, n.network.ID, n.node, s.sign(ctx, m, 67), platformapi.ProposedHeight, 67)
		n.compared["signed"]++
	})
	t.Logf("%d comparisons with a default node: %v", n.comparisons()-began, n.compared)
}

// askPrivate asks at the private address.
func (s *service) askPrivate(t testing.TB, path string) (int, []byte) {
	t.Helper()
	response, err := http.Get(s.private + path)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, body
}

// bech32 is the address of one of the keys.
func (n *nodeAPI) bech32(t testing.TB, chain string, key int) string {
	t.Helper()
	text, err := address.Format(chain, constants.GetHRP(n.network.ID), n.keys[key].Address().Bytes())
	require.NoError(t, err)
	return text
}

// platformAlone compares what the P-Chain decides without other chains.
func (n *nodeAPI) platformAlone(ctx context.Context, t *testing.T) {
	t.Helper()
	p := platformvm.NewClient(n.node)
	for i, key := range n.keys {
		owner := []ids.ShortID{key.Address()}
		text := []string{n.bech32(t, "P", i)}
		raw, _, _, err := p.GetUTXOs(ctx, owner, 1024, ids.ShortEmpty, ids.Empty)
		require.NoError(t, err)
		require.ElementsMatch(t, outputIDs(t, txs.Codec, raw, owner), unspentIDs(n.service.utxos(ctx, "p-chain", text, 100), constants.PlatformChainID.String()))
		var ours struct {
			Balances map[string][]struct{ AssetID, Amount string }
		}
		n.service.records(ctx, "blockchains/p-chain/balances", url.Values{"addresses": text}, &ours)
		var sum uint64
		for _, b := range ours.Balances["unlockedUnstaked"] {
			amount, err := strconv.ParseUint(b.Amount, 10, 64)
			require.NoError(t, err)
			sum += amount
		}
		n.compared["Data API"] += 1
		if i > 0 {
			continue // the node counts what takes another's signature, too
		}
		balance, err := p.GetBalance(ctx, owner) //nolint:staticcheck // deprecated, and what explorers compare with
		require.NoError(t, err)
		require.Equal(t, uint64(balance.Unlocked), sum)
		n.compared["Data API"]++
	}
}

// laterTransactions compares the transactions since the node's first block, of which the
// answer must say that they are not all.
func (n *nodeAPI) laterTransactions(ctx context.Context, t *testing.T) {
	t.Helper()
	truth := readChain(t, ctx, n.chain.cChain)
	n.service.awaitEVM(ctx, uint64(len(truth.blocks)-1))
	var want, got []string
	for _, block := range truth.blocks[firstBlock:] {
		for _, tx := range block.Transactions {
			want = append(want, fmt.Sprintln(uint64(block.Number), tx.Hash, tx.From))
		}
	}
	for _, tx := range list[nativeTransaction](ctx, n.service, evmPath+"transactions", "transactions", nil, 7) {
		got = append(got, fmt.Sprintln(tx.BlockNumber, tx.TxHash, tx.From.Address))
	}
	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, got)
	n.compared["Data API"] += len(got)
	response, err := http.Get(n.service.url + evmPath + "transactions")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, strconv.Itoa(firstBlock), response.Header.Get("Indexed-From"))
}
