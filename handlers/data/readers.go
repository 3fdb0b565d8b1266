package data

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/registry"
	"quorate/internal/index/vertices"
	"quorate/internal/node/stakes"
	"quorate/internal/node/uptime"
)

// Ledger is the index of outputs and stakers of one network; *ledger.Index implements it. Each answer reflects one
// state, pages follow each other without repetition or gap, and errors are those of that package and of the store. It
// must be safe for concurrent use and return soon after ctx has ended.
type Ledger interface {
	UTXOs(ctx context.Context, q ledger.OutputQuery) (*ledger.OutputPage, error)
	Balances(ctx context.Context, chainID ids.ID, addresses []ids.ShortID, at time.Time) (balances []ledger.Balance, now time.Time, err error)
	ActiveStakings(ctx context.Context, q ledger.StakingQuery) (*ledger.StakingPage, error)
	Delegations(ctx context.Context, q ledger.DelegationQuery) (*ledger.DelegationPage, error)
	// Outputs returns outputs by ID, nil for unknown ones.
	Outputs(ctx context.Context, outputIDs []ids.ID) ([]*ledger.Output, error)
	// Presence returns the chains on which each address has had outputs.
	Presence(ctx context.Context, chainIDs []ids.ID, addresses []ids.ShortID) ([][]ids.ID, error)
	// LastActivity returns the last creation or consumption of an output of the addresses on a chain, nil if there is
	// none. The error may be ledger.ErrNoActivity.
	LastActivity(ctx context.Context, chainID ids.ID, addresses []ids.ShortID) (*ledger.Activity, error)
	// Staking returns a staking transaction, nil if none has the ID.
	Staking(ctx context.Context, txID ids.ID) (*ledger.Staking, error)
	// Assets returns the known assets, nil for unknown ones.
	Assets(ctx context.Context, assetIDs []ids.ID) ([]*chain.Asset, error)
}

var _ Ledger = (*ledger.Index)(nil)

// Rewards returns the expected rewards of current stakes; *stakes.Cache implements it. They are by transaction, in
// nAVAX, before commission. It omits stakes that the upstream node does not list. An error is the upstream node's, and
// comes with the known rewards. It returns soon after ctx has ended.
type Rewards interface {
	Potential(ctx context.Context, of map[ids.ID]stakes.Validator) (map[ids.ID]uint64, error)
}

var _ Rewards = (*stakes.Cache)(nil)

// Subnets is the index of the subnets of one network, including the primary network; *subnets.Index implements it.
// The rules of Ledger apply.
type Subnets interface {
	List(ctx context.Context, ascending bool, limit int, after *subnets.Position) (*subnets.Page, error)
	Geneses(ctx context.Context, of ...subnets.Founded) ([][]byte, error)
	Describe(ctx context.Context, s *subnets.Subnet) (height uint64, err error)
}

var _ Subnets = (*subnets.Index)(nil)

// Registry is the index of blockchains and validators of one network; *registry.Index implements it. The rules of Ledger
// apply.
type Registry interface {
	Registered(ctx context.Context, id ids.ID) (*registry.Registered, error)
	Blockchain(ctx context.Context, id ids.ID) (*registry.Blockchain, error)
	Blockchains(ctx context.Context, ascending bool, limit int, after *registry.Place) ([]*registry.Blockchain, *registry.Place, error)
	Validations(ctx context.Context, q registry.Query) (*registry.Page, error)
	L1Validators(ctx context.Context, q registry.L1Query) (*registry.L1Page, error)
	Days(ctx context.Context, q registry.DaysQuery) (days []registry.Day, more bool, err error)
}

var _ Registry = (*registry.Index)(nil)

// Uptimes returns what a node observed of the primary network's validators, by node ID; *uptime.Cache implements it. It
// returns nil if no node reports it, and returns soon after ctx has ended.
type Uptimes interface {
	Uptimes(ctx context.Context) map[ids.NodeID]uptime.Uptime
}

var _ Uptimes = (*uptime.Cache)(nil)

// Vertices is the index of the X-Chain's vertices, which preceded its blocks; *vertices.Index implements it. Errors are
// those of that package and of the store. The rules of Ledger apply.
type Vertices interface {
	// At returns vertices of a height by index, and the position of the next page, nil if there is none.
	At(ctx context.Context, height uint64, ascending bool, limit int, after []byte) (page []vertices.Vertex, next []byte, err error)
	// Vertex returns the vertex with an ID, nil if there is none.
	Vertex(ctx context.Context, id ids.ID) (*vertices.Vertex, error)
	// Latest returns vertices with an index below a bound (nil: all), the highest first, and whether others follow.
	Latest(ctx context.Context, limit int, below *uint64) (page []vertices.Vertex, more bool, err error)
}

var _ Vertices = (*vertices.Index)(nil)

// Times returns the times of X-Chain vertices and of their transactions, by ID, which are not on the chain. It returns
// false if the time is unknown.
type Times interface {
	Time(id ids.ID) (time.Time, bool)
}
