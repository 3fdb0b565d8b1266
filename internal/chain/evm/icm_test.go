package evm_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/internal/chain/evm"
	"quorate/internal/chain/evm/icmtest"
)

var source, destination = ids.ID{1}, ids.ID{2}

// icmEvents returns one event of each kind.
func icmEvents() []evm.ICMEvent {
	m := &evm.ICMMessage{
		Nonce: *uint256.NewInt(7), Sender: common.Address{3}, Recipient: common.Address{4}, GasLimit: *uint256.NewInt(200_000),
		Receipts: []evm.ICMReceipt{{Nonce: *uint256.NewInt(5), RewardRedeemer: common.Address{6}}, {Nonce: *new(uint256.Int).SetAllOne()}},
		Data:     bytes.Repeat([]byte{0xab}, 33),
	}
	id := evm.ICMMessageID(source, destination, &m.Nonce)
	fee := evm.ICMFee{Token: common.Address{9}, Amount: *new(uint256.Int).SetAllOne()}
	return []evm.ICMEvent{
		{Kind: evm.ICMSent, ID: id, LogIndex: 1, Other: destination, Message: m, Fee: fee},
		{Kind: evm.ICMFeeAdded, ID: id, LogIndex: 2, Fee: fee},
		{Kind: evm.ICMReceiptReturned, ID: id, LogIndex: 3, Other: destination, Fee: fee, RewardRedeemer: common.Address{7}},
		{Kind: evm.ICMDelivered, ID: id, LogIndex: 4, Other: source, Message: m, Deliverer: common.Address{8}, RewardRedeemer: common.Address{7}},
		{Kind: evm.ICMExecutionFailed, ID: id, LogIndex: 5, Other: source, Message: m},
		{Kind: evm.ICMExecuted, ID: id, LogIndex: 6, Other: source},
	}
}

// chainOf returns the chain on which an event happens.
func chainOf(kind evm.ICMEventKind) ids.ID {
	if kind >= evm.ICMDelivered {
		return destination
	}
	return source
}

func TestICMEvents(t *testing.T) {
	encoder, err := icmtest.New()
	require.NoError(t, err)
	for _, event := range icmEvents() {
		l, err := encoder.Log(&event, destination)
		require.NoError(t, err)
		want := event
		if event.Kind == evm.ICMExecutionFailed {
			want.Message = nil // the delivery has it
		}
		require.Equal(t, []evm.ICMEvent{want}, evm.ICMEvents([]evm.Log{l}, chainOf(event.Kind)))

		elsewhere := l
		elsewhere.Address = common.Address{1}
		require.Empty(t, evm.ICMEvents([]evm.Log{elsewhere}, chainOf(event.Kind)), "any contract can emit this log")
		for n := range l.Topics {
			short := l
			short.Topics = l.Topics[:n]
			require.Empty(t, evm.ICMEvents([]evm.Log{short}, chainOf(event.Kind)))
		}
		// A tuple of fixed size may be followed by anything; nothing that is cut short decodes to something else.
		for n := range l.Data {
			short := l
			short.Data = l.Data[:n]
			for _, got := range evm.ICMEvents([]evm.Log{short}, chainOf(event.Kind)) {
				require.Equal(t, want, got)
			}
		}
	}
}

// TestICMMessageIDs checks the events of a chain whose Teleporter lies about other chains.
func TestICMMessageIDs(t *testing.T) {
	encoder, err := icmtest.New()
	require.NoError(t, err)
	for _, event := range icmEvents() {
		if event.Kind != evm.ICMSent && event.Kind != evm.ICMDelivered {
			continue
		}
		l, err := encoder.Log(&event, destination)
		require.NoError(t, err)
		require.Empty(t, evm.ICMEvents([]evm.Log{l}, ids.ID{3}), "a message between two other chains")
		forged := event
		forged.ID[0]++
		l, err = encoder.Log(&forged, destination)
		require.NoError(t, err)
		require.Empty(t, evm.ICMEvents([]evm.Log{l}, chainOf(event.Kind)), "an ID that does not follow from the message")
		l, err = encoder.Log(&event, ids.ID{3})
		require.NoError(t, err)
		require.Empty(t, evm.ICMEvents([]evm.Log{l}, chainOf(event.Kind)), "a message to another chain")
	}
}

// TestICMTopics compares the topics with those that others publish for the deployed contract.
func TestICMTopics(t *testing.T) {
	encoder, err := icmtest.New()
	require.NoError(t, err)
	for kind, topic := range map[evm.ICMEventKind]string{
		evm.ICMSent:            "0x2a211ad4a59ab9d003852404f9c57c690704ee755f3c79d2c2812ad32da99df8",
		evm.ICMDelivered:       "0x292ee90bbaf70b5d4936025e09d56ba08f3e421156b6a568cf3c2840d9343e34",
		evm.ICMExecuted:        "0x34795cc6b122b9a0ae684946319f1e14a577b4e8f9b3dda9ac94c21a54d3188c",
		evm.ICMExecutionFailed: "0x4619adc1017b82e02eaefac01a43d50d6d8de4460774bc370c3ff0210d40c985",
		evm.ICMFeeAdded:        "0xc1bfd1f1208927dfbd414041dcb5256e6c9ad90dd61aec3249facbd34ff7b3e1",
		evm.ICMReceiptReturned: "0xd13a7935f29af029349bed0a2097455b91fd06190a30478c575db3f31e00bf57",
	} {
		l, err := encoder.Log(&evm.ICMEvent{Kind: kind, Message: new(evm.ICMMessage)}, destination)
		require.NoError(t, err)
		require.Equal(t, topic, l.Topics[0].Hex(), "kind %d", kind)
	}
}

func FuzzICMEvents(f *testing.F) {
	encoder, err := icmtest.New()
	require.NoError(f, err)
	for _, event := range icmEvents() {
		l, err := encoder.Log(&event, destination)
		require.NoError(f, err)
		f.Add(uint8(event.Kind), l.Data)
	}
	all := icmEvents()
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		event := all[int(kind)%len(all)]
		l, err := encoder.Log(&event, destination)
		require.NoError(t, err)
		l.Data = data
		for _, e := range evm.ICMEvents([]evm.Log{l}, chainOf(event.Kind)) { // nothing panics
			require.Equal(t, event.Kind, e.Kind)
		}
	})
}

// TestDeployedTeleporter decodes logs of the deployed contract: the bytecode of TeleporterMessenger 1.0.0, whose keyless
// deployment creates it at the address Teleporter, run by libevm on two chains, with a Warp precompile that passes
// messages on.
func TestDeployedTeleporter(t *testing.T) {
	content, err := os.ReadFile("testdata/teleporter.json")
	require.NoError(t, err)
	var calls []struct {
		Chain common.Hash
		Does  string
		Logs  []struct {
			Topics []common.Hash
			Data   hexutil.Bytes
		}
	}
	require.NoError(t, json.Unmarshal(content, &calls))
	one, two := ids.ID{0xaa, 31: 1}, ids.ID{0xbb, 31: 2}
	to := common.HexToAddress("0x4444444444444444444444444444444444444444")
	user := common.HexToAddress("0x5555555555555555555555555555555555555555")
	first := &evm.ICMMessage{
		Nonce: *uint256.NewInt(1), Sender: user, Recipient: to, GasLimit: *uint256.NewInt(100_000), Data: []byte("a message of more than thirty-two bytes"),
	}
	back := &evm.ICMMessage{
		Nonce: *uint256.NewInt(1), Sender: user, Recipient: to, GasLimit: *uint256.NewInt(0xffff), Data: []byte{},
		Receipts: []evm.ICMReceipt{{Nonce: *uint256.NewInt(1), RewardRedeemer: common.Address{0x77}}},
	}
	firstID, backID := evm.ICMMessageID(one, two, &first.Nonce), evm.ICMMessageID(two, one, &back.Nonce)
	want := map[string][]evm.ICMEvent{
		"send":       {{Kind: evm.ICMSent, ID: firstID, Other: two, Message: first}},
		"send again": {{Kind: evm.ICMSent, ID: firstID, Other: two, Message: first}},
		"deliver to a contract that reverts": {
			{Kind: evm.ICMDelivered, ID: firstID, Other: one, Message: first, Deliverer: user, RewardRedeemer: common.Address{0x77}},
			{Kind: evm.ICMExecutionFailed, ID: firstID, Other: one},
		},
		"execute again":       {{Kind: evm.ICMExecuted, ID: firstID, Other: one}},
		"send with a receipt": {{Kind: evm.ICMSent, ID: backID, Other: one, Message: back}},
		// A message without data is not executed.
		"deliver with a receipt": {
			{Kind: evm.ICMReceiptReturned, ID: firstID, Other: two, RewardRedeemer: common.Address{0x77}},
			{Kind: evm.ICMDelivered, ID: backID, Other: two, Message: back, Deliverer: user, RewardRedeemer: common.Address{0x88}},
		},
	}
	require.Len(t, calls, len(want))
	for _, call := range calls {
		var logs []evm.Log
		for _, l := range call.Logs {
			logs = append(logs, evm.Log{Address: evm.Teleporter, Topics: l.Topics, Data: l.Data})
		}
		require.Equal(t, want[call.Does], evm.ICMEvents(logs, ids.ID(call.Chain)), call.Does)
	}
}
