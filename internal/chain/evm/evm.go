// Package evm has the terms in which blocks of EVM chains are recorded: a block
// with its transactions, their receipts, logs and call frames, as the Ethereum API
// of a node tells them, and the token transfers that logs stand for. It asks no
// node and keeps nothing.
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
	// Time is in Unix seconds. Milliseconds is the same more precisely, 0 on chains
	// whose headers have seconds only (ACP-226).
	Time, Milliseconds uint64
	// MinDelayExcess is that of the header, nil where it has none (ACP-226).
	MinDelayExcess *uint64
	// BaseFee is in wei per unit of gas, nil where there is none.
	BaseFee      *uint256.Int
	Transactions []Transaction
	// Traced says that the frames of the transactions are known.
	Traced bool
	// Unchecked says that the transactions or receipts could not be checked against the
	// roots in the header, as the node left fields out or a type is not known here.
	Unchecked bool
}

// Size is what the block takes in memory, in bytes, about.
func (b *Block) Size() int {
	n := int(unsafe.Sizeof(*b))
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
	// To is nil if the transaction creates a contract; Created is then that
	// contract's address, whether the creation succeeded or not.
	To      *common.Address
	Created common.Address
	Value   uint256.Int // wei
	Input   []byte

	GasLimit, GasUsed uint64
	// GasPrice is what was paid for a unit of gas, in wei.
	GasPrice uint256.Int
	// MaxFee and MaxPriorityFee are nil where the type has none (EIP-1559).
	MaxFee, MaxPriorityFee *uint256.Int

	// Success is the receipt's status.
	Success bool
	Logs    []Log
	// Frames are the calls inside the transaction in the order in which they began,
	// its own top-level frame left out. Nil if the block is not Traced.
	Frames []Frame
}

// Log is a log of a receipt.
type Log struct {
	// Index is the log's place in the block.
	Index   uint32
	Address common.Address
	Topics  []common.Hash
	Data    []byte
}

// FrameType is the operation that began a call frame.
type FrameType uint8

// The operations that callTracer tells.
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

// Frame is a call inside a transaction (callTracer of the Ethereum API).
type Frame struct {
	Type FrameType
	From common.Address
	// To is the callee, or the address of the contract that a creation made. A
	// creation that failed before it had an address has the zero address.
	To    common.Address
	Value uint256.Int // wei; 0 where the operation moves none
	// Gas is what the frame was given.
	Gas, GasUsed uint64
	// Reverted says that the frame or one around it failed, the transaction's own
	// included.
	Reverted bool
	// Depth is 1 for calls of the top-level frame, and so on.
	Depth uint16
}

// Creates says that the frame creates a contract.
func (f *Frame) Creates() bool { return f.Type == FrameCreate || f.Type == FrameCreate2 }

// Standard is the token standard that a contract follows.
type Standard uint8

// Unknown is a contract that follows none of the standards.
const (
	Unknown Standard = iota
	ERC20
	ERC721
	ERC1155
)

// Transfer is a movement of tokens that a log tells. A batch of ERC-1155 stands for
// several. Minting is from, burning to the zero address.
type Transfer struct {
	Standard Standard
	Contract common.Address
	// LogIndex is that of the log; Position is the place in its batch, else 0.
	LogIndex, Position uint32
	From, To           common.Address
	// TokenID is 0 for ERC-20, Amount is 1 for ERC-721.
	TokenID, Amount uint256.Int
}
