package evm

import (
	"bytes"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
)

// First topics of the further logs of Teleporter.
var (
	feeAddedTopic        = crypto.Keccak256Hash([]byte("AddFeeAmount(bytes32,(address,uint256))"))
	executedTopic        = crypto.Keccak256Hash([]byte("MessageExecuted(bytes32,bytes32)"))
	executionFailedTopic = crypto.Keccak256Hash([]byte("MessageExecutionFailed(bytes32,bytes32," + teleporterMessage + ")"))
	receiptTopic         = crypto.Keccak256Hash([]byte("ReceiptReceived(bytes32,bytes32,address,(address,uint256))"))
)

// ICMEventKind is what happened to an ICM message.
type ICMEventKind uint8

// The events of Teleporter on the source chain of a message and on its destination. A message that is sent again has
// several ICMSent events.
const (
	ICMSent            ICMEventKind = iota + 1 // on the source
	ICMFeeAdded                                // on the source
	ICMReceiptReturned                         // on the source
	ICMDelivered                               // on the destination
	ICMExecutionFailed                         // on the destination
	ICMExecuted                                // on the destination
)

// ICMEvent is an event of a message that was sent through Teleporter. Fields that Kind does not name are zero.
type ICMEvent struct {
	Kind ICMEventKind
	ID   common.Hash
	// LogIndex is the index of the log in its block.
	LogIndex uint32
	// Other is the chain at the other end: the destination of ICMSent, the source of ICMDelivered.
	Other ids.ID
	// Message is set in ICMSent and ICMDelivered.
	Message *ICMMessage
	// Fee is set in ICMSent, ICMFeeAdded and ICMReceiptReturned. It is the whole fee that is promised by then.
	Fee ICMFee
	// Deliverer sent the transaction of ICMDelivered to Teleporter, and RewardRedeemer may collect the fee.
	Deliverer, RewardRedeemer common.Address
}

// ICMMessage is the content of a Teleporter message.
type ICMMessage struct {
	Nonce uint256.Int
	// Sender called Teleporter on the source chain; Recipient is the contract that it calls on the destination.
	Sender, Recipient common.Address
	GasLimit          uint256.Int
	// Receipts acknowledge messages that travelled in the other direction.
	Receipts []ICMReceipt
	Data     []byte
}

// ICMReceipt states who may collect the fee of a delivered message.
type ICMReceipt struct {
	Nonce          uint256.Int
	RewardRedeemer common.Address
}

// ICMFee is an amount of an ERC-20 token on the source chain.
type ICMFee struct {
	Token  common.Address
	Amount uint256.Int
}

// ICMMessageID returns the ID that Teleporter gives to a message.
func ICMMessageID(source, destination ids.ID, nonce *uint256.Int) common.Hash {
	n := nonce.Bytes32()
	return crypto.Keccak256Hash(common.LeftPadBytes(Teleporter[:], word), source[:], destination[:], n[:])
}

// ICMEvents returns the events of Teleporter messages in logs of a transaction on chain, in log order. It leaves out
// malformed events, and messages whose ID does not follow from chain: the genesis of a chain may place any code at
// Teleporter's address, which must not speak for other chains.
func ICMEvents(logs []Log, chain ids.ID) []ICMEvent {
	var found []ICMEvent
	for i := range logs {
		l := &logs[i]
		if l.Address != Teleporter || len(l.Topics) < 2 {
			continue
		}
		e := ICMEvent{ID: l.Topics[1], LogIndex: l.Index}
		if len(l.Topics) > 2 {
			e.Other = ids.ID(l.Topics[2])
		}
		if e.read(l, chain) {
			found = append(found, e)
		}
	}
	return found
}

// warpPrecompile and sendWarpTopic identify the logs of messages sent through the Warp precompile (avalanchego,
// precompile contract of warp).
var (
	warpPrecompile = common.HexToAddress("0x0200000000000000000000000000000000000005")
	sendWarpTopic  = crypto.Keccak256Hash([]byte("SendWarpMessage(address,bytes32,bytes)"))
)

// SendsWarp reports whether l is the log of a message sent through the Warp precompile. Its topics are then the event,
// the sender and the message's ID.
func (l *Log) SendsWarp() bool {
	return l.Address == warpPrecompile && len(l.Topics) == 3 && l.Topics[0] == sendWarpTopic
}

// ICMWarpIDs returns the IDs of the Warp messages that carry Teleporter messages, by the IDs of these, from logs of a
// transaction on chain.
func ICMWarpIDs(logs []Log, chain ids.ID) map[common.Hash]ids.ID {
	found := make(map[common.Hash]ids.ID)
	for i := range logs {
		l := &logs[i]
		if !l.SendsWarp() {
			continue
		}
		if sender, ok := party(l.Topics[1]); !ok || sender != Teleporter {
			continue
		}
		raw, ok := icmBytes(l.Data, 0)
		if !ok {
			continue
		}
		m, err := warp.ParseUnsignedMessage(raw)
		if err != nil || m.SourceChainID != chain {
			continue
		}
		call, err := payload.ParseAddressedCall(m.Payload)
		if err != nil {
			continue
		}
		if content, destination, ok := icmMessage(call.Payload, 0); ok {
			found[ICMMessageID(chain, destination, &content.Nonce)] = m.ID()
		}
	}
	return found
}

// read decodes a log of Teleporter. It returns false if the log is of another kind or malformed.
func (e *ICMEvent) read(l *Log, chain ids.ID) (ok bool) {
	switch topic, topics := l.Topics[0], len(l.Topics); {
	case topic == sentTopic && topics == 3:
		e.Kind = ICMSent
		if e.Fee, ok = icmFee(l.Data, word); !ok {
			return false
		}
		var to ids.ID
		e.Message, to, ok = icmMessage(l.Data, 0)
		return ok && to == e.Other && e.ID == ICMMessageID(chain, e.Other, &e.Message.Nonce)
	case topic == receivedTopic && topics == 4:
		e.Kind = ICMDelivered
		var known [2]bool
		e.Deliverer, known[0] = party(l.Topics[3])
		e.RewardRedeemer, known[1] = icmAddress(l.Data, 0)
		var to ids.ID
		e.Message, to, ok = icmMessage(l.Data, word)
		return ok && known[0] && known[1] && to == chain && e.ID == ICMMessageID(e.Other, chain, &e.Message.Nonce)
	case topic == feeAddedTopic && topics == 2:
		e.Kind = ICMFeeAdded
		e.Fee, ok = icmFee(l.Data, 0)
		return ok
	case topic == receiptTopic && topics == 4:
		e.Kind = ICMReceiptReturned
		e.Fee, ok = icmFee(l.Data, 0)
		var known bool
		e.RewardRedeemer, known = party(l.Topics[3])
		return ok && known
	case topic == executedTopic && topics == 3:
		e.Kind = ICMExecuted
		return true
	case topic == executionFailedTopic && topics == 3:
		e.Kind = ICMExecutionFailed
		return true
	}
	return false
}

// wordAt returns a word of ABI-encoded data.
func wordAt(data []byte, at int) (w common.Hash, ok bool) {
	if at > len(data)-word {
		return w, false
	}
	return common.Hash(data[at : at+word]), true
}

func icmAddress(data []byte, at int) (common.Address, bool) {
	w, ok := wordAt(data, at)
	if !ok {
		return common.Address{}, false
	}
	return party(w)
}

func icmFee(data []byte, at int) (f ICMFee, ok bool) {
	if f.Token, ok = icmAddress(data, at); !ok {
		return f, false
	}
	amount, ok := wordAt(data, at+word)
	f.Amount.SetBytes(amount[:])
	return f, ok
}

// ParseICMMessage decodes the payload of a Warp message from Teleporter, and the destination. It returns false if the
// payload is none.
func ParseICMMessage(payload []byte) (m *ICMMessage, destination ids.ID, ok bool) {
	return icmMessage(payload, 0)
}

// icmMessage decodes the message whose offset is stored at head, and its destination.
func icmMessage(data []byte, head int) (m *ICMMessage, destination ids.ID, ok bool) {
	const fields = 8
	offset, ok := size(data, head)
	if !ok || offset > len(data)-fields*word {
		return nil, ids.Empty, false
	}
	data = data[offset:]
	m = new(ICMMessage)
	m.Nonce.SetBytes(data[:word])
	destination = ids.ID(data[2*word : 3*word])
	m.GasLimit.SetBytes(data[4*word : 5*word])
	var known [4]bool
	m.Sender, known[0] = icmAddress(data, word)
	m.Recipient, known[1] = icmAddress(data, 3*word)
	m.Receipts, known[2] = icmReceipts(data, 6*word)
	m.Data, known[3] = icmBytes(data, 7*word)
	return m, destination, known == [4]bool{true, true, true, true}
}

// icmReceipts decodes the array whose offset is stored at head.
func icmReceipts(data []byte, head int) ([]ICMReceipt, bool) {
	offset, ok := size(data, head)
	if !ok {
		return nil, false
	}
	n, ok := size(data, offset)
	if !ok || n > (len(data)-offset-word)/(2*word) {
		return nil, false
	}
	var all []ICMReceipt
	for at := offset + word; len(all) < n; at += 2 * word {
		var r ICMReceipt
		r.Nonce.SetBytes(data[at : at+word])
		if r.RewardRedeemer, ok = icmAddress(data, at+word); !ok {
			return nil, false
		}
		all = append(all, r)
	}
	return all, true
}

// icmBytes decodes the byte string whose offset is stored at head.
func icmBytes(data []byte, head int) ([]byte, bool) {
	offset, ok := size(data, head)
	if !ok {
		return nil, false
	}
	n, ok := size(data, offset)
	if !ok || n > len(data)-offset-word {
		return nil, false
	}
	return bytes.Clone(data[offset+word:][:n]), true
}
