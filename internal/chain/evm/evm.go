// Package evm defines the types in which EVM blocks are indexed: a block with its transactions, receipts, logs and call
// frames, as a node's Ethereum API returns them, and the token transfers that logs describe. It has no I/O.
package evm

import (
	"unsafe"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
)

// Block is an accepted block of an EVM chain, executed.
type Block struct {
	Number           uint64
	Hash, ParentHash common.Hash
	// ReceiptsRoot is the field of the header; zero if the header lacks it.
	ReceiptsRoot common.Hash
	// Time is a Unix time in seconds. Milliseconds is the same time in milliseconds; it is 0 if the header has seconds
	// only (ACP-226).
	Time, Milliseconds uint64
	// MinDelayExcess is nil if the header has none (ACP-226).
	MinDelayExcess *uint64
	// BaseFee is in wei per unit of gas; nil if the header has none.
	BaseFee *uint256.Int
	// GasLimit is the limit of the block. GasCost is the gas that the block itself cost, 0 if the header has none.
	GasLimit     uint64
	GasCost      uint256.Int
	Transactions []Transaction
	// Traced reports whether the frames of the transactions are known.
	Traced bool
	// Unchecked reports that the transactions or receipts were not checked against the roots in the header, because the
	// node omitted fields or a transaction type is unknown.
	Unchecked bool
	// Unhashed reports that the header does not have the block's hash, which only the child's parent hash confirms. The
	// node omitted header fields; those it returned may be wrong.
	Unhashed bool
	// Settled is nil if the receipts root covers the block's own receipts. Since Helicon, it covers those of the blocks
	// after the parent's Settled, up to this one (ACP-194).
	Settled *uint64
	// Receipts holds the encoded receipts, see ReceiptsRoot. It is nil unless Settled is set and they could be encoded.
	Receipts [][]byte
}

// Size returns the approximate memory use of the block in bytes.
func (b *Block) Size() int {
	n := int(unsafe.Sizeof(*b))
	for i := range b.Receipts {
		n += len(b.Receipts[i]) + int(unsafe.Sizeof(b.Receipts[i]))
	}
	for i := range b.Transactions {
		tx := &b.Transactions[i]
		n += int(unsafe.Sizeof(*tx)) + len(tx.Input) + len(tx.Frames)*int(unsafe.Sizeof(Frame{}))
		for j := range tx.Logs {
			n += int(unsafe.Sizeof(Log{})) + len(tx.Logs[j].Topics)*common.HashLength + len(tx.Logs[j].Data)
		}
	}
	return n
}

// Transaction is a transaction with its receipt.
type Transaction struct {
	Hash  common.Hash
	Type  uint8 // EIP-2718
	Nonce uint64
	From  common.Address
	// To is nil if the transaction creates a contract. Created is then the contract's address, even if the creation
	// failed.
	To      *common.Address
	Created common.Address
	Value   uint256.Int // wei
	Input   []byte

	GasLimit, GasUsed uint64
	// GasPrice is the effective price of a unit of gas in wei.
	GasPrice uint256.Int
	// MaxFee and MaxPriorityFee are nil for types without them (EIP-1559).
	MaxFee, MaxPriorityFee *uint256.Int

	// Success is the status of the receipt.
	Success bool
	Logs    []Log
	// Frames are the internal calls in the order in which they began, without the top-level frame. Nil if the block is
	// not Traced.
	Frames []Frame
}

// Log is an event log of a receipt.
type Log struct {
	// Index is the log's index in the block.
	Index   uint32
	Address common.Address
	Topics  []common.Hash
	Data    []byte
}

// FrameType is the operation that began a call frame.
type FrameType uint8

// The operations that callTracer reports.
const (
	FrameUnknown FrameType = iota
	FrameCall
	FrameCallCode
	FrameDelegateCall
	FrameStaticCall
	FrameCreate
	FrameCreate2
	FrameSelfDestruct
)

// frameNames are the operations as callTracer names them.
var frameNames = [...]string{"UNKNOWN", "CALL", "CALLCODE", "DELEGATECALL", "STATICCALL", "CREATE", "CREATE2", "SELFDESTRUCT"}

// String returns the name of the operation as callTracer reports it, UNKNOWN for others.
func (t FrameType) String() string {
	if int(t) < len(frameNames) {
		return frameNames[t]
	}
	return frameNames[FrameUnknown]
}

// Frame is a call frame of an internal transaction (callTracer of the Ethereum API).
type Frame struct {
	Type FrameType
	From common.Address
	// To is the callee, or the address of the created contract. It is the zero address if a creation failed before it
	// had an address.
	To    common.Address
	Value uint256.Int // wei; 0 if the operation transfers nothing
	// Gas is the gas that the frame received.
	Gas, GasUsed uint64
	// Reverted reports that this frame or an enclosing frame failed, including the top-level frame.
	Reverted bool
	// Depth is 1 for calls made by the top-level frame.
	Depth uint16
}

// Creates reports whether the frame creates a contract.
func (f *Frame) Creates() bool { return f.Type == FrameCreate || f.Type == FrameCreate2 }

// Standard is the token standard that a contract follows.
type Standard uint8

// Unknown is a contract that follows none of these standards.
const (
	Unknown Standard = iota
	ERC20
	ERC721
	ERC1155
)

// Transfer is a token movement that a log describes. An ERC-1155 batch yields several. Mints come from the zero
// address, burns go to it.
type Transfer struct {
	Standard Standard
	Contract common.Address
	// LogIndex is the index of the log. Position is the index in the log's batch, else 0.
	LogIndex, Position uint32
	From, To           common.Address
	// TokenID is 0 for ERC-20, and Amount is 1 for ERC-721.
	TokenID, Amount uint256.Int
}
