package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/evm/predicate"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"

	"quorate/e2e/localnet"
)

// icmPair has two chains with Teleporter.
type icmPair struct {
	t           testing.TB
	c, l1       *icmStory
	both, onlyC *service // index both chains, and only the C-Chain
	subnet      ids.ID   // of the L1, whose validators sign for both chains
	relayer     common.Address
}

// relay has the service sign the message that a transaction sent, and delivers it.
func (p *icmPair) relay(ctx context.Context, sent *types.Receipt, from, to *icmStory) *types.Receipt {
	p.t.Helper()
	m, _ := from.message(ctx, sent.TxHash)
	status, r := p.both.post(ctx, signPath, map[string]any{"message": "0x" + hex.EncodeToString(m.Bytes()), "signingSubnetId": p.subnet.String()})
	require.Equal(p.t, http.StatusOK, status, "%s %+v", r.Message, r.Outcomes)
	signed := parseSigned(p.t, r.SignedMessage)
	return to.call(ctx, types.AccessList{{Address: warpPrecompile, StorageKeys: predicate.New(signed.Bytes())}},
		"receiveCrossChainMessage", uint32(0), p.relayer)
}

// TestICMBetweenChains sends messages through the real Teleporter contract from the C-Chain to an L1 and back, with a fee.
// A service that indexes both chains knows all steps, and one that indexes only the C-Chain those that happened there.
func TestICMBetweenChains(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	contract := teleporterContract(t)
	program := buildService(t)
	network := localnet.StartWith(t, localnet.Options{Stakers: 3, SubnetEVM: true})
	node := network.Node(0).URL
	subnet, l1ID, height := startL1(t, ctx, network, 0, 1)
	cID, err := info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(config, []byte("networks:\n  local:\n    evm:\n      - rpc: "+node+"/ext/bc/"+l1ID.String()+"/rpc\n"), 0o600))
	p := &icmPair{
		t: t, subnet: subnet, relayer: common.HexToAddress("0x77"),
		both: startService(t, program, node, "--ahead-rounds", "0", "--config", config), onlyC: startService(t, program, node, "--ahead-rounds", "0"),
	}
	p.c = &icmStory{cChain: newCChain(t, ctx, node), t: t, s: p.both, contract: contract, id: cID}
	p.l1 = &icmStory{cChain: newEVMChain(t, ctx, node, l1ID.String()), t: t, s: p.both, contract: contract, id: l1ID}
	for _, s := range []*icmStory{p.c, p.l1} {
		deployTeleporter(t, ctx, s.cChain, contract)
	}
	awaitEpochOf(t, ctx, p.l1.cChain, node, l1ID.String(), height)
	awaitEpochOf(t, ctx, p.c.cChain, node, "C", height)
	recipient := p.l1.await(ctx, p.l1.send(ctx, nil, common.FromHex("0x6001600c60003960016000f300"), nil)).ContractAddress // accepts every call

	// A message with a fee, which is raised before the delivery.
	coin := readArtefact(t, coinArtefact)
	coinAt := p.c.await(ctx, p.c.send(ctx, nil, coin.code, nil)).ContractAddress
	approve, err := coin.abi.Pack("approve", teleporterAt, big.NewInt(150))
	require.NoError(t, err)
	p.c.await(ctx, p.c.send(ctx, &coinAt, approve, nil))
	sent := p.c.call(ctx, nil, "sendCrossChainMessage", icmInput{l1ID, recipient, icmFee{coinAt, big.NewInt(100)}, big.NewInt(100_000), nil, []byte("there")})
	there := p.c.event(sent, "SendCrossChainMessage").Topics[1]
	p.c.call(ctx, nil, "addFeeAmount", there, coinAt, big.NewInt(50))
	delivered := p.relay(ctx, sent, p.c, p.l1)

	// The answer carries the receipt.
	sentBack := p.l1.call(ctx, nil, "sendCrossChainMessage", icmInput{cID, recipient, icmFee{Amount: new(big.Int)}, big.NewInt(100_000), nil, []byte("back")})
	back := p.l1.event(sentBack, "SendCrossChainMessage").Topics[1]
	deliveredBack := p.relay(ctx, sentBack, p.l1, p.c)

	for _, s := range []*service{p.both, p.onlyC} {
		s.awaitChain(ctx, evmPath, deliveredBack.BlockNumber.Uint64())
	}
	p.both.awaitChain(ctx, "/v1/chains/99123/", sentBack.BlockNumber.Uint64())
	p.c.s = p.both
	m := p.c.read(ctx, deliveredBack, there)
	p.c.requireSteps(m, "SENT SIGNED DELIVERED EXECUTED RECEIPT_RETURNED", sent, delivered, delivered, deliveredBack)
	require.Equal(t, "delivered", m.Status)
	require.True(t, m.MessageExecuted)
	require.True(t, m.ReceiptDelivered)
	require.Equal(t, []string{cID.String(), l1ID.String(), "43112", "99123"}, []string{m.SourceBlockchainID, m.DestinationBlockchainID, m.SourceEvmChainID, m.DestinationEvmChainID})
	require.Equal(t, icmReward{coinAt.Hex(), "Test Coin", "COIN", 6, "150"}, m.RewardDetails)
	m = p.c.read(ctx, deliveredBack, back)
	p.c.requireSteps(m, "SENT SIGNED DELIVERED EXECUTION_FAILED", sentBack, deliveredBack, deliveredBack)
	require.Equal(t, []string{l1ID.String(), cID.String()}, []string{m.SourceBlockchainID, m.DestinationBlockchainID})
	require.Len(t, m.Receipts, 1)
	require.Equal(t, fmt.Sprint(1), m.Receipts[0].ReceivedMessageNonce)
	require.Equal(t, p.relayer.Hex(), m.Receipts[0].RelayerRewardAddress)

	p.c.s = p.onlyC
	m = p.c.read(ctx, deliveredBack, there)
	p.c.requireSteps(m, "SENT RECEIPT_RETURNED", sent, deliveredBack)
	require.True(t, m.ReceiptDelivered)
	m = p.c.read(ctx, deliveredBack, back)
	p.c.requireSteps(m, "DELIVERED EXECUTION_FAILED", deliveredBack, deliveredBack)
	require.Equal(t, "delivered_source_not_indexed", m.Status)
}
