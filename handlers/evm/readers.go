package evm

import (
	"context"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/chain/evm"
	"quorate/index/evm"
)

// Record is the record of a chain, as *evm.Record has it: each answer is of one
// state, pages follow on each other without repetition or gap, and errors are those
// of the package and the store's. It is used from many goroutines and returns soon
// after ctx has ended.
type Record interface {
	// Known says of addresses, in their order, whether they may be contracts.
	Known(ctx context.Context, addresses []common.Address) ([]bool, error)
	Latest(ctx context.Context, q evm.LatestQuery) (*evm.TransactionPage, error)
	Internals(ctx context.Context, q evm.WalletQuery) (*evm.InternalPage, error)
	Transfers(ctx context.Context, q evm.WalletQuery) (*evm.TransferPage, error)
	Balances(ctx context.Context, q evm.BalanceQuery) (*evm.BalancePage, error)
	Deployment(ctx context.Context, contract common.Address) (*evm.DeploymentDetails, error)
	Deployments(ctx context.Context, q evm.DeploymentQuery) (*evm.DeploymentPage, error)
	Tokens(ctx context.Context, q evm.TokenQuery) (*evm.TokenPage, error)
	// Days are the days before one that begins at a time in Unix seconds, or 0 for
	// all, newest first. Days between two that had transactions are there.
	Days(ctx context.Context, before int64, limit int) ([]evm.Day, error)
}

var _ Record = (*evm.Record)(nil)

// Contracts knows contracts by having asked them. Errors are package node's or the
// store's. Otherwise as Record.
type Contracts interface {
	// Contracts are those at the addresses, nil where there is none.
	Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error)
}

// URIs knows where tokens say that their metadata are. Otherwise as Contracts.
type URIs interface {
	// TokenURI is what the contract answers, empty if it answers nothing.
	TokenURI(ctx context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (string, error)
}

// Node is a node of the chain. Errors are package node's.
type Node interface {
	// NativeBalance is in the least unit, after a block.
	NativeBalance(ctx context.Context, address common.Address, block uint64) (*uint256.Int, error)
}

// MetadataReader knows what tokens' metadata say, as far as they were fetched.
// Otherwise as Record.
type MetadataReader interface {
	// Metadata are those of the tokens, in their order. It fetches nothing while the
	// caller waits.
	Metadata(ctx context.Context, tokens []evm.Token) ([]Metadata, error)
}

// Metadata is what the metadata of a token say, and how far they were had. What they
// do not say is empty.
type Metadata struct {
	// Status is one of the Data API's words for that, such as INDEXED.
	Status string
	// Updated is when they were last fetched, zero if never.
	Updated time.Time

	Name, Symbol, Description        string
	Image, AnimationURL, ExternalURL string
	BackgroundColor                  string
	// Attributes (ERC-721) and Properties (ERC-1155) are JSON texts.
	Attributes, Properties string
	// Decimals are those of ERC-1155.
	Decimals *uint64
}
