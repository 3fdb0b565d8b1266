package data

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/node/stakes"
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

// Rewards knows what current stakes will be paid, as *stakes.Cache has it: by
// transaction, in nAVAX, before commission. Those that the upstream node does not list
// are left out; an error is the node's, and comes with what is known all the same. It
// returns soon after ctx has ended.
type Rewards interface {
	Potential(ctx context.Context, of map[ids.ID]stakes.Validator) (map[ids.ID]uint64, error)
}

var _ Rewards = (*stakes.Cache)(nil)

// Subnets is the record of the subnets of one network, as *subnets.Record has it:
// the primary network is among them. Otherwise as Ledger.
type Subnets interface {
	List(ctx context.Context, ascending bool, limit int, after *subnets.Position) (*subnets.Page, error)
	Geneses(ctx context.Context, of ...subnets.Founded) ([][]byte, error)
}

var _ Subnets = (*subnets.Record)(nil)

// Vertices is the record of the X-Chain's vertices, of before it had blocks. Its
// errors may be ErrCatchingUp while it is incomplete. Otherwise as Ledger.
type Vertices interface {
	Vertices(ctx context.Context, q VertexQuery) (*VertexPage, error)
}

// Times are the times of what the X-Chain accepted in vertices, by the ID of the vertex
// or transaction, which the chain does not tell; false for those that are not known.
type Times interface {
	Time(id ids.ID) (time.Time, bool)
}

// VertexQuery asks for the vertices at a height in the order of their index, and of
// their IDs as text.
type VertexQuery struct {
	Height uint64
	// Ascending begins with the least index.
	Ascending bool
	// Limit is the size of a page, at least 1.
	Limit int
	// After is where the page before ended, nil for the first one: VertexPage.Next,
	// or, as ledger.ErrPosition tells, something else.
	After []byte
}

// VertexPage is a part of the list of vertices at a height.
type VertexPage struct {
	Vertices []Vertex
	// Next is where the following page begins, nil if there is none; at most 1 KiB.
	Next []byte
}

// Vertex is what the X-Chain accepted before it had blocks. It has no time.
type Vertex struct {
	ID        ids.ID
	ParentIDs []ids.ID
	Height    uint64
	// Index is its place in the order of all vertices, from 0.
	Index uint64
	TxIDs []ids.ID
	// Size is in bytes.
	Size int
}
