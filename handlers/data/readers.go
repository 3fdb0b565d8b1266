package data

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/chain/ledger"
	"quorate/index/ledger"
)

// Ledger is the record of outputs and stakers of one network, as *ledger.Record
// has it: each answer is of one state, pages follow on each other without
// repetition or gap, and errors are those of the package and the store's. It is
// used from many goroutines and returns soon after ctx has ended.
type Ledger interface {
	UTXOs(ctx context.Context, q ledger.OutputQuery) (*ledger.OutputPage, error)
	Balances(ctx context.Context, chainID ids.ID, addresses []ids.ShortID, at time.Time) (balances []ledger.Balance, now time.Time, err error)
	ActiveStakings(ctx context.Context, q ledger.StakingQuery) (*ledger.StakingPage, error)
	Delegations(ctx context.Context, q ledger.DelegationQuery) (*ledger.DelegationPage, error)
	// Assets returns what is known of assets, nil for those of which nothing is.
	Assets(ctx context.Context, assetIDs []ids.ID) ([]*chain.Asset, error)
}

var _ Ledger = (*ledger.Record)(nil)

// Subnets is the record of the subnets of one network, the primary network among
// them as the oldest: it has the ID ids.Empty, height 0, the time of genesis, no
// owners, and the X- and the C-Chain. Otherwise as Ledger.
type Subnets interface {
	Subnets(ctx context.Context, q SubnetQuery) (*SubnetPage, error)
}

// SubnetQuery asks for subnets in the order of the time and height of their
// creation, and of their IDs as text.
type SubnetQuery struct {
	// Ascending begins with the oldest.
	Ascending bool
	// Limit is the size of a page, at least 1.
	Limit int
	// After is where the page before ended, nil for the first one: SubnetPage.Next,
	// or, as ledger.ErrPosition tells, something else.
	After []byte
}

// SubnetPage is a part of the list of subnets.
type SubnetPage struct {
	Subnets []Subnet
	// Next is where the following page begins, nil if there is none; at most 1 KiB.
	Next []byte
}

// Subnet is a subnet as it is now.
type Subnet struct {
	ID ids.ID
	// Height and Time are those of the P-Chain block that created it.
	Height uint64
	Time   time.Time
	Owners chain.Owners
	// Conversion is nil for a subnet that is no L1; ConversionTxID made it one.
	Conversion     *chain.Conversion
	ConversionTxID ids.ID
	// Blockchains are all of it, oldest first.
	Blockchains []Blockchain
}

// Blockchain is a blockchain of a subnet.
type Blockchain struct {
	ID ids.ID
	// Height and Time are those of the P-Chain block that created it.
	Height uint64
	Time   time.Time
	chain.Chain
}

// Vertices is the record of the X-Chain's vertices, of before it had blocks. Its
// errors may be ErrCatchingUp while it is incomplete. Otherwise as Ledger.
type Vertices interface {
	Vertices(ctx context.Context, q VertexQuery) (*VertexPage, error)
}

// VertexQuery asks for the vertices at a height in the order of their index, and of
// their IDs as text.
type VertexQuery struct {
	Height uint64
	// Ascending begins with the least index.
	Ascending bool
	// Limit is the size of a page, at least 1.
	Limit int
	// After is as in SubnetQuery.
	After []byte
}

// VertexPage is a part of the list of vertices at a height.
type VertexPage struct {
	Vertices []Vertex
	// Next is as in SubnetPage.
	Next []byte
}

// Vertex is what the X-Chain accepted before it had blocks.
type Vertex struct {
	ID        ids.ID
	ParentIDs []ids.ID
	Height    uint64
	// Index is its place in the order of acceptance, from 0, and Time when the node
	// accepted it.
	Index uint64
	Time  time.Time
	TxIDs []ids.ID
	// Size is in bytes.
	Size int
}
