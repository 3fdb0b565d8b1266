package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/libevm/common"

	"quorate/e2e/localnet"
)

// startL1 makes a subnet-evm L1 that some nodes of the network validate, runs it and returns its IDs, and the P-Chain
// height from which its validators are known.
func startL1(t testing.TB, ctx context.Context, network *localnet.Network, nodes ...int) (subnet, chain ids.ID, height uint64) {
	t.Helper()
	p := newPChain(t, ctx, network.Node(0).URL)
	genesis := l1Genesis(99123, `{"blockTimestamp":1607144400,"quorumNumerator":67}`)
	subnet = p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	chain = p.accepted(p.wallet.IssueCreateChainTx(subnet, genesis, constants.SubnetEVMID, nil, "an L1"))
	var validators []*txs.ConvertSubnetToL1Validator
	for _, i := range nodes {
		nodeID, proof, err := info.NewClient(network.Node(i).URL).GetNodeID(ctx)
		require.NoError(t, err)
		validators = append(validators, &txs.ConvertSubnetToL1Validator{NodeID: nodeID.Bytes(), Weight: 100, Balance: units.Avax, Signer: *proof})
	}
	p.accepted(p.wallet.IssueConvertSubnetToL1Tx(subnet, chain, nil, validators))
	height = p.height(ctx)
	network.Track(subnet)
	return subnet, chain, height
}

// awaitEpochOf makes blocks on c until its epoch has reached a P-Chain height.
func awaitEpochOf(t testing.TB, ctx context.Context, c *cChain, node, chain string, height uint64) {
	t.Helper()
	for epochHeight(t, ctx, node, chain) < height {
		c.await(ctx, c.send(ctx, &c.account, nil, nil))
		select {
		case <-ctx.Done():
			t.Fatalf("the epoch of chain %s does not reach height %d", chain, height)
		case <-time.After(time.Second):
		}
	}
}

// delivered returns what the contract read from the message that a transaction carried.
func (c *cChain) delivered(ctx context.Context, hash common.Hash) (valid bool, source ids.ID, sender common.Address, content []byte) {
	c.t.Helper()
	receipt := c.await(ctx, hash)
	require.Len(c.t, receipt.Logs, 1)
	values, err := c.abi.Events["Verified"].Inputs.Unpack(receipt.Logs[0].Data)
	require.NoError(c.t, err)
	return values[0].(bool), values[1].([32]byte), values[2].(common.Address), values[3].([]byte)
}

// TestRelayBetweenChains relays messages between the C-Chain and a subnet-evm L1 with the example program of package
// client, which signs them through the service.
func TestRelayBetweenChains(t *testing.T) {
	t.Parallel()
	relay := filepath.Join(t.TempDir(), "relay")
	build := exec.Command("go", "build", "-o", relay, "./client/example/relay")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "building the example: %s", out)
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	start := time.Now()
	program := buildService(t)

	network := localnet.StartWith(t, localnet.Options{Stakers: 3, SubnetEVM: true})
	node := network.Node(0).URL
	subnet, l1ID, height := startL1(t, ctx, network, 0, 1)
	t.Logf("L1 up after %s", time.Since(start))
	cID, err := info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	c, l1 := newCChain(t, ctx, node), newEVMChain(t, ctx, node, l1ID.String())
	l1RPC := node + "/ext/bc/" + l1ID.String() + "/rpc"
	config := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(config, []byte("networks:\n  local:\n    evm:\n      - rpc: "+l1RPC+"\n"), 0o600))
	s := startService(t, program, node, "--record", "l1", "--config", config)
	// Until its epoch has the L1's validators, no chain accepts a message that they signed.
	awaitEpochOf(t, ctx, l1, node, l1ID.String(), height)
	awaitEpochOf(t, ctx, c, node, "C", height)
	t.Logf("epochs reached after %s", time.Since(start))

	read, err := c.abi.Pack("read", uint32(0))
	require.NoError(t, err)
	relayed := func(source string, tx common.Hash, destination ids.ID, to *cChain, flags ...string) (messageID string, delivery common.Hash) {
		t.Helper()
		began := time.Now()
		command := exec.CommandContext(ctx, relay, append([]string{
			"--server", s.url, "--network", "local", "--source", source, "--tx", tx.Hex(),
			"--destination", destination.String(), "--rpc", node + "/ext/bc/" + destination.String() + "/rpc", "--to", to.messenger.Hex(), "--data", "0x" + hex.EncodeToString(read),
		}, flags...)...)
		command.Env = append(os.Environ(), "RELAY_KEY="+ewoq)
		out, err := command.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("relay: %s", failed.Stderr)
		}
		require.NoError(t, err)
		to.nonce++
		messageID, hash, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
		require.True(t, ok, "%s", out)
		t.Logf("relayed in %s", time.Since(began))
		return messageID, common.HexToHash(hash)
	}
	requireDelivered := func(to *cChain, hash common.Hash, source ids.ID, sender common.Address, content string) {
		t.Helper()
		valid, from, by, got := to.delivered(ctx, hash)
		require.True(t, valid, "the precompile does not accept the message")
		require.Equal(t, source, from)
		require.Equal(t, sender, by)
		require.Equal(t, content, string(got))
	}

	t.Run("from the C-Chain to the L1, signed by the L1", func(t *testing.T) {
		tx := c.sendByContract(ctx, []byte("to the L1"))
		m, _ := c.message(ctx, tx)
		id, hash := relayed("c-chain", tx, l1ID, l1, "--signing-subnet", subnet.String())
		require.Equal(t, m.ID().String(), id)
		requireDelivered(l1, hash, cID, c.messenger, "to the L1")
	})
	t.Run("signed by the primary network, the L1 refuses it", func(t *testing.T) {
		tx := c.sendByContract(ctx, []byte("by others"))
		c.await(ctx, tx)
		_, hash := relayed("c-chain", tx, l1ID, l1)
		valid, _, _, _ := l1.delivered(ctx, hash)
		require.False(t, valid, "the L1 accepts signatures of the primary network")
	})
	t.Run("from the L1 to the C-Chain", func(t *testing.T) {
		tx := l1.sendByContract(ctx, []byte("to the C-Chain"))
		l1.await(ctx, tx)
		_, hash := relayed(l1ID.String(), tx, cID, c)
		requireDelivered(c, hash, l1ID, l1.messenger, "to the C-Chain")
	})
	t.Logf("all after %s", time.Since(start))
}
