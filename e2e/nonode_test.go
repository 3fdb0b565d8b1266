package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"quorate/e2e/localnet"
)

// genesisFile returns the file that the nodes were started with, or one with what they have built in.
func genesisFile(t testing.TB, ctx context.Context, network *localnet.Network) string {
	t.Helper()
	if network.ID != localnet.NetworkID {
		return network.GenesisFile()
	}
	first, err := platformvm.NewClient(network.Node(0).URL).GetBlockByHeight(ctx, 0)
	require.NoError(t, err)
	config := *genesis.GetConfig(network.ID)
	for range 5 { // newer releases begin later, by multiples of nine months
		b, _, err := genesis.FromConfig(&config)
		require.NoError(t, err)
		made, err := block.NewApricotCommitBlock(hashing.ComputeHash256Array(b), 0)
		require.NoError(t, err)
		if string(made.Bytes()) == string(first) {
			unparsed, err := config.Unparse()
			require.NoError(t, err)
			content, err := json.Marshal(unparsed)
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "genesis.json")
			require.NoError(t, os.WriteFile(file, content, 0o600))
			return file
		}
		config.StartTime -= 9 * 30 * 24 * 60 * 60
	}
	t.Fatal("the genesis that the nodes have built in is not found")
	return ""
}

// startWithoutNodes starts a service that gets the addresses of peers and no API of any node.
func startWithoutNodes(t testing.TB, ctx context.Context, program string, network *localnet.Network, flags ...string) *service {
	t.Helper()
	return startWithPeers(t, ctx, program, network, withPeers{}, flags...)
}

// withPeers says how a service finds validators and nodes.
type withPeers struct {
	// nodes are the setting, p2p among them; empty means p2p alone.
	nodes string
	// address returns where validators are said to be; nil means where they are.
	address func(i int) string
	// settings are further ones of the network.
	settings map[string]string
}

// startWithPeers starts a service that follows the P-Chain over P2P.
func startWithPeers(t testing.TB, ctx context.Context, program string, network *localnet.Network, with withPeers, flags ...string) *service {
	t.Helper()
	if with.nodes == "" {
		with.nodes = "p2p"
	}
	if with.address == nil {
		with.address = network.StakingAddress
	}
	var text strings.Builder
	fmt.Fprintf(&text, "networks:\n  local:\n    genesis_file: %s\n    manual_peers:\n", genesisFile(t, ctx, network))
	for i := range network.Stakers() {
		nodeID, _, err := info.NewClient(network.Node(i).URL).GetNodeID(ctx)
		require.NoError(t, err)
		fmt.Fprintf(&text, "      - {node_id: %s, address: %q}\n", nodeID, with.address(i))
	}
	for key, value := range with.settings {
		fmt.Fprintf(&text, "    %s: %q\n", key, value)
	}
	dir := t.TempDir()
	if upgrades := network.Upgrades(); upgrades != nil {
		content, err := json.Marshal(upgrades)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "upgrades.json"), content, 0o600))
		fmt.Fprintf(&text, "    upgrade_file: %s\n", filepath.Join(dir, "upgrades.json"))
	}
	file := filepath.Join(dir, "quorate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	began := time.Now()
	s := startService(t, program, with.nodes, append([]string{"--record", "l1", "--config", file}, flags...)...)
	s.networkID = network.ID
	t.Logf("a service with the nodes %s is ready after %s", with.nodes, time.Since(began).Round(time.Millisecond))
	return s
}

// validatorsNow returns the current validators of a subnet as a node's API lists them, without what a node observes.
func validatorsNow(t testing.TB, ctx context.Context, base string, subnetID ids.ID) []map[string]any {
	t.Helper()
	var reply struct{ Validators []map[string]any }
	require.NoError(t, localnet.Call(ctx, base, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{"subnetID": subnetID}, &reply))
	for _, v := range reply.Validators {
		delete(v, "uptime")
		delete(v, "connected")
	}
	// Nodes list first, and in no order, the validators that an L1 has from its time as a subnet.
	if former := slices.IndexFunc(reply.Validators, func(v map[string]any) bool { return v["validationID"] != nil }); former > 0 {
		slices.SortFunc(reply.Validators[:former], func(a, b map[string]any) int {
			return strings.Compare(fmt.Sprint(a["txID"]), fmt.Sprint(b["txID"]))
		})
	}
	return reply.Validators
}

// compareSets compares the validators of all subnets at all heights, and the current ones with their balances, with a
// node's. It returns the number of heights.
func (s *service) compareSets(ctx context.Context, node string) (heights uint64) {
	s.t.Helper()
	client, ownURL := platformvm.NewClient(node), s.url+"/local"
	own := platformvm.NewClient(ownURL)
	subnets, err := client.GetSubnets(ctx, nil) //nolint:staticcheck // a node lists them nowhere else
	require.NoError(s.t, err)
	tip, compared := pHeight(s.t, ctx, client), 0
	require.Eventually(s.t, func() bool { return pHeight(s.t, ctx, own) >= tip }, time.Minute, 100*time.Millisecond)
	for _, subnet := range subnets {
		for h := uint64(0); h <= tip; h++ {
			want, err := client.GetValidatorsAt(ctx, subnet.ID, platformapi.Height(h))
			require.NoError(s.t, err)
			got, err := own.GetValidatorsAt(ctx, subnet.ID, platformapi.Height(h))
			require.NoError(s.t, err)
			require.Equal(s.t, want, got, "subnet %s at height %d", subnet.ID, h)
			compared += len(want)
		}
		var want, got []map[string]any
		s.atOneHeight(ctx, node, func() {
			want, got = validatorsNow(s.t, ctx, node, subnet.ID), validatorsNow(s.t, ctx, ownURL, subnet.ID)
		})
		require.Equal(s.t, want, got, "subnet %s now", subnet.ID)
	}
	s.t.Logf("validators without a node: %d of %d subnets at %d heights", compared, len(subnets), tip+1)
	require.Positive(s.t, compared)
	return tip + 1
}

// atOneHeight calls ask, again if the P-Chain of the service or of the node has grown meanwhile. It returns the height.
func (s *service) atOneHeight(ctx context.Context, node string, ask func()) (height uint64) {
	s.t.Helper()
	own, client := platformvm.NewClient(s.url+"/local"), platformvm.NewClient(node)
	same := func() bool { return pHeight(s.t, ctx, own) == height && pHeight(s.t, ctx, client) == height }
	require.Eventually(s.t, func() bool {
		height = pHeight(s.t, ctx, client)
		if !same() {
			return false
		}
		ask()
		return same()
	}, time.Minute, 100*time.Millisecond, "no height at which the service and the node can be compared")
	return height
}

// TestWithoutNodes signs messages of the C-Chain and of an L1 for their epochs, with nothing but the addresses of peers.
func TestWithoutNodes(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.StartWith(t, localnet.Options{Stakers: localnet.Size, SubnetEVM: true})
	node := network.Node(0).URL
	_, l1ID, height := startL1(t, ctx, network, 0, 1)
	c, l1 := newCChain(t, ctx, node), newEVMChain(t, ctx, node, l1ID.String())
	s := startWithoutNodes(t, ctx, program, network)
	awaitEpochOf(t, ctx, l1, node, l1ID.String(), height)
	awaitEpochOf(t, ctx, c, node, "C", height)
	s.signEpochs(ctx, "no node has an API", c, l1)
	s.compareSets(ctx, node)

	// One after the other: parallel ones would wait behind all other tests, with this network running.
	t.Run("two of five validators lie", func(t *testing.T) { lyingValidators(t, ctx, program, network, c, l1) })
	t.Run("nodes before p2p lie", func(t *testing.T) {
		forgingNodes(t, ctx, program, network, func(urls ...string) []string { return append(urls, "p2p") }, c, l1)
	})
	t.Run("nodes after p2p lie", func(t *testing.T) {
		forgingNodes(t, ctx, program, network, func(urls ...string) []string { return append([]string{"p2p"}, urls...) }, c, l1)
	})
}

// signEpochs signs a message of each chain for its epoch, and requires that the chain accepts it.
func (s *service) signEpochs(ctx context.Context, text string, chains ...*cChain) {
	s.t.Helper()
	for _, from := range chains {
		m, _ := from.message(ctx, from.sendByContract(ctx, []byte(text)))
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "verifyingBlockchainId": m.SourceChainID})
		require.Equal(s.t, http.StatusOK, status, "%s: %s", m.SourceChainID, r.Message)
		valid, content := from.read(ctx, parseSigned(s.t, r.SignedMessage))
		require.True(s.t, valid, "%s does not accept the message", m.SourceChainID)
		require.Equal(s.t, text, string(content))
	}
}

// ledgerWithoutNodes indexes outputs and balances with nothing but the addresses of peers, and compares them with a node's,
// also after the service was killed when it had just downloaded.
func ledgerWithoutNodes(t testing.TB, ctx context.Context, program string, network *localnet.Network, keys []*secp256k1.PrivateKey) {
	t.Helper()
	s := startWithoutNodes(t, ctx, program, network, "--record", "primary")
	for range 3 {
		require.NoError(t, s.process.Process.Kill())
		<-s.exited
		s.start()
	}
	s.node = network.Node(0).URL
	var owners [][]ids.ShortID
	for _, key := range keys {
		owners = append(owners, []ids.ShortID{key.Address()})
	}
	owners = append(owners, []ids.ShortID{keys[1].Address(), keys[2].Address()})
	t.Logf("outputs and balances without a node: %d comparisons", s.requireLedger(ctx, owners, 1, 2))
}
