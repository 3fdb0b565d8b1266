package evm

import (
	"errors"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

var (
	// ErrEmpty means that no block of the chain is indexed yet.
	ErrEmpty = errors.New("no block of the chain is indexed yet")
	// ErrUntraced means that the index has no call traces of any block, because no node gave any.
	ErrUntraced = errors.New("the index has no call traces")
	// ErrBeyondTip means that a block is not indexed yet.
	ErrBeyondTip = errors.New("block is not indexed yet")
	// ErrBeforeFirst means that a block precedes the first indexed block.
	ErrBeforeFirst = errors.New("block precedes the first indexed block")
	// ErrNotDeployed means that no indexed transaction deployed a contract at an address: it is an account, or its code
	// is part of the genesis.
	ErrNotDeployed = errors.New("no indexed transaction deployed it")
	// ErrNoICM means that an older version, which indexed no ICM messages, began the index.
	ErrNoICM = errors.New("ICM messages are not indexed until the index is rebuilt")
	// ErrNoBlocks means that an older version indexed a block, without its gas, fees and number of transactions.
	ErrNoBlocks = errors.New("blocks are not indexed until the index is rebuilt")
)

// NotDeployedError wraps ErrNotDeployed with the parts that the index lacks.
type NotDeployedError struct {
	Contract common.Address
	// First is the first block of the index.
	First uint64
	// TracesMissing spans the untraced blocks whose calls may have deployed it; nil if there are none.
	TracesMissing *Span
}

func (e *NotDeployedError) Error() string { return fmt.Sprintf("%s: %s", ErrNotDeployed, e.Contract) }

// Unwrap returns ErrNotDeployed.
func (e *NotDeployedError) Unwrap() error { return ErrNotDeployed }

// Span is a range of blocks, both ends included.
type Span struct{ From, To uint64 }

// LatestQuery selects transactions, newest first.
type LatestQuery struct {
	// Block, if not nil, is the number of the only block to list.
	Block *uint64
	// Success, if not nil, selects only successful or only failed transactions.
	Success *bool
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// TransactionPage is a page of transactions.
type TransactionPage struct {
	Transactions []Transaction
	// First is the first block that the list covers.
	First uint64
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// WalletQuery selects items that involve an address, newest first.
type WalletQuery struct {
	Wallet common.Address
	// Start and End bound the block numbers, Start <= number < End; nil means no bound.
	Start, End *uint64
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// InternalPage is a page of internal transactions.
type InternalPage struct {
	Internals []Internal
	// TracesMissing spans the selected blocks without call traces; their internal transactions are missing. Blocks
	// between them may have traces. Nil if all blocks have them.
	TracesMissing *Span
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// TransferPage is a page of transfers.
type TransferPage struct {
	Transfers []TokenTransfer
	// First is the first block that the list covers.
	First uint64
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// BalanceQuery selects a wallet's balances, by contract and token ID, both ascending.
type BalanceQuery struct {
	Wallet common.Address
	// Contract, if not nil, selects the tokens of one contract.
	Contract *common.Address
	// At is the number of the block after which the balances hold; nil means the last block.
	At *uint64
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// BalancePage is a page of balances greater than 0.
type BalancePage struct {
	Balances []TokenBalance
	// First is the first block of the index. Unless it is 0, tokens received before it are missing from the balances.
	First uint64
	// At is the block after which the balances hold; the same on all pages.
	At BlockRef
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// DeploymentQuery selects the contracts that an address deployed, newest first: by sending the transaction or, if it is
// a contract, by creating them in a call.
type DeploymentQuery struct {
	Address common.Address
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// DeploymentPage is a page of deployments.
type DeploymentPage struct {
	Deployments []Deployment
	// TracesMissing spans the blocks without call traces among all blocks; contracts created in their calls are
	// missing.
	TracesMissing *Span
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// TokenQuery selects the tokens of a collection that are not burnt, by ID, ascending.
type TokenQuery struct {
	Contract common.Address
	// Standard is the standard of the contract, ERC721 or ERC1155; others have no tokens.
	Standard evm.Standard
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// TokenPage is a page of tokens.
type TokenPage struct {
	Tokens []Token
	// Next is the position of the next page, nil on the last page.
	Next []byte
}
