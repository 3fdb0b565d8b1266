// Package data implements the Data API's operations on the primary network: current and past holdings of addresses,
// stakers, subnets, and vertices of the X-Chain. It parses requests, reads the indexes of the network and converts the
// result to the API's format. It stores nothing itself.
//
// An answer is never silently outdated. Until the index of a chain that an answer depends on has caught up, the answer
// is 503. Other answers state the progress of the index of the path's chain (the P-Chain if the path has none) in
// headers, as of the start of the answer: Indexed-Height and Indexed-Timestamp are those of the last indexed block,
// and Indexed-Lag is the number of blocks that are known but not indexed. Indexed-State is
// "following"; "stalled" or "stopped" while indexing is blocked, so that there may be unknown blocks; or "catching up".
package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/networks"
	"quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/vertices"
)

// Network is a network whose indexes are served. All fields but the readers are required. Operations that need a
// missing reader answer 503.
type Network struct {
	// NetworkID is 1 for mainnet and 5 for fuji. It determines the prefix of addresses.
	NetworkID uint32
	// XChainID and CChainID are blockchain IDs; AVAXAssetID is the asset that pays fees.
	XChainID, CChainID, AVAXAssetID ids.ID
	// Progress returns the progress of the index of the P-Chain, X-Chain or C-Chain. It is called several times per
	// request.
	Progress func(ctx context.Context, chainID ids.ID) Progress

	Ledger   Ledger
	Subnets  Subnets
	Vertices Vertices
	// Archives are the stored blocks of the P-Chain and the X-Chain by blockchain ID. It is nil if they are not stored.
	Archives map[ids.ID]Archive
	// ArchiveProgress returns how far blocks and transactions are found by ID, as Progress. It is required with Archives.
	ArchiveProgress func(chainID ids.ID) Progress
	// Registry is the index of blockchains and validators, and RegistryProgress its progress, as Progress.
	Registry         Registry
	RegistryProgress func(ctx context.Context) Progress
	// Uptimes may be nil; then answers omit the uptimes of validators.
	Uptimes Uptimes
	// Versions returns the versions of the nodes that the service is connected to, such as v1.14.2; it may be nil.
	Versions func() map[ids.NodeID]string
	// Rewards may be nil; then answers omit the expected rewards of current stakes that are not indexed.
	Rewards Rewards

	// Cortina returns when the X-Chain got blocks, zero if it always had blocks. Earlier transactions have no time on
	// the chain. Nil means that it always had blocks.
	Cortina func(ctx context.Context) (time.Time, error)
	// Times may be nil; then the time of X-Chain transactions before Cortina has only an upper bound.
	Times Times

	// Needs states what must be configured before the network is indexed. If it is set, all other fields are unused.
	// Clients get it.
	Needs string
}

// Progress is the progress of a blockchain's index.
type Progress = reply.Progress

// Options configures an API.
type Options struct {
	// Networks finds networks.
	Networks networks.Directory[Network]
	// Log may be nil.
	Log *slog.Logger
	// Timeout limits one request; 0 means 30 s.
	Timeout time.Duration
	// Key authenticates page tokens; see page.KeyOr.
	Key []byte
}

// API serves the operations. It is safe for concurrent use.
type API struct {
	networks networks.Directory[Network]
	log      *slog.Logger
	timeout  time.Duration
	key      []byte // authenticates page tokens
}

// New returns an API.
func New(o Options) (*API, error) {
	a := &API{
		networks: o.Networks,
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		timeout:  cmp.Or(o.Timeout, 30*time.Second),
		key:      page.KeyOr(o.Key),
	}
	for _, name := range a.networks.Names() {
		if n, err := a.networks.Get(name); err == nil { // open already
			if _, err := newNetwork(name, n); err != nil {
				return nil, fmt.Errorf("network %q: %w", name, err)
			}
		}
	}
	return a, nil
}

// ErrCatchingUp means that an index does not reach far enough for an answer.
var ErrCatchingUp = errors.New("the index has not caught up")

// explain converts err to the error for the client. request is the context of the client's request.
func (n *network) explain(request context.Context, err error) error {
	return reply.Explain(request, err, func(err error) error {
		switch {
		case errors.Is(err, index.ErrPosition):
			return reply.BadToken(err)
		case errors.Is(err, ledger.ErrTooMany):
			return &apierr.Error{Status: http.StatusBadRequest, Message: "addresses: together they own more than can be gone through for one answer; ask for fewer at a time", Err: err}
		case errors.Is(err, ErrCatchingUp), errors.Is(err, ledger.ErrBehind), errors.Is(err, ledger.ErrUnknownChain), errors.Is(err, vertices.ErrIncomplete):
			for _, chain := range n.chains {
				if halted := n.Progress(request, chain.id).Halted("the " + chain.name); halted != nil {
					return halted
				}
			}
			return reply.CatchingUp(err, "the index of this chain is still catching up; try again later")
		default:
			return apierr.Internal(err)
		}
	})
}

// absent returns the error for an index that this instance does not have.
func absent(what string) error {
	return reply.Lacking(nil, "this instance has no index of %s on this network", what)
}
