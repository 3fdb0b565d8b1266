package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	program string
	network *localnet.Network
	node    string
	// observer is the URL of a node that validates nothing, as the service does not.
	observer      string
	service       *service
	keys          []*secp256k1.PrivateKey
	xChain, asset string
	l1            *l1
	chain         *evmWorld // of the C-Chain
	// validations are of the L1, by what befell them.
	validations map[string]ids.ID
	compared    map[string]int // calls by the service they are to
}

// same asks both, and reports what differs.
func (n *nodeAPI) same(ctx context.Context, t *testing.T, how alike, path, method, params string) {
	t.Helper()
	n.both(ctx, t, how, n.service.url, path, method, params, method)
}

// both asks the service at one of its listeners, and for a method by its own name.
func (n *nodeAPI) both(ctx context.Context, t *testing.T, how alike, base, path, method, params, serviceMethod string) {
	t.Helper()
	n.between(ctx, t, how, n.node, base, path, method, params, serviceMethod)
}

// between asks one of the nodes, too.
func (n *nodeAPI) between(ctx context.Context, t *testing.T, how alike, nodeBase, base, path, method, params, serviceMethod string) {
	t.Helper()
	of, _, _ := strings.Cut(strings.Replace(method, "_", ".", 1), ".")
	n.compared[of]++
	fromNode := func() rpcAnswer {
		return ask(t, ctx, http.MethodPost, nodeBase+path, "application/json", callBody(method, params))
	}
	var differences []string
	for range 5 {
		node := fromNode()
		service := ask(t, ctx, http.MethodPost, base+path, "application/json", callBody(serviceMethod, params))
		differences = how.compare(node, service)
		if len(differences) == 0 || len(how.compare(node, fromNode())) == 0 {
			break
		}
		n.awaitRecord(t, ctx) // the chain went on between the two
	}
	for _, d := range differences {
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

// startNodeAPI brings up a network with a history, and a service that has indexed it.
// What comes before in that history may be left to someone else.
func startNodeAPI(t testing.TB, ctx context.Context, o localnet.Options, before func(*nodeAPI)) *nodeAPI {
	t.Helper()
	n := &nodeAPI{program: buildService(t), network: localnet.StartWith(t, o), keys: []*secp256k1.PrivateKey{genesis.EWOQKey}, compared: make(map[string]int)}
	n.node = n.network.Node(0).URL
	n.service = n.freshService(t)
	for range 2 {
		key, err := secp256k1.NewPrivateKey()
		require.NoError(t, err)
		n.keys = append(n.keys, key)
	}
	if before != nil {
		before(n)
	}
	history(t, ctx, n.node, n.keys)
	id, err := info.NewClient(n.node).GetBlockchainID(ctx, "X")
	require.NoError(t, err)
	n.xChain = id.String()
	n.asset = stakingAsset(t, ctx, platformvm.NewClient(n.node))
	n.awaitRecord(t, ctx)
	return n
}

// freshService starts a service that has indexed nothing yet.
func (n *nodeAPI) freshService(t testing.TB) *service {
	t.Helper()
	content := "node_api:\n  admin: true\n  health_interval: 1s\nnetworks:\n  local:\n    keep_containers: all\n"
	if n.network.ID != localnet.NetworkID {
		content += "    genesis_file: " + n.network.GenesisFile() + "\n"
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(content), 0o600))
	s := startService(t, n.program, n.node, "--ahead-rounds", "0", "--config", config)
	s.networkID = n.network.ID
	return s
}

// awaitRecord waits until the service has indexed what the node has.
func (n *nodeAPI) awaitRecord(t testing.TB, ctx context.Context) {
	t.Helper()
	tips := make(map[string]uint64)
	for _, chain := range []string{"P", "X", "C"} {
		_, last, err := indexer.NewClient(n.node + "/ext/index/" + chain + "/block").GetLastAccepted(ctx)
		require.NoError(t, err)
		tips[chain] = last + 1
	}
	require.Eventually(t, func() bool { return n.service.indexed(ctx, tips) }, 2*time.Minute, 100*time.Millisecond)
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
	unused, err := address.Format(chain, constants.GetHRP(localnet.NetworkID), make([]byte, 20))
	require.NoError(t, err)
	return append(groups, []string{unused})
}

// The service answers as the nodes do about transactions of every kind, to the end of stakes and of L1
// validators. A service that indexes the network after its nodes were restarted answers the same.
func TestNodeAPI(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	start := time.Now()
	var stakes *shortStakes
	// Half of the time is enough for a reward: a busy machine may start nodes slowly.
	n := startNodeAPI(t, ctx, localnet.Options{Flags: []string{"--uptime-requirement=0.5"}}, func(n *nodeAPI) { stakes = n.stake(ctx, t) })
	t.Logf("ready after %s", time.Since(start))
	n.failingCalls(ctx, t)
	n.collectibles(ctx, t)
	n.convertToL1(ctx, t, stakes)
	n.awaitRewards(ctx, t, stakes)
	n.observer = stakes.leaving.url
	n.awaitRecord(t, ctx)
	t.Logf("with all of its history after %s", time.Since(start))
	type part struct {
		name    string
		compare func(context.Context, *testing.T)
	}
	run := func(t *testing.T, parts ...part) {
		before := n.comparisons()
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) { p.compare(ctx, t) })
		}
		t.Logf("%d comparisons: %v; after %s", n.comparisons()-before, n.compared, time.Since(start))
	}
	indexed := []part{
		{"asset chain", n.assetChain},
		{"platform chain", n.platformChain},
		{"l1", n.l1s},
		{"rewards", func(ctx context.Context, t *testing.T) { n.rewards(ctx, t, stakes) }},
		{"ledger", func(ctx context.Context, t *testing.T) { n.ledger(ctx, t, stakes) }},
		{"EVM", n.evm},
	}
	t.Run("nodes that saw it all", func(t *testing.T) {
		run(t, append(indexed, []part{
			{"info", n.info},
			{"index", n.index},
			{"pages", n.pages},
			{"C-Chain", n.cChain},
			{"health", n.health},
			{"bad requests", n.badRequests},
			{"official clients", n.officialClients},
			{"admin", n.admin}, // which gives the chains more names
		}...)...)
	})
	n.network.RestartAll()
	n.awaitRecord(t, ctx) // by the service that goes on
	t.Run("restarted nodes", func(t *testing.T) { run(t, indexed...) })
	n.service.stop()
	n.service = n.freshService(t)
	t.Run("a service that begins with restarted nodes", func(t *testing.T) {
		n.awaitRecord(t, ctx)
		run(t, append(indexed, part{"pages", n.pages})...)
	})
	t.Run("a default node", func(t *testing.T) { n.defaultNode(ctx, t, stakes) })
	t.Logf("%d comparisons in all: %v; after %s", n.comparisons(), n.compared, time.Since(start))
}

func (n *nodeAPI) comparisons() (sum int) {
	for _, calls := range n.compared {
		sum += calls
	}
	return sum
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
	n.operatorsInfo(ctx, t)
}
