package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/platformvm"

	"quorate/e2e/localnet"
)

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
