package evm

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/index/internal/row"
)

// version is the first byte of every value. Numbers are uvarints. Amounts are big-endian without leading zeros,
// prefixed with their length.
const version = row.Version

func appendUint256(b []byte, n *uint256.Int) []byte {
	size := n.ByteLen()
	full := n.Bytes32()
	return append(append(b, byte(size)), full[32-size:]...)
}

func appendBytes(b, s []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

// reader decodes values. It adds the types of EVM chains to row.Reader.
type reader struct {
	row.Reader
	// last is the last decoded block reference. Adjacent values often refer to the same block and share its memory.
	last BlockRef
}

func read(v []byte) *reader {
	r := new(reader)
	r.Begin(v)
	return r
}

func (r *reader) signed() int64 {
	n := r.Number()
	return int64(n>>1) ^ -int64(n&1) // zigzag, as binary.AppendVarint
}

func (r *reader) hash() (h common.Hash) {
	copy(h[:], r.Take(len(h)))
	return h
}

func (r *reader) address() (a common.Address) {
	copy(a[:], r.Take(len(a)))
	return a
}

func (r *reader) uint256() (n uint256.Int) {
	size := r.Byte()
	if size > 32 {
		r.Fail(fmt.Errorf("amount of %d bytes", size))
		return n
	}
	n.SetBytes(r.Take(int(size)))
	return n
}

func (r *reader) uint256p() *uint256.Int {
	n := r.uint256()
	return &n
}

// Flags of a block reference.
const (
	refMilliseconds = 1 << iota
	refMinDelayExcess
	refBaseFee
)

// appendRef appends a block reference without its number, which is part of the key.
func appendRef(b []byte, ref *BlockRef) []byte {
	at := len(b)
	b = append(b, 0)
	b = append(b, ref.Hash[:]...)
	b = binary.AppendUvarint(b, ref.Time)
	if ref.Milliseconds != 0 {
		b[at] |= refMilliseconds
		b = binary.AppendVarint(b, int64(ref.Milliseconds-1000*ref.Time)) // may wrap; readRef wraps it back
	}
	if ref.MinDelayExcess != nil {
		b[at] |= refMinDelayExcess
		b = binary.AppendUvarint(b, *ref.MinDelayExcess)
	}
	if ref.BaseFee != nil {
		b[at] |= refBaseFee
		b = appendUint256(b, ref.BaseFee)
	}
	return b
}

func (r *reader) ref(number uint64) (ref BlockRef) {
	r.readRef(number, &ref)
	return ref
}

// readRef reads the reference to block number into ref.
func (r *reader) readRef(number uint64, ref *BlockRef) {
	flags := r.Byte()
	hash := r.hash()
	same := number == r.last.Number && hash == r.last.Hash
	*ref = BlockRef{Number: number, Hash: hash, Time: r.Number()}
	if flags&refMilliseconds != 0 {
		ref.Milliseconds = uint64(r.signed()) + 1000*ref.Time
	}
	if flags&refMinDelayExcess != 0 {
		n := r.Number()
		if known := r.last.MinDelayExcess; same && known != nil && *known == n {
			ref.MinDelayExcess = known
		} else {
			ref.MinDelayExcess = new(uint64)
			*ref.MinDelayExcess = n
		}
	}
	if flags&refBaseFee != 0 {
		n := r.uint256()
		if known := r.last.BaseFee; same && known != nil && *known == n {
			ref.BaseFee = known
		} else {
			ref.BaseFee = new(uint256.Int)
			*ref.BaseFee = n
		}
	}
	if !same {
		r.last = *ref
	}
}

// Flags of a transaction.
const (
	txSuccess = 1 << iota
	txCreates
	txMaxFee
	txMaxPriorityFee
)

// selectorSize is the number of input bytes in lists of transactions.
const selectorSize = 4

// appendTx appends a transaction with the given input.
func appendTx(b []byte, tx *evm.Transaction, input []byte) []byte {
	var flags byte
	recipient := tx.Created
	if tx.To == nil {
		flags |= txCreates
	} else {
		recipient = *tx.To
	}
	if tx.Success {
		flags |= txSuccess
	}
	if tx.MaxFee != nil {
		flags |= txMaxFee
	}
	if tx.MaxPriorityFee != nil {
		flags |= txMaxPriorityFee
	}
	b = append(b, flags, tx.Type)
	b = append(b, tx.Hash[:]...)
	b = append(b, tx.From[:]...)
	b = append(b, recipient[:]...)
	b = binary.AppendUvarint(b, tx.Nonce)
	b = appendUint256(b, &tx.Value)
	b = binary.AppendUvarint(b, tx.GasLimit)
	b = binary.AppendUvarint(b, tx.GasUsed)
	b = appendUint256(b, &tx.GasPrice)
	if tx.MaxFee != nil {
		b = appendUint256(b, tx.MaxFee)
	}
	if tx.MaxPriorityFee != nil {
		b = appendUint256(b, tx.MaxPriorityFee)
	}
	return appendBytes(b, input)
}

// listed returns the part of a transaction's input that lists contain.
func listed(tx *evm.Transaction) []byte {
	if tx.To == nil {
		return nil // the input is code
	}
	return tx.Input[:min(len(tx.Input), selectorSize)]
}

// tx reads a transaction into tx, which must be zero.
func (r *reader) tx(at place, tx *Transaction) {
	flags := r.Byte()
	tx.Type = r.Byte()
	tx.Index = at.major
	tx.Hash, tx.From, tx.Recipient = r.hash(), r.address(), r.address()
	if flags&txCreates == 0 {
		tx.To = &tx.Recipient
	} else {
		tx.Created = tx.Recipient
	}
	tx.Success = flags&txSuccess != 0
	tx.Nonce, tx.Value, tx.GasLimit, tx.GasUsed, tx.GasPrice = r.Number(), r.uint256(), r.Number(), r.Number(), r.uint256()
	if flags&txMaxFee != 0 {
		tx.MaxFee = r.uint256p()
	}
	if flags&txMaxPriorityFee != 0 {
		tx.MaxPriorityFee = r.uint256p()
	}
	tx.Input = r.Bytes()
	r.readRef(at.number, &tx.Block)
}

// appendFrame appends a call.
func appendFrame(b []byte, f *evm.Frame) []byte {
	var flags byte
	if f.Reverted {
		flags = 1
	}
	b = append(b, byte(f.Type), flags)
	b = append(b, f.From[:]...)
	b = append(b, f.To[:]...)
	b = appendUint256(b, &f.Value)
	b = binary.AppendUvarint(b, f.Gas)
	b = binary.AppendUvarint(b, f.GasUsed)
	return binary.AppendUvarint(b, uint64(f.Depth))
}

func (r *reader) frame() (f evm.Frame) {
	f.Type, f.Reverted = evm.FrameType(r.Byte()), r.Byte() != 0
	f.From, f.To, f.Value, f.Gas, f.GasUsed = r.address(), r.address(), r.uint256(), r.Number(), r.Number()
	depth := r.Number()
	if depth > math.MaxUint16 {
		r.Fail(fmt.Errorf("depth %d", depth))
	}
	f.Depth = uint16(depth)
	return f
}

// appendTransfer appends a transfer without its position.
func appendTransfer(b []byte, t *evm.Transfer) []byte {
	b = append(b, byte(t.Standard))
	b = append(b, t.Contract[:]...)
	b = append(b, t.From[:]...)
	b = append(b, t.To[:]...)
	return appendUint256(appendUint256(b, &t.TokenID), &t.Amount)
}

func (r *reader) transfer(logIndex, position uint32) evm.Transfer {
	return evm.Transfer{
		LogIndex: logIndex, Position: position,
		Standard: evm.Standard(r.Byte()), Contract: r.address(), From: r.address(), To: r.address(), TokenID: r.uint256(), Amount: r.uint256(),
	}
}

// appendDeployment appends the deployer and the creator of a contract.
func appendDeployment(b []byte, d *Deployment) []byte {
	b = append(b, d.Contract[:]...)
	b = append(b, d.TxHash[:]...)
	b = append(b, d.Deployer[:]...)
	if d.Creator != nil {
		b = append(b, d.Creator[:]...)
	}
	return b
}

func (r *reader) deployment(_ place, d *Deployment) {
	d.Contract, d.TxHash, d.Deployer = r.address(), r.hash(), r.address()
	if r.Len() > 0 {
		creator := r.address()
		d.Creator = &creator
	}
}

// Flags of a transaction's interchain message.
const (
	noMessage byte = iota
	messageSent
	messageDelivered
)

func appendMessage(b []byte, m *evm.Message) []byte {
	if m == nil {
		return append(b, noMessage)
	}
	kind := messageSent
	if m.Delivered {
		kind = messageDelivered
	}
	return append(append(append(b, kind), m.ID[:]...), m.BlockchainID[:]...)
}

func (r *reader) message() *evm.Message {
	kind := r.Byte()
	switch kind {
	case noMessage:
		return nil
	case messageSent, messageDelivered:
		return &evm.Message{ID: r.hash(), Delivered: kind == messageDelivered, BlockchainID: ids.ID(r.hash())}
	}
	r.Fail(fmt.Errorf("message of kind %d", kind))
	return nil
}

// head is the indexed range of a chain.
type head struct {
	chainID ids.ID
	// first is the number of the first indexed block, tip of the last.
	first uint64
	tip   BlockRef
	// txs is the number of transactions in all blocks, busy the last block with any.
	txs, busy uint64
	// untracedFrom and untracedTo are the first and the last block with transactions that were indexed without call
	// traces. They are valid if untraced is true. Separate rows say which blocks between them still lack traces.
	untraced                 bool
	untracedFrom, untracedTo uint64
}

func (h *head) bytes() []byte {
	b := append(make([]byte, 0, 128), version)
	b = append(b, h.chainID[:]...)
	b = binary.AppendUvarint(b, h.first)
	b = binary.AppendUvarint(b, h.tip.Number)
	b = appendRef(b, &h.tip)
	b = binary.AppendUvarint(b, h.txs)
	b = binary.AppendUvarint(b, h.busy)
	if h.untraced {
		b = binary.AppendUvarint(b, h.untracedFrom)
		b = binary.AppendUvarint(b, h.untracedTo)
	}
	return b
}

func parseHead(v []byte) (*head, error) {
	r := read(v)
	h := &head{chainID: ids.ID(r.hash()), first: r.Number()}
	h.tip = r.ref(r.Number())
	h.txs, h.busy = r.Number(), r.Number()
	if r.Len() > 0 {
		h.untraced, h.untracedFrom, h.untracedTo = true, r.Number(), r.Number()
	}
	return h, r.End()
}
