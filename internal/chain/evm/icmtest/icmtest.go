// Package icmtest encodes the events of the Teleporter contract with libevm's ABI encoder, for tests.
package icmtest

import (
	"math/big"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// message and fee are the tuples in the published ABI of TeleporterMessenger (ava-labs/icm-contracts), definition its
// events.
const (
	message = `{"name":"message","type":"tuple","components":[{"name":"messageNonce","type":"uint256"},{"name":"originSenderAddress","type":"address"},{"name":"destinationBlockchainID","type":"bytes32"},{"name":"destinationAddress","type":"address"},{"name":"requiredGasLimit","type":"uint256"},{"name":"allowedRelayerAddresses","type":"address[]"},{"name":"receipts","type":"tuple[]","components":[{"name":"receivedMessageNonce","type":"uint256"},{"name":"relayerRewardAddress","type":"address"}]},{"name":"message","type":"bytes"}]}`
	fee     = `{"name":"feeInfo","type":"tuple","components":[{"name":"feeTokenAddress","type":"address"},{"name":"amount","type":"uint256"}]}`
	id      = `{"indexed":true,"name":"messageID","type":"bytes32"}`
	other   = `{"indexed":true,"name":"blockchainID","type":"bytes32"}`

	definition = `[
		{"type":"event","name":"SendCrossChainMessage","inputs":[` + id + `,` + other + `,` + message + `,` + fee + `]},
		{"type":"event","name":"AddFeeAmount","inputs":[` + id + `,` + fee + `]},
		{"type":"event","name":"ReceiptReceived","inputs":[` + id + `,` + other + `,{"indexed":true,"name":"relayerRewardAddress","type":"address"},` + fee + `]},
		{"type":"event","name":"ReceiveCrossChainMessage","inputs":[` + id + `,` + other + `,{"indexed":true,"name":"deliverer","type":"address"},{"name":"rewardRedeemer","type":"address"},` + message + `]},
		{"type":"event","name":"MessageExecutionFailed","inputs":[` + id + `,` + other + `,` + message + `]},
		{"type":"event","name":"MessageExecuted","inputs":[` + id + `,` + other + `]}]`
)

type abiReceipt struct {
	ReceivedMessageNonce *big.Int
	RelayerRewardAddress common.Address
}

type abiMessage struct {
	MessageNonce            *big.Int
	OriginSenderAddress     common.Address
	DestinationBlockchainID [32]byte
	DestinationAddress      common.Address
	RequiredGasLimit        *big.Int
	AllowedRelayerAddresses []common.Address
	Receipts                []abiReceipt
	Message                 []byte
}

type abiFee struct {
	FeeTokenAddress common.Address
	Amount          *big.Int
}

// Encoder encodes events.
type Encoder struct{ abi abi.ABI }

// New returns an Encoder.
func New() (*Encoder, error) {
	a, err := abi.JSON(strings.NewReader(definition))
	return &Encoder{a}, err
}

// Log returns the log of an event, whose Message must be set if the event is sent, delivered or not executed.
// destination is the destination of the message.
func (e *Encoder) Log(event *evm.ICMEvent, destination ids.ID) (evm.Log, error) {
	l := evm.Log{Index: event.LogIndex, Address: evm.Teleporter, Topics: []common.Hash{{}, event.ID, common.Hash(event.Other)}}
	f := abiFee{event.Fee.Token, event.Fee.Amount.ToBig()}
	var name string
	var values []any
	switch event.Kind {
	case evm.ICMSent:
		name, values = "SendCrossChainMessage", []any{encoded(event.Message, destination), f}
	case evm.ICMFeeAdded:
		name, values, l.Topics = "AddFeeAmount", []any{f}, l.Topics[:2]
	case evm.ICMReceiptReturned:
		name, values, l.Topics = "ReceiptReceived", []any{f}, append(l.Topics, common.BytesToHash(event.RewardRedeemer[:]))
	case evm.ICMDelivered:
		name, values = "ReceiveCrossChainMessage", []any{event.RewardRedeemer, encoded(event.Message, destination)}
		l.Topics = append(l.Topics, common.BytesToHash(event.Deliverer[:]))
	case evm.ICMExecutionFailed:
		name, values = "MessageExecutionFailed", []any{encoded(event.Message, destination)}
	case evm.ICMExecuted:
		name = "MessageExecuted"
	}
	l.Topics[0] = e.abi.Events[name].ID
	var err error
	l.Data, err = e.abi.Events[name].Inputs.NonIndexed().Pack(values...)
	return l, err
}

func encoded(m *evm.ICMMessage, destination ids.ID) abiMessage {
	all := abiMessage{
		MessageNonce: m.Nonce.ToBig(), OriginSenderAddress: m.Sender, DestinationBlockchainID: destination, DestinationAddress: m.Recipient,
		RequiredGasLimit: m.GasLimit.ToBig(), AllowedRelayerAddresses: []common.Address{{1}, {2}}, Receipts: []abiReceipt{}, Message: m.Data,
	}
	for i := range m.Receipts {
		all.Receipts = append(all.Receipts, abiReceipt{m.Receipts[i].Nonce.ToBig(), m.Receipts[i].RewardRedeemer})
	}
	return all
}
