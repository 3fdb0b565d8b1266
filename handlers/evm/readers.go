package evm

import (
	"context"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/node"
)

// Index is the index of a chain; *evm.Index implements it. Each answer reflects one state, pages follow each other
// without repetition or gap, and errors are those of that package and of the store. It must be safe for concurrent use
// and return soon after ctx has ended.
type Index interface {
	// Known reports for each address whether it may be a contract. Addresses may be repeated.
	Known(ctx context.Context, addresses []common.Address) ([]bool, error)
	Block(ctx context.Context, number uint64) (*evm.Block, error)
	Blocks(ctx context.Context, q evm.BlockQuery) (*evm.BlockPage, error)
	Latest(ctx context.Context, q evm.LatestQuery) (*evm.TransactionPage, error)
	Internals(ctx context.Context, q evm.WalletQuery) (*evm.InternalPage, error)
	// BlockInternals returns the internal transactions of a block that involve any of the wallets. traced is false if the
	// index lacks the call traces of the block.
	BlockInternals(ctx context.Context, number uint64, wallets []common.Address) (found []evm.Internal, traced bool, err error)
	Transfers(ctx context.Context, q evm.WalletQuery) (*evm.TransferPage, error)
	NativeTransactions(ctx context.Context, q evm.WalletQuery) (*evm.TransactionPage, error)
	TokenTransfers(ctx context.Context, standard chain.Standard, q evm.WalletQuery) (*evm.TransferPage, error)
	// ContractTransfers returns the transfers of a contract, which is the query's wallet.
	ContractTransfers(ctx context.Context, q evm.WalletQuery) (*evm.TransferPage, error)
	Interactions(ctx context.Context, q evm.InteractionQuery) (*evm.InteractionPage, error)
	Balances(ctx context.Context, q evm.BalanceQuery) (*evm.BalancePage, error)
	TokenSums(ctx context.Context, q evm.TokenSumQuery) (*evm.TokenSumPage, error)
	Holdings(ctx context.Context, q evm.HoldingQuery) (*evm.HoldingPage, error)
	Deployment(ctx context.Context, contract common.Address) (*evm.TransactionDetails, error)
	Deployments(ctx context.Context, q evm.DeploymentQuery) (*evm.DeploymentPage, error)
	// Details returns the transaction with a hash, or nil if it is not indexed. whole reports that all its effects are
	// indexed, as those of deployments are.
	Details(ctx context.Context, hash common.Hash) (d *evm.TransactionDetails, whole bool, err error)
	Tokens(ctx context.Context, q evm.TokenQuery) (*evm.TokenPage, error)
	// Token returns a token, nil if there is none. Only ERC-721 and ERC-1155 have tokens.
	Token(ctx context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (*evm.Token, error)
	// Deployed returns the last deployment of a contract, nil if none is indexed.
	Deployed(ctx context.Context, contract common.Address) (*evm.Deployment, error)
	// Days returns days with transactions, newest first: those before the day that begins at before, in Unix seconds,
	// or all if it is 0.
	Days(ctx context.Context, before int64, limit int) ([]evm.Day, error)
	Periods(ctx context.Context, q evm.PeriodQuery) (*evm.PeriodPage, error)
	// Windows returns windows of some lengths in hours, in order. A length of 0 means all blocks.
	Windows(ctx context.Context, hours []uint64) (*evm.Windows, error)
	ICMList(ctx context.Context, q evm.ICMQuery) ([]evm.ICMEntry, error)
	// ICMMessages returns the events of messages on this chain, in the order of the IDs.
	ICMMessages(ctx context.Context, messageIDs []common.Hash) ([]evm.ICMEvents, error)
	// ICMLog returns at most limit events from a position on.
	ICMLog(ctx context.Context, from evm.ICMPosition, limit int) (evm.ICMLog, error)
}

var _ Index = (*evm.Index)(nil)

// Contracts returns the properties of contracts; *contracts.Book implements it. Errors are those of package node or of
// the store. The rules of Index apply.
type Contracts interface {
	// Contracts returns the contracts at the addresses, nil where there is none.
	Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error)
	// Settled is Contracts for contracts that emitted a token transfer. One that follows no standard is nil until a call
	// after the given time has the same result.
	Settled(ctx context.Context, addresses []common.Address, after time.Time) ([]*evm.Contract, error)
}

var _ Contracts = (*contracts.Book)(nil)

// URIs returns the URIs of tokens' metadata; *contracts.Book implements it. The rules of Contracts apply.
type URIs interface {
	// TokenURIs returns the answers of the tokens' contracts, in order: empty if a contract returns nothing, nil if
	// the URI of a single token cannot be read. It fails if none can be read.
	TokenURIs(ctx context.Context, tokens []contracts.Token) ([]*string, error)
	// RememberedURI returns the cached result of TokenURIs without waiting; ok is false if it is not cached.
	RememberedURI(standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, ok bool)
}

var _ URIs = (*contracts.Book)(nil)

// Node is a node of the chain; *node.EVM implements it. Errors are those of package node.
type Node interface {
	// NativeBalance returns the balance after a block, in the smallest unit.
	NativeBalance(ctx context.Context, address common.Address, block uint64) (*uint256.Int, error)
	// Calls executes at most node.MaxCalls calls after a block.
	Calls(ctx context.Context, block *uint64, calls []node.EVMCall) ([]node.EVMReturn, error)
	// BlockNumber returns the number of the block with a hash. ok is false if the node has no such block.
	BlockNumber(ctx context.Context, hash common.Hash) (number uint64, ok bool, err error)
	// Blocks returns up to n blocks from a height on, with call traces if traces is set.
	Blocks(ctx context.Context, from uint64, n int, traces bool) ([]node.EVMBlock, error)
}

var _ Node = (*node.EVM)(nil)

// MetadataReader returns the fetched metadata of tokens; *metadata.Keeper implements it. The rules of Index apply.
type MetadataReader interface {
	// Metadata returns the metadata of the tokens, in order. It does not wait for fetches.
	Metadata(ctx context.Context, tokens []evm.Token) ([]metadata.Metadata, error)
}

var _ MetadataReader = (*metadata.Keeper)(nil)
