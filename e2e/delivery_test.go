package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/proposervm"

	"quorate/e2e/localnet"
)

// deliveryReply is what quorate verify --destination --json prints.
type deliveryReply struct {
	Deliverable *bool
	Code        string
	Detail      string
	Remedy      string
	Epoch       struct {
		Number       uint64 `json:",string"`
		PChainHeight uint64 `json:",string"`
		EndTime      time.Time
	}
	Rules struct {
		QuorumPercentage             uint64
		RequirePrimaryNetworkSigners bool
		Source                       string
	}
	Validators struct {
		SigningSubnetID string
		PChainHeight    uint64 `json:",string"`
	}
	NextEpoch *struct {
		PChainHeight uint64 `json:",string"`
		NotBefore    time.Time
		Blocks       int
	}
	ExpiresAt *time.Time
}

// deliveryStory runs the command against the nodes of a network.
type deliveryStory struct {
	t             testing.TB
	program, node string
}

// command returns what the command printed, and its exit code.
func (s deliveryStory) command(ctx context.Context, args ...string) (string, int) {
	s.t.Helper()
	out, err := exec.CommandContext(ctx, s.program, args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		s.t.Logf("quorate %s: exit code %d: %s", args[0], failed.ExitCode(), failed.Stderr)
		return string(out), failed.ExitCode()
	}
	require.NoError(s.t, err)
	return string(out), 0
}

// sign signs a message at a P-Chain height.
func (s deliveryStory) sign(ctx context.Context, m *warp.UnsignedMessage, height uint64, flags ...string) *warp.Message {
	s.t.Helper()
	args := append([]string{"sign", "--node", s.node, "--allow-private-ips", "--height", strconv.FormatUint(height, 10)}, flags...)
	out, code := s.command(ctx, append(args, hex.EncodeToString(m.Bytes()))...)
	require.Zero(s.t, code)
	return parseSigned(s.t, strings.TrimSpace(out))
}

// requireDelivery returns the command's answer about a message, which must have a code.
func (s deliveryStory) requireDelivery(ctx context.Context, signed *warp.Message, destination, code string, flags ...string) deliveryReply {
	s.t.Helper()
	args := append([]string{"verify", "--node", s.node, "--destination", destination, "--json"}, flags...)
	out, exit := s.command(ctx, append(args, hex.EncodeToString(signed.Bytes()))...)
	var d deliveryReply
	require.NoError(s.t, json.Unmarshal([]byte(out), &d), "%s", out)
	s.t.Logf("%s", out)
	require.Equal(s.t, code, d.Code, "%s", out)
	require.NotNil(s.t, d.Deliverable)
	require.Equal(s.t, code == "DELIVERABLE", *d.Deliverable)
	require.Equal(s.t, code == "DELIVERABLE", exit == 0)
	if exit != 0 {
		require.Equal(s.t, 3, exit)
	}
	return d
}

// await waits until a time has come on the nodes' clock, which is this machine's.
func await(t testing.TB, ctx context.Context, until time.Time) {
	t.Helper()
	select {
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	case <-time.After(time.Until(until)):
	}
}

// TestDeliveryToCChain tells apart messages that the C-Chain accepts and refuses, and checks each answer by sending the
// transaction.
func TestDeliveryToCChain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	network := localnet.Start(t)
	node := network.Node(0).URL
	s := deliveryStory{t: t, program: buildService(t), node: node}
	c, p := newCChain(t, ctx, node), newPChain(t, ctx, node)
	m, _ := c.message(ctx, c.sendByContract(ctx, []byte("to be delivered")))
	requireRead := func(signed *warp.Message, want bool) {
		t.Helper()
		valid, _ := c.read(ctx, signed)
		require.Equal(t, want, valid, "what the precompile says of the message")
	}

	// From here on the C-Chain makes a block only when this test sends a transaction.
	p.nudge()
	for epochHeight(t, ctx, node, "C") < 1 {
		c.await(ctx, c.sendByAccount(ctx, []byte("another block")))
	}
	before := epochHeight(t, ctx, node, "C")
	p.addPrimaryValidator(ctx)
	tip := p.height(ctx)
	forEpoch, forTip := s.sign(ctx, m, before), s.sign(ctx, m, tip)

	d := s.requireDelivery(ctx, forEpoch, "c-chain", "DELIVERABLE")
	require.Equal(t, "PROTOCOL", d.Rules.Source)
	require.Equal(t, uint64(67), d.Rules.QuorumPercentage)
	require.Equal(t, constants.PrimaryNetworkID.String(), d.Validators.SigningSubnetID)
	require.NotNil(t, d.ExpiresAt, "the next epoch has another set")
	requireRead(forEpoch, true)

	s.requireDelivery(ctx, s.sign(ctx, m, before, "--quorum", "40"), "c-chain", "QUORUM_TOO_LOW")
	requireRead(s.sign(ctx, m, before, "--quorum", "40"), false)

	d = s.requireDelivery(ctx, forTip, m.SourceChainID.String(), "EPOCH_BEHIND")
	require.Equal(t, before, d.Epoch.PChainHeight)
	require.NotNil(t, d.NextEpoch)
	require.Equal(t, 1, d.NextEpoch.Blocks)
	require.Equal(t, d.Epoch.EndTime, d.NextEpoch.NotBefore)
	requireRead(forTip, false)

	// The block that ends the epoch still belongs to it. The next one accepts the message.
	await(t, ctx, d.NextEpoch.NotBefore)
	s.requireDelivery(ctx, forTip, "c-chain", "EPOCH_BEHIND")
	requireRead(forTip, false)
	after := s.requireDelivery(ctx, forTip, "c-chain", "DELIVERABLE")
	require.Equal(t, d.Epoch.Number+1, after.Epoch.Number)
	require.GreaterOrEqual(t, after.Epoch.PChainHeight, d.NextEpoch.PChainHeight)
	requireRead(forTip, true)

	// Now it is the other way round.
	s.requireDelivery(ctx, forEpoch, "c-chain", "SET_CHANGED", "--height", strconv.FormatUint(before, 10))
	s.requireDelivery(ctx, forEpoch, "c-chain", "SIGNATURE_INVALID")
	requireRead(forEpoch, false)

	// The P-Chain accepts no such payload, whoever signed it.
	s.requireDelivery(ctx, forTip, "p-chain", "PAYLOAD_NOT_SUPPORTED")

	epoch, err := proposervm.NewJSONRPCClient(node, "C").GetCurrentEpoch(ctx)
	require.NoError(t, err)
	require.Equal(t, after.Epoch.Number, epoch.Number)
}
