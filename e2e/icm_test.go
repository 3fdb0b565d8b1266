package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/evm/predicate"
	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"

	"quorate/e2e/localnet"
)

// teleporterAt is the address of Teleporter on all chains.
var teleporterAt = common.HexToAddress("0x253b2784c75e510dD0fF1da844684a1aC0aa5fcf")

// teleporterContract returns the contract that is deployed on public chains, from the Go module that has its bindings.
func teleporterContract(t testing.TB) artefact {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "github.com/ava-labs/teleporter@v1.0.0").Output()
	require.NoError(t, err)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	bindings, err := os.ReadFile(filepath.Join(module.Dir, "abi-bindings/go/Teleporter/TeleporterMessenger/TeleporterMessenger.go"))
	require.NoError(t, err)
	literal := func(name string) string {
		found := regexp.MustCompile(`\b` + name + `: +(".*"),`).FindSubmatch(bindings)
		require.NotNil(t, found, name)
		text, err := strconv.Unquote(string(found[1]))
		require.NoError(t, err)
		return text
	}
	parsed, err := abi.JSON(strings.NewReader(literal("ABI")))
	require.NoError(t, err)
	return artefact{abi: parsed, code: common.FromHex(literal("Bin"))}
}

// deployTeleporter deploys the contract as on public chains: by a transaction without a sender's key.
func deployTeleporter(t testing.TB, ctx context.Context, c *cChain, a artefact) {
	t.Helper()
	half := new(big.Int).SetBytes(common.FromHex("0x" + strings.Repeat("33", 32)))
	tx := types.NewTx(&types.LegacyTx{Gas: 4_000_000, GasPrice: big.NewInt(2500e9), Value: new(big.Int), Data: a.code, V: big.NewInt(27), R: half, S: half})
	sender, err := types.HomesteadSigner{}.Sender(tx)
	require.NoError(t, err)
	require.Equal(t, teleporterAt, crypto.CreateAddress(sender, 0), "it is the contract of public chains")
	c.await(ctx, c.issue(ctx, &types.LegacyTx{Nonce: c.nonce, GasPrice: c.price(ctx), Gas: 21_000, To: &sender, Value: tx.Cost()}))
	require.NoError(t, c.client.SendTransaction(ctx, tx))
	require.Equal(t, teleporterAt, c.await(ctx, tx.Hash()).ContractAddress)
}

type icmFee struct {
	FeeTokenAddress common.Address
	Amount          *big.Int
}

type icmInput struct {
	DestinationBlockchainID [32]byte
	DestinationAddress      common.Address
	FeeInfo                 icmFee
	RequiredGasLimit        *big.Int
	AllowedRelayerAddresses []common.Address
	Message                 []byte
}

type icmReply struct {
	MessageID, Status, From, To, Data           string
	SourceBlockchainID, DestinationBlockchainID string
	SourceEvmChainID, DestinationEvmChainID     string
	MessageExecuted, ReceiptDelivered           bool
	SourceTransaction, DestinationTransaction   *struct{ TxHash, GasSpent, DelivererAddress, RewardRedeemer string }
	Receipts                                    []struct{ ReceivedMessageNonce, RelayerRewardAddress string }
	Lifecycle                                   []struct{ Step, TxHash, BlockNumber string }
	RewardDetails                               icmReward
}

type icmReward struct {
	Address, Name, Symbol string
	Decimals              int
	Value                 string
}

// icmStory has a service that indexes a chain with Teleporter.
type icmStory struct {
	*cChain
	t        testing.TB
	s        *service
	contract artefact
	id       ids.ID
}

// call calls Teleporter.
func (s *icmStory) call(ctx context.Context, access types.AccessList, method string, arguments ...any) *types.Receipt {
	s.t.Helper()
	data, err := s.contract.abi.Pack(method, arguments...)
	require.NoError(s.t, err)
	return s.await(ctx, s.send(ctx, &teleporterAt, data, access))
}

// sendMessage sends a message to the chain itself.
func (s *icmStory) sendMessage(ctx context.Context, to common.Address, content string) (receipt *types.Receipt, messageID common.Hash) {
	s.t.Helper()
	receipt = s.call(ctx, nil, "sendCrossChainMessage", icmInput{s.id, to, icmFee{Amount: new(big.Int)}, big.NewInt(100_000), nil, []byte(content)})
	return receipt, s.event(receipt, "SendCrossChainMessage").Topics[1]
}

// event returns an event of Teleporter.
func (s *icmStory) event(receipt *types.Receipt, name string) *types.Log {
	s.t.Helper()
	for _, l := range receipt.Logs {
		if l.Address == teleporterAt && l.Topics[0] == s.contract.abi.Events[name].ID {
			return l
		}
	}
	s.t.Fatalf("transaction %s has no event %s", receipt.TxHash, name)
	return nil
}

// deliver has a message signed and delivers it.
func (s *icmStory) deliver(ctx context.Context, sent *types.Receipt) *types.Receipt {
	s.t.Helper()
	m, _ := s.message(ctx, sent.TxHash)
	signed := s.s.sign(ctx, m, 67)
	return s.call(ctx, types.AccessList{{Address: warpPrecompile, StorageKeys: predicate.New(signed.Bytes())}},
		"receiveCrossChainMessage", uint32(0), common.HexToAddress("0x77"))
}

// read returns a message once the index has the block of a transaction.
func (s *icmStory) read(ctx context.Context, after *types.Receipt, messageID common.Hash) (m icmReply) {
	s.t.Helper()
	s.s.awaitEVM(ctx, after.BlockNumber.Uint64())
	status, content := s.s.ask(ctx, "/v1/icm/messages/"+messageID.Hex(), nil)
	require.Equal(s.t, http.StatusOK, status, "%s", content)
	require.NoError(s.t, json.Unmarshal(content, &m))
	return m
}

// requireSteps compares the lifecycle of a message with transactions.
func (s *icmStory) requireSteps(m icmReply, steps string, transactions ...*types.Receipt) {
	s.t.Helper()
	var names []string
	for _, step := range m.Lifecycle {
		names = append(names, step.Step)
		if step.Step == "SIGNED" { // by the service, in no transaction
			require.Empty(s.t, step.TxHash)
			continue
		}
		require.NotEmpty(s.t, transactions)
		require.Equal(s.t, transactions[0].TxHash.Hex(), step.TxHash)
		require.Equal(s.t, transactions[0].BlockNumber.String(), step.BlockNumber)
		transactions = transactions[1:]
	}
	require.Empty(s.t, transactions)
	require.Equal(s.t, steps, strings.Join(names, " "))
}

// TestICM sends messages through the real Teleporter contract, from the C-Chain to itself, and delivers them with
// signatures of the service.
func TestICM(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 6*time.Minute)
	defer cancel()
	contract := teleporterContract(t)
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	s := &icmStory{cChain: newCChain(t, ctx, node), t: t, s: startService(t, program, node, "--ahead-rounds", "0"), contract: contract}
	deployTeleporter(t, ctx, s.cChain, contract)
	probe, _ := s.message(ctx, s.sendByAccount(ctx, []byte("tells the blockchain ID")))
	s.id = probe.SourceChainID

	// The recipient is deployed only after the delivery: the first execution fails.
	to := crypto.CreateAddress(s.account, s.nonce+2)
	sent, first := s.sendMessage(ctx, to, "first")
	m := s.read(ctx, sent, first)
	require.Equal(t, "pending", m.Status)
	s.requireSteps(m, "SENT", sent)

	delivered := s.deliver(ctx, sent)
	m = s.read(ctx, delivered, first)
	require.Equal(t, "delivered", m.Status)
	require.False(t, m.MessageExecuted)
	s.requireSteps(m, "SENT SIGNED DELIVERED EXECUTION_FAILED", sent, delivered, delivered)

	deployed := s.await(ctx, s.send(ctx, nil, common.FromHex("0x6001600c60003960016000f300"), nil)) // accepts every call
	require.Equal(t, to, deployed.ContractAddress)
	values, err := contract.abi.Events["MessageExecutionFailed"].Inputs.NonIndexed().Unpack(s.event(delivered, "MessageExecutionFailed").Data)
	require.NoError(t, err)
	retried := s.call(ctx, nil, "retryMessageExecution", s.id, values[0])
	m = s.read(ctx, retried, first)
	require.True(t, m.MessageExecuted)
	s.requireSteps(m, "SENT SIGNED DELIVERED EXECUTION_FAILED EXECUTED", sent, delivered, delivered, retried)

	// The second message carries the receipt of the first one.
	sentSecond, second := s.sendMessage(ctx, to, "second")
	deliveredSecond := s.deliver(ctx, sentSecond)
	m = s.read(ctx, deliveredSecond, second)
	require.Equal(t, "delivered", m.Status)
	require.Len(t, m.Receipts, 1)
	s.requireSteps(m, "SENT SIGNED DELIVERED EXECUTED", sentSecond, deliveredSecond, deliveredSecond)
	m = s.read(ctx, deliveredSecond, first)
	require.True(t, m.ReceiptDelivered)
	s.requireSteps(m, "SENT SIGNED DELIVERED EXECUTION_FAILED EXECUTED RECEIPT_RETURNED", sent, delivered, delivered, retried, deliveredSecond)

	require.Equal(t, first.Hex(), m.MessageID)
	require.Equal(t, []string{s.account.Hex(), to.Hex(), "0x" + common.Bytes2Hex([]byte("first"))}, []string{m.From, m.To, m.Data})
	require.Equal(t, []string{s.id.String(), s.id.String()}, []string{m.SourceBlockchainID, m.DestinationBlockchainID})
	require.Equal(t, []string{"43112", "43112"}, []string{m.SourceEvmChainID, m.DestinationEvmChainID})
	require.Equal(t, []string{sent.TxHash.Hex(), fmt.Sprint(sent.GasUsed)}, []string{m.SourceTransaction.TxHash, m.SourceTransaction.GasSpent})
	d := m.DestinationTransaction
	require.Equal(t, []string{delivered.TxHash.Hex(), fmt.Sprint(delivered.GasUsed), s.account.Hex(), common.HexToAddress("0x77").Hex()},
		[]string{d.TxHash, d.GasSpent, d.DelivererAddress, d.RewardRedeemer})

	var listed []string
	for _, one := range list[icmReply](ctx, s.s, "/v1/icm/messages", "messages", nil, 1) {
		listed = append(listed, one.MessageID)
	}
	require.Equal(t, []string{second.Hex(), first.Hex()}, listed)
	newClients(t, ctx, s.s).require(ctx, []clientCall{
		{"listIcmMessages", map[string]any{}},
		{"listIcmMessagesByAddress", map[string]any{"address": s.account.Hex()}},
		{"getIcmMessage", map[string]any{"messageId": first.Hex()}},
		{"getIcmMessage", map[string]any{"messageId": second.Hex()}},
	})

	var steps []string
	s.s.stream(ctx, "/v1/icm/messages:stream?cursor=oldest&from="+s.account.Hex(), "step", func(data []byte) bool {
		var e struct {
			Step, MessageID, TxHash string
			Message                 icmReply
		}
		require.NoError(t, json.Unmarshal(data, &e))
		require.Equal(t, e.MessageID, e.Message.MessageID)
		steps = append(steps, e.Step+" "+e.MessageID+" "+e.TxHash)
		return len(steps) == 8
	})
	step := func(name string, id common.Hash, of *types.Receipt) string {
		return name + " " + id.Hex() + " " + of.TxHash.Hex()
	}
	require.ElementsMatch(t, []string{
		step("SENT", first, sent), step("DELIVERED", first, delivered), step("EXECUTION_FAILED", first, delivered), step("EXECUTED", first, retried),
		step("SENT", second, sentSecond), step("DELIVERED", second, deliveredSecond), step("EXECUTED", second, deliveredSecond),
		step("RECEIPT_RETURNED", first, deliveredSecond),
	}, steps)
	require.Equal(t, step("SENT", first, sent), steps[0])
}
