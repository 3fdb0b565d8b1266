package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"

	"quorate/e2e/localnet"
)

// peersConfig is a configuration that names nodes of the peer-to-peer network, the genesis, and no API of any node.
func peersConfig(t testing.TB, ctx context.Context, network *localnet.Network, nodes int) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "networks:\n  local:\n    genesis_file: %s\n    manual_peers:\n", network.GenesisFile())
	for i := range nodes {
		nodeID, _, err := info.NewClient(network.Node(i).URL).GetNodeID(ctx)
		require.NoError(t, err)
		fmt.Fprintf(&text, "      - {node_id: %s, address: %q}\n", nodeID, network.StakingAddress(i))
	}
	file := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}

// TestWithoutNodes signs with nothing but the addresses of some peers: no API of a node is given to the service. Its
// validator sets are a node's at every height.
func TestWithoutNodes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.StartWith(t, localnet.Options{Stakers: localnet.Size, SubnetEVM: true})
	node := network.Node(0).URL
	subnet, l1ID, height := startL1(t, ctx, network, 0, 1)
	c, l1 := newCChain(t, ctx, node), newEVMChain(t, ctx, node, l1ID.String())
	began := time.Now()
	s := startService(t, program, "p2p", "--record", "l1", "--config", peersConfig(t, ctx, network, localnet.Size))
	s.networkID = localnet.CustomID
	t.Logf("ready after %s", time.Since(began))

	awaitEpochOf(t, ctx, l1, node, l1ID.String(), height)
	awaitEpochOf(t, ctx, c, node, "C", height)
	for name, from := range map[string]*cChain{"C-Chain": c, "L1": l1} {
		m, _ := from.message(ctx, from.sendByContract(ctx, []byte("nobody has an API")))
		status, r := s.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes()), "verifyingBlockchainId": m.SourceChainID})
		require.Equal(t, http.StatusOK, status, "%s: %s", name, r.Message)
		valid, content := from.read(ctx, parseSigned(t, r.SignedMessage))
		require.True(t, valid, "%s does not accept the message", name)
		require.Equal(t, "nobody has an API", string(content))
	}

	// What the service says of validators is what a node says.
	client, own := platformvm.NewClient(node), platformvm.NewClient(s.url+"/local")
	tip, err := client.GetHeight(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		height, err := own.GetHeight(ctx)
		return err == nil && height >= tip
	}, time.Minute, 100*time.Millisecond)
	compared := 0
	for h := uint64(0); h <= tip; h++ {
		for _, id := range []ids.ID{constants.PrimaryNetworkID, subnet} {
			want, err := client.GetValidatorsAt(ctx, id, platformapi.Height(h))
			require.NoError(t, err)
			got, err := own.GetValidatorsAt(ctx, id, platformapi.Height(h))
			require.NoError(t, err)
			require.Equal(t, want, got, "subnet %s at height %d", id, h)
			compared += len(want)
		}
	}
	t.Logf("%d heights, %d validators compared", tip+1, compared)
}
