// Package evm indexes EVM chains: transactions, internal transactions, token transfers and balances, contracts and
// their deployers, token collections, and transactions per day. A Projection writes the index, an Index reads it.
package evm

import (
	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// BlockRef identifies a block.
type BlockRef struct {
	Number uint64
	Hash   common.Hash
	// Time is in Unix seconds. Milliseconds is 0 on chains whose blocks have whole seconds.
	Time, Milliseconds uint64
	MinDelayExcess     *uint64
	BaseFee            *uint256.Int
}

// Transaction is an indexed transaction without Logs and Frames. In lists, Input has the first four bytes, and is empty
// for contract creations.
type Transaction struct {
	Block BlockRef
	// Index is the index in the block.
	Index uint32
	// Recipient is To, or the contract that the transaction created.
	Recipient common.Address
	evm.Transaction
}

// Internal is an internal transaction: a call with value, or a contract creation.
type Internal struct {
	Block  BlockRef
	TxHash common.Hash
	evm.Frame
}

// TokenTransfer is an indexed transfer.
type TokenTransfer struct {
	Block  BlockRef
	TxHash common.Hash
	evm.Transfer
}

// Deployment is a contract and its deployer.
type Deployment struct {
	Contract common.Address
	TxHash   common.Hash
	// Deployer is the sender of the transaction. Creator is the contract that created this one in a call, nil if the
	// transaction itself created it.
	Deployer common.Address
	Creator  *common.Address
}

// TransactionDetails holds a transaction with its whole input and all its effects.
type TransactionDetails struct {
	Transaction Transaction
	// Transfers are in log order. Internals are in the order in which they began; they are known if the block was
	// Traced.
	Transfers []TokenTransfer
	Internals []Internal
	Traced    bool
	// Message is the interchain message that the transaction sent or delivered, or nil.
	Message *evm.Message
}

// Contract holds what calls to a contract returned.
type Contract struct {
	Address  common.Address
	Standard evm.Standard
	// Name and Symbol are empty if the contract has none. Decimals is nil if the contract does not report them.
	Name, Symbol string
	Decimals     *uint8
}

// TokenBalance is a wallet's balance of an ERC-1155 token.
type TokenBalance struct {
	Contract common.Address
	TokenID  uint256.Int
	Amount   uint256.Int
}

// Token is a token of a collection.
type Token struct {
	Contract common.Address
	TokenID  uint256.Int
	// Owner is nil for ERC-1155.
	Owner *common.Address
}

// Day is the number of transactions in the blocks of a UTC day.
type Day struct {
	// Start is the day's first second, in Unix seconds.
	Start        int64
	Transactions uint64
}
