package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/e2e/localnet"
)

// deliveryReply is what quorate verify --destination --json prints, and the service has in its answers.
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

// delivery returns the command's answer about a message.
func (s deliveryStory) delivery(ctx context.Context, signed *warp.Message, destination string, flags ...string) deliveryReply {
	s.t.Helper()
	args := append([]string{"verify", "--node", s.node, "--destination", destination, "--json"}, flags...)
	out, exit := s.command(ctx, append(args, hex.EncodeToString(signed.Bytes()))...)
	var d deliveryReply
	require.NoError(s.t, json.Unmarshal([]byte(out), &d), "%s", out)
	s.t.Logf("%s", out)
	require.NotNil(s.t, d.Deliverable)
	require.Equal(s.t, d.Code == "DELIVERABLE", *d.Deliverable)
	require.Equal(s.t, d.Code == "DELIVERABLE", exit == 0)
	if exit != 0 {
		require.Equal(s.t, 3, exit)
	}
	return d
}

// requireDelivery returns the command's answer about a message, which must have a code.
func (s deliveryStory) requireDelivery(ctx context.Context, signed *warp.Message, destination, code string, flags ...string) deliveryReply {
	s.t.Helper()
	d := s.delivery(ctx, signed, destination, flags...)
	require.Equal(s.t, code, d.Code, d.Detail)
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
	ctx, cancel := testContext(t, 8*time.Minute)
	defer cancel()
	network := localnet.Start(t)
	node := network.Node(0).URL
	s := deliveryStory{t: t, program: buildService(t), node: node}
	service := startService(t, s.program, node, "--ahead-rounds", "0")
	c, p := newCChain(t, ctx, node), newPChain(t, ctx, node)
	m, _ := c.message(ctx, c.sendByContract(ctx, []byte("to be delivered")))
	requireRead := func(signed *warp.Message, want bool) {
		t.Helper()
		valid, _ := c.read(ctx, signed)
		require.Equal(t, want, valid, "what the precompile says of the message")
	}

	ask := func(signed *warp.Message, destination ids.ID) deliveryReply {
		t.Helper()
		status, r := service.post(ctx, verifyPath, map[string]any{"signedMessage": hexOf(signed.Bytes()), "destinationBlockchainId": destination})
		require.Equal(t, http.StatusOK, status, r.Message)
		return *r.Delivery
	}

	// From here on the C-Chain makes a block only when this test sends a transaction.
	p.nudge()
	for epochHeight(t, ctx, node, "C") < 1 {
		c.await(ctx, c.sendByAccount(ctx, []byte("another block")))
	}
	// Blocks change nothing until the epoch ends. If it ends before all is answered, the answers count for nothing.
	var before uint64
	var forEpoch, forTip *warp.Message
	var current, few, behind deliveryReply
	for {
		var end time.Time
		before, end = epochOf(t, ctx, node, "C")
		p.addPrimaryValidator(ctx)
		forEpoch, forTip = s.sign(ctx, m, before), s.sign(ctx, m, p.height(ctx))
		withFew := s.sign(ctx, m, before, "--quorum", "40")
		current, few, behind = s.delivery(ctx, forEpoch, "c-chain"), s.delivery(ctx, withFew, "c-chain"), s.delivery(ctx, forTip, m.SourceChainID.String())
		asked := ask(forTip, m.SourceChainID)
		for asked.NextEpoch == nil && time.Now().Before(end) { // the service learns of the new height within two seconds
			await(t, ctx, time.Now().Add(100*time.Millisecond))
			asked = ask(forTip, m.SourceChainID)
		}
		status, r := service.post(ctx, signPath, map[string]any{"message": hexOf(m.Bytes()), "verifyingBlockchainId": m.SourceChainID})
		require.Equal(t, http.StatusOK, status, r.Message)
		var accepted []bool
		for _, signed := range []*warp.Message{forEpoch, withFew, parseSigned(t, r.SignedMessage), forTip} {
			valid, _ := c.read(ctx, signed)
			accepted = append(accepted, valid)
		}
		if time.Now().After(end) {
			t.Log("the epoch ended; the answers about the next one count")
			awaitEpochAfter(t, ctx, c, node, "C", end)
			continue
		}
		require.Equal(t, behind.NextEpoch, asked.NextEpoch)
		require.Equal(t, "DELIVERABLE", r.Delivery.Code, r.Delivery.Detail)
		require.Equal(t, []bool{true, false, true, false}, accepted, "what the precompile says of the messages")
		require.Equal(t, end.Unix(), behind.Epoch.EndTime.Unix())
		break
	}
	require.Equal(t, "DELIVERABLE", current.Code, current.Detail)
	require.Equal(t, "PROTOCOL", current.Rules.Source)
	require.Equal(t, uint64(67), current.Rules.QuorumPercentage)
	require.Equal(t, constants.PrimaryNetworkID.String(), current.Validators.SigningSubnetID)
	require.NotNil(t, current.ExpiresAt, "the next epoch has another set")
	require.Equal(t, "QUORUM_TOO_LOW", few.Code, few.Detail)
	require.Equal(t, "EPOCH_BEHIND", behind.Code, behind.Detail)
	require.Equal(t, before, behind.Epoch.PChainHeight)
	require.NotNil(t, behind.NextEpoch)
	require.Equal(t, 1, behind.NextEpoch.Blocks)
	require.Equal(t, behind.Epoch.EndTime, behind.NextEpoch.NotBefore)
	nowhere := ask(forTip, ids.GenerateTestID())
	require.Equal(t, "UNKNOWN", nowhere.Code)
	require.Nil(t, nowhere.Deliverable)

	// The block that ends the epoch still belongs to it. The next one accepts the message.
	await(t, ctx, behind.NextEpoch.NotBefore)
	s.requireDelivery(ctx, forTip, "c-chain", "EPOCH_BEHIND")
	requireRead(forTip, false)
	after := s.requireDelivery(ctx, forTip, "c-chain", "DELIVERABLE")
	require.Equal(t, behind.Epoch.Number+1, after.Epoch.Number)
	require.GreaterOrEqual(t, after.Epoch.PChainHeight, behind.NextEpoch.PChainHeight)
	require.Eventually(t, func() bool { return ask(forTip, m.SourceChainID).Code == "DELIVERABLE" }, 10*time.Second, 100*time.Millisecond, "the service caches epochs for 0.5 s")
	requireRead(forTip, true)

	// Now it is the other way round.
	s.requireDelivery(ctx, forEpoch, "c-chain", "SET_CHANGED", "--height", strconv.FormatUint(before, 10))
	s.requireDelivery(ctx, forEpoch, "c-chain", "SIGNATURE_INVALID")
	requireRead(forEpoch, false)

	// The P-Chain does not accept this payload from any signer.
	s.requireDelivery(ctx, forTip, "p-chain", "PAYLOAD_NOT_SUPPORTED")
}

// l1Genesis is the genesis of a subnet-evm chain with a Warp configuration.
func l1Genesis(chainID int, warpConfig string) []byte {
	return fmt.Appendf(nil, `{"config":{"chainId":%d,"feeConfig":{"gasLimit":20000000,"minBaseFee":1000000000,"targetGas":100000000,
		"baseFeeChangeDenominator":48,"minBlockGasCost":0,"maxBlockGasCost":10000000,"targetBlockRate":2,"blockGasCostStep":500000},
		"warpConfig":%s},"alloc":{"8db97C7cEcE249c2b98bDC0226Cc4C2A57BF52FC":{"balance":"0x52B7D2DCC80CD2E4000000"}},
		"timestamp":"0x5FCB13D0","gasLimit":"0x1312D00","difficulty":"0x0"}`, chainID, warpConfig)
}

// TestDeliveryToL1 tells apart messages that chains of an L1 accept and refuse: by their own quorum, against their own
// validators or those of the primary network, at the height of their own epochs. It checks each answer by sending the
// transaction.
func TestDeliveryToL1(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	network := localnet.StartWith(t, localnet.Options{SubnetEVM: true})
	node := network.Node(0).URL
	s := deliveryStory{t: t, program: buildService(t), node: node}
	p := newPChain(t, ctx, node)

	subnet := p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	createChain := func(chainID int, warpConfig string) ids.ID {
		return p.accepted(p.wallet.IssueCreateChainTx(subnet, l1Genesis(chainID, warpConfig), constants.SubnetEVMID, nil, "chain"))
	}
	own := createChain(990, `{"blockTimestamp":1607144400,"quorumNumerator":80}`)
	strict := createChain(991, `{"blockTimestamp":1607144400,"requirePrimaryNetworkSigners":true}`)
	// Disabling another validator, which has no node, changes the set.
	conversion, leaving := p.convertTo(ctx, network, subnet, own)
	network.Track(subnet)
	c := newCChain(t, ctx, node)
	m, _ := c.message(ctx, c.sendByContract(ctx, []byte("to be delivered")))
	requireRead := func(on *cChain, signed *warp.Message, want bool) {
		t.Helper()
		valid, _ := on.read(ctx, signed)
		require.Equal(t, want, valid, "what the precompile says of the message")
	}
	bySubnet := []string{"--signing-subnet", subnet.String(), "--quorum", "80"}

	// A chain without blocks has no epoch that its L1 was there in. The conversion is signed nevertheless.
	converted, code := s.command(ctx, "sign", "--node", node, "--allow-private-ips", "--tx", conversion.String())
	require.Zero(t, code, "%s", converted)
	require.Equal(t, ids.Empty, parseSigned(t, strings.TrimSpace(converted)).SourceChainID)
	tip := p.height(ctx)
	d := s.requireDelivery(ctx, s.sign(ctx, m, tip, bySubnet...), own.String(), "EPOCH_BEHIND")
	require.Zero(t, d.Epoch.PChainHeight)
	require.Equal(t, 1, d.NextEpoch.Blocks)
	s.requireDelivery(ctx, s.sign(ctx, m, tip, "--quorum", "100"), strict.String(), "EPOCH_BEHIND")
	onOwn, onStrict := newEVMChain(t, ctx, node, own.String()), newEVMChain(t, ctx, node, strict.String())
	forOwn := s.sign(ctx, m, epochHeight(t, ctx, node, own.String()), bySubnet...)
	d = s.requireDelivery(ctx, forOwn, own.String(), "DELIVERABLE")
	require.Equal(t, "CHAIN_CONFIG", d.Rules.Source)
	require.Equal(t, uint64(80), d.Rules.QuorumPercentage)
	require.Equal(t, subnet.String(), d.Validators.SigningSubnetID)
	requireRead(onOwn, forOwn, true)

	// The default quorum is too low there.
	before := epochHeight(t, ctx, node, own.String())
	few := s.sign(ctx, m, before, "--signing-subnet", subnet.String())
	s.requireDelivery(ctx, few, own.String(), "QUORUM_TOO_LOW")
	requireRead(onOwn, few, false)

	// The primary network signs a message of the C-Chain by default. Only the strict chain wants that.
	byPrimary := s.sign(ctx, m, tip, "--quorum", "100")
	d = s.requireDelivery(ctx, byPrimary, own.String(), "WRONG_SIGNING_SUBNET")
	require.Contains(t, d.Remedy, "signingSubnetId "+subnet.String())
	requireRead(onOwn, byPrimary, false)
	d = s.requireDelivery(ctx, byPrimary, strict.String(), "DELIVERABLE")
	require.True(t, d.Rules.RequirePrimaryNetworkSigners)
	requireRead(onStrict, byPrimary, true)
	s.requireDelivery(ctx, forOwn, strict.String(), "WRONG_SIGNING_SUBNET")
	requireRead(onStrict, forOwn, false)

	// The L1's set changes, and its chain stays in its epoch until it makes a block. Most of the epoch must be left.
	if _, end := epochOf(t, ctx, node, own.String()); time.Until(end) < 20*time.Second {
		await(t, ctx, end)
		awaitEpochAfter(t, ctx, onOwn, node, own.String(), end)
	}
	before = epochHeight(t, ctx, node, own.String())
	p.accepted(p.wallet.IssueDisableL1ValidatorTx(leaving))
	forTip := s.sign(ctx, m, p.height(ctx), bySubnet...)
	d = s.requireDelivery(ctx, forTip, own.String(), "EPOCH_BEHIND")
	require.Equal(t, before, d.Epoch.PChainHeight)
	requireRead(onOwn, forTip, false)
	await(t, ctx, d.NextEpoch.NotBefore)
	s.requireDelivery(ctx, forTip, own.String(), "EPOCH_BEHIND")
	requireRead(onOwn, forTip, false)
	rpc := node + "/ext/bc/" + own.String() + "/rpc"
	out, code := s.command(ctx, "verify", "--node", node, "--destination-rpc", rpc, hexOf(forTip.Bytes()))
	require.Zero(t, code, "%s", out)
	t.Logf("%s", out)
	requireRead(onOwn, forTip, true)
	s.requireDelivery(ctx, forOwn, own.String(), "SET_CHANGED", "--height", strconv.FormatUint(before, 10))
	requireRead(onOwn, forOwn, false)
}

// convertTo converts a subnet to an L1 with a manager on one of its chains. Its validators are the nodes of the network and
// a validator without a node, whose key comes before all others. convertTo returns the transaction's ID and the validation ID of
// that validator.
func (p *pChain) convertTo(ctx context.Context, network *localnet.Network, subnet, manager ids.ID) (conversion, validation ids.ID) {
	p.t.Helper()
	var first []byte
	var all []*txs.ConvertSubnetToL1Validator
	add := func(nodeID ids.NodeID, weight uint64, proof *signer.ProofOfPossession) {
		all = append(all, &txs.ConvertSubnetToL1Validator{
			NodeID: nodeID.Bytes(), Weight: weight, Balance: units.Avax, Signer: *proof,
			DeactivationOwner:     message.PChainOwner{Threshold: 1, Addresses: p.owner.Addrs},
			RemainingBalanceOwner: message.PChainOwner{Threshold: 1, Addresses: p.owner.Addrs},
		})
	}
	for i := range localnet.Size {
		nodeID, proof, err := info.NewClient(network.Node(i).URL).GetNodeID(ctx)
		require.NoError(p.t, err)
		require.NoError(p.t, proof.Verify())
		if key := bls.PublicKeyToUncompressedBytes(proof.Key()); first == nil || bytes.Compare(key, first) < 0 {
			first = key
		}
		add(nodeID, 100, proof)
	}
	withoutNode := newIdentity(p.t)
	for bytes.Compare(bls.PublicKeyToUncompressedBytes(withoutNode.key), first) > 0 {
		withoutNode = newIdentity(p.t)
	}
	add(withoutNode.nodeID, 10, withoutNode.proof)
	// The wallet sorts the validators in place.
	conversion = p.accepted(p.wallet.IssueConvertSubnetToL1Tx(subnet, manager, []byte{1}, all))
	index := slices.IndexFunc(all, func(v *txs.ConvertSubnetToL1Validator) bool { return bytes.Equal(v.NodeID, withoutNode.nodeID.Bytes()) })
	return conversion, subnet.Append(uint32(index))
}
