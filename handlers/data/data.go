// Package data has the Data API's operations on the primary network: what
// addresses own and owned there, who stakes, which subnets there are, and vertices
// of the X-Chain. It reads requests, asks the records of the network they name and
// puts the answers into the API's form; it keeps nothing itself.
//
// An answer is never silently out of date. While the record of a chain that an
// answer depends on is being caught up, the answer is 503. Others say in headers
// how far the record of the path's chain (the P-Chain where the path has none) was
// when the answer was begun: Indexed-Height and Indexed-Timestamp are those of its
// last block, Indexed-Lag is how many accepted blocks were known and not recorded,
// and Indexed-State is "stalled" instead of "following" if nothing is being
// recorded at the moment, so that the chain may have gone on unnoticed.
package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/networks"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger"
)

// Network is a network whose records are served. All members are required but the
// readers, without which the operations that need them answer 503.
type Network struct {
	// NetworkID is 1 for mainnet and 5 for fuji. The prefix of addresses follows
	// from it.
	NetworkID uint32
	// XChainID and CChainID are the network's own, AVAXAssetID is the asset in which
	// it takes fees.
	XChainID, CChainID, AVAXAssetID ids.ID
	// Progress says how far the record of the P-, X- or C-Chain is. It is called
	// several times for each request and must not block.
	Progress func(chainID ids.ID) Progress

	Ledger   Ledger
	Subnets  Subnets
	Vertices Vertices
	// Rewards may be nil: then what live stakes will be paid is left out of answers,
	// unless it is recorded.
	Rewards Rewards

	// Cortina is when the X-Chain got blocks, zero if it always had some. What it accepted
	// before has no time on the chain. Nil means that it always had blocks.
	Cortina func(ctx context.Context) (time.Time, error)
	// Times may be nil: then of what the X-Chain accepted before Cortina only an upper
	// bound of its time is known.
	Times Times

	// Needs is for networks of which nothing is recorded, and leaves out all the rest:
	// what has to be configured first. Clients are told.
	Needs string
}

// Progress is how far the record of a blockchain is.
type Progress = reply.Progress

// Options of the operations.
type Options struct {
	// Networks finds networks.
	Networks networks.Directory[Network]
	// Log may be nil.
	Log *slog.Logger
	// Timeout bounds the work on one request; 0 means 30 s.
	Timeout time.Duration
}

// API serves the operations. Safe for concurrent use.
type API struct {
	networks networks.Directory[Network]
	log      *slog.Logger
	timeout  time.Duration
}

// New makes an API.
func New(o Options) (*API, error) {
	a := &API{
		networks: o.Networks,
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		timeout:  cmp.Or(o.Timeout, 30*time.Second),
	}
	for _, name := range a.networks.Names() {
		if n, err := a.networks.Get(name); err == nil { // it is open already
			if _, err := newNetwork(name, n); err != nil {
				return nil, fmt.Errorf("network %q: %w", name, err)
			}
		}
	}
	return a, nil
}

// Route adds the operations to e.
func (a *API) Route(e *echo.Echo) {
	for path, operation := range map[string]func(context.Context, echo.Context, *network) error{
		"/subnets":                            a.listSubnets,
		"/delegators":                         a.listDelegators,
		"/blockchains/:blockchainId/balances": a.listBalances,
		"/blockchains/:blockchainId/utxos":    a.listUTXOs,
		"/blockchains/:blockchainId/transactions\\:listStaking": a.listStaking,
		"/blockchains/:blockchainId/vertices\\:listByHeight":    a.listVertices,
	} {
		e.GET("/v1/networks/:network"+path, func(c echo.Context) error {
			n, err := a.network(c.Param("network"))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Request().Context(), a.timeout)
			defer cancel()
			return explain(c.Request().Context(), operation(ctx, c, n))
		})
	}
}

// ErrCatchingUp is what a reader says whose record does not reach yet to where an
// answer needs it.
var ErrCatchingUp = errors.New("the record is still being caught up")

// explain turns what went wrong into what the client is told. Request is the
// context of the client's request.
func explain(request context.Context, err error) error {
	return reply.Explain(request, err, func(err error) error {
		switch {
		case errors.Is(err, ledger.ErrPosition):
			return reply.BadToken(err)
		case errors.Is(err, ledger.ErrTooMany):
			return &apierr.Error{Status: http.StatusBadRequest, Message: "addresses: together they own more than can be gone through for one answer; ask for fewer at a time", Err: err}
		case errors.Is(err, ErrCatchingUp), errors.Is(err, ledger.ErrBehind), errors.Is(err, ledger.ErrUnknownChain):
			return reply.CatchingUp(err, "the index of this chain is still catching up; try again later")
		default:
			return apierr.Internal(err)
		}
	})
}

// absent answers for a record that this instance does not keep.
func absent(what string) error {
	return apierr.Unavailable(nil, "this instance keeps no record of %s on this network", what)
}
