// Package evm records EVM chains: transactions, calls inside them, token transfers
// and balances, contracts and who deployed them, collections of tokens, and how
// many transactions each day had. A Tenant writes what blocks say, a Record reads
// it.
package evm

import (
	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// BlockRef says which block something stands in.
type BlockRef struct {
	Number uint64
	Hash   common.Hash
	// Time is in Unix seconds, Milliseconds 0 where the chain has seconds only.
	Time, Milliseconds uint64
	MinDelayExcess     *uint64
	BaseFee            *uint256.Int
}

// Transaction is a recorded transaction. Its Logs and Frames are left out. Of its
// Input lists have the first four bytes, and nothing if it creates a contract.
type Transaction struct {
	Block BlockRef
	// Index is the place in the block.
	Index uint32
	// Recipient is To, or the contract that the transaction created.
	Recipient common.Address
	evm.Transaction
}

// Internal is a recorded call with value, or a creation, inside a transaction.
type Internal struct {
	Block  BlockRef
	TxHash common.Hash
	evm.Frame
}

// TokenTransfer is a recorded transfer.
type TokenTransfer struct {
	Block  BlockRef
	TxHash common.Hash
	evm.Transfer
}

// Deployment is a contract and what made it.
type Deployment struct {
	Contract common.Address
	TxHash   common.Hash
	// Deployer sent the transaction; Creator is the contract that created this one
	// inside it, nil if the transaction did so itself.
	Deployer common.Address
	Creator  *common.Address
}

// DeploymentDetails are all that a transaction did.
type DeploymentDetails struct {
	Transaction Transaction
	// Transfers are in log order, Internals in the order in which they began, which are
	// known if the block was Traced.
	Transfers []TokenTransfer
	Internals []Internal
	Traced    bool
	// Message is the interchain message that the transaction sent or delivered, nil
	// if none.
	Message *InterchainMessage
}

// InterchainMessage is a message of the Teleporter contract that a transaction sent,
// or delivered.
type InterchainMessage struct {
	ID common.Hash
	// Delivered tells a message from another chain from one to another chain, and
	// BlockchainID is that other chain; it is empty for a Warp message that was sent
	// by other means than Teleporter, which names no destination.
	Delivered    bool
	BlockchainID ids.ID
}

// Contract is what is known of a contract by asking it.
type Contract struct {
	Address  common.Address
	Standard evm.Standard
	// Name and Symbol are empty where the contract has none. Decimals is nil where it
	// tells none.
	Name, Symbol string
	Decimals     *uint8
}

// TokenBalance is what a wallet holds of an ERC-1155 token.
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

// Day is how many transactions the blocks of a UTC day had.
type Day struct {
	// Start is the day's first second, in Unix seconds.
	Start        int64
	Transactions uint64
}
