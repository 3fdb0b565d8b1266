package evm

import (
	"errors"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

var (
	// ErrEmpty says that nothing of the chain is recorded yet.
	ErrEmpty = errors.New("nothing of the chain is recorded yet")
	// ErrUntraced reports that the index has the call traces of no block, since no node
	// gave any.
	ErrUntraced = errors.New("the index has no call traces")
	// ErrBeyondTip says that a block is not recorded yet.
	ErrBeyondTip = errors.New("block is not recorded yet")
	// ErrBeforeRecord says that a block is older than the record.
	ErrBeforeRecord = errors.New("block is older than the record")
	// ErrNotDeployed says that no recorded transaction made a contract at an address:
	// it is an account, or its code was there from the beginning.
	ErrNotDeployed = errors.New("no recorded transaction deployed it")
	// ErrPosition says that a position is not one of the list.
	ErrPosition = errors.New("not a position in the list")
)

// NotDeployedError is an ErrNotDeployed that says what may be missing.
type NotDeployedError struct {
	Contract common.Address
	// First is the first block of the index.
	First uint64
	// TracesMissing spans the blocks in whose calls it may have been made; nil if there
	// are none.
	TracesMissing *Span
}

func (e *NotDeployedError) Error() string { return fmt.Sprintf("%s: %s", ErrNotDeployed, e.Contract) }

// Unwrap returns ErrNotDeployed.
func (e *NotDeployedError) Unwrap() error { return ErrNotDeployed }

// Span is a range of blocks, both ends included.
type Span struct{ From, To uint64 }

// LatestQuery asks for transactions, newest first.
type LatestQuery struct {
	// Success, if it is not nil, leaves those that ended otherwise out.
	Success *bool
	// Limit is the greatest length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the page before, nil for the first.
	After []byte
}

// TransactionPage is a page of transactions.
type TransactionPage struct {
	Transactions []Transaction
	// Next is the position of the next page, nil if this is the last.
	Next []byte
}

// WalletQuery asks for what has to do with an address, newest first.
type WalletQuery struct {
	Wallet common.Address
	// Start and End bound the numbers of blocks, Start <= number < End; nil does not.
	Start, End *uint64
	// Limit is the greatest length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the page before, nil for the first.
	After []byte
}

// InternalPage is a page of calls inside transactions.
type InternalPage struct {
	Internals []Internal
	// TracesMissing spans the blocks that were asked for and have no call traces: calls
	// in them are left out. Blocks between them may have theirs. Nil if none lack them.
	TracesMissing *Span
	// Next is the position of the next page, nil if this is the last.
	Next []byte
}

// TransferPage is a page of transfers.
type TransferPage struct {
	Transfers []TokenTransfer
	// Next is the position of the next page, nil if this is the last.
	Next []byte
}

// BalanceQuery asks what a wallet holds, by contract and token ID, both ascending.
type BalanceQuery struct {
	Wallet common.Address
	// Contract, if it is not nil, leaves tokens of others out.
	Contract *common.Address
	// At is the number of the block after which balances are told; nil is the last.
	At *uint64
	// Limit is the greatest length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the page before, nil for the first.
	After []byte
}

// BalancePage is a page of balances, none of which is 0.
type BalancePage struct {
	Balances []TokenBalance
	// First is the first block of the index. Unless it is 0, what was held before is
	// missing from the balances.
	First uint64
	// At is the block after which these are the balances: the same on all pages.
	At BlockRef
	// Next is the position of the next page, nil if this is the last.
	Next []byte
}

// DeploymentQuery asks for contracts that an address deployed, newest first: those
// whose transaction it sent, and those that it made itself, being a contract.
type DeploymentQuery struct {
	Address common.Address
	// Limit is the greatest length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the page before, nil for the first.
	After []byte
}

// DeploymentPage is a page of deployments.
type DeploymentPage struct {
	Deployments []Deployment
	// TracesMissing is as that of InternalPage, of all blocks: contracts that were made
	// in their calls are left out.
	TracesMissing *Span
	// Next is the position of the next page, nil if this is the last.
	Next []byte
}

// TokenQuery asks for the tokens of a collection by their ID, ascending; burnt ones
// are left out.
type TokenQuery struct {
	Contract common.Address
	// Standard is that of the contract: ERC721 or ERC1155; others have no tokens.
	Standard evm.Standard
	// Limit is the greatest length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the page before, nil for the first.
	After []byte
}

// TokenPage is a page of tokens.
type TokenPage struct {
	Tokens []Token
	// Next is the position of the next page, nil if this is the last.
	Next []byte
}
