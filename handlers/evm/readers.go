package evm

import (
	"context"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/node"
)

// Record is the record of a chain, as *evm.Record has it: each answer is of one
// state, pages follow on each other without repetition or gap, and errors are those
// of the package and the store's. It is used from many goroutines and returns soon
// after ctx has ended.
type Record interface {
	// Known says of addresses, in their order, whether they may be contracts. One may be
	// there several times.
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

// Contracts knows contracts by having asked them, as *contracts.Book does. Errors are
// package node's or the store's. Otherwise as Record.
type Contracts interface {
	// Contracts are those at the addresses, nil where there is none.
	Contracts(ctx context.Context, addresses []common.Address) ([]*evm.Contract, error)
}

var _ Contracts = (*contracts.Book)(nil)

// URIs knows where tokens say that their metadata are, as *contracts.Book does.
// Otherwise as Contracts.
type URIs interface {
	// TokenURIs are what the contracts of tokens answer, in order: empty if one answers
	// nothing, nil if that of a single token cannot be told. That none can is an error.
	TokenURIs(ctx context.Context, tokens []contracts.Token) ([]*string, error)
	// RememberedURI is what TokenURIs tells, as far as that takes no waiting: ok is
	// false if TokenURIs has to be asked.
	RememberedURI(standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, ok bool)
}

var _ URIs = (*contracts.Book)(nil)

// Node is a node of the chain, as *node.EVM is. Errors are package node's.
type Node interface {
	// NativeBalance is in the least unit, after a block.
	NativeBalance(ctx context.Context, address common.Address, block uint64) (*uint256.Int, error)
}

var _ Node = (*node.EVM)(nil)

// MetadataReader knows what tokens' metadata say, as far as they were fetched, as
// *metadata.Keeper does. Otherwise as Record.
type MetadataReader interface {
	// Metadata are those of the tokens, in their order. It fetches nothing while the
	// caller waits.
	Metadata(ctx context.Context, tokens []evm.Token) ([]metadata.Metadata, error)
}

var _ MetadataReader = (*metadata.Keeper)(nil)
