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
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/index/ledger"
	"quorate/store"
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

	// Needs is for networks of which nothing is recorded, and leaves out all the rest:
	// what has to be configured first. Clients are told.
	Needs string
}

// Progress is how far the record of a blockchain is.
type Progress struct {
	// Height and Time are those of the last block that is recorded.
	Height uint64
	Time   time.Time
	// Lag is how many accepted blocks are known and not recorded.
	Lag uint64
	// CaughtUp says that the record is at the chain's end, or a few blocks away, as
	// far as is known.
	CaughtUp bool
	// Rebuilding says that the record is being made again from what is kept of its
	// blocks, of which Rebuilt percent is done.
	Rebuilding bool
	Rebuilt    int
	// Err is why recording does not go on at the moment.
	Err error
	// Needs says what has to be done before it goes on, where it does not go on by
	// itself; clients are told.
	Needs string
}

// Options of the operations.
type Options struct {
	// Networks by their name in paths. Whichever of fuji and testnet is given also
	// answers to the other name.
	Networks map[string]Network
	// Log may be nil.
	Log *slog.Logger
	// Timeout bounds the work on one request; 0 means 30 s.
	Timeout time.Duration
}

// API serves the operations. Safe for concurrent use.
type API struct {
	networks map[string]*network // by name in paths, aliases included
	names    []string            // configured names, sorted
	log      *slog.Logger
	timeout  time.Duration
}

// New makes an API.
func New(o Options) (*API, error) {
	a := &API{
		networks: make(map[string]*network),
		names:    slices.Sorted(maps.Keys(o.Networks)),
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		timeout:  cmp.Or(o.Timeout, 30*time.Second),
	}
	for _, name := range a.names {
		n, err := newNetwork(name, o.Networks[name])
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", name, err)
		}
		a.networks[name] = n
	}
	for name, alias := range map[string]string{"fuji": "testnet", "testnet": "fuji"} {
		n, ok := o.Networks[name]
		if _, taken := o.Networks[alias]; ok && !taken {
			a.networks[alias], _ = newNetwork(alias, n) // as valid as under its name
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

// codeCatchingUp tells a record that is catching up from other reasons for a 503.
const codeCatchingUp = "INDEX_CATCHING_UP"

// codeIndexLacks says that an operator has to do something first.
const codeIndexLacks = "INDEX_LACKS_SOURCE"

// explain turns what went wrong into what the client is told. Request is the
// context of the client's request.
func explain(request context.Context, err error) error {
	if err == nil {
		return nil
	}
	var known *apierr.Error
	switch {
	case errors.As(err, &known):
		return err
	case request.Err() != nil && !errors.Is(context.Cause(request), apierr.ErrStopping):
		return apierr.ErrClientGone
	case request.Err() != nil, errors.Is(err, store.ErrClosed):
		return apierr.Unavailable(err, "the service is stopping; send the request again")
	case errors.Is(err, context.DeadlineExceeded):
		return apierr.Unavailable(err, "the answer was not complete in the time allowed for a request; ask for fewer addresses or a smaller page")
	case errors.Is(err, ledger.ErrPosition):
		return badToken(err)
	case errors.Is(err, ledger.ErrTooMany):
		return &apierr.Error{Status: http.StatusBadRequest, Message: "addresses: together they own more than can be gone through for one answer; ask for fewer at a time", Err: err}
	case errors.Is(err, ErrCatchingUp), errors.Is(err, ledger.ErrBehind), errors.Is(err, ledger.ErrUnknownChain):
		e := apierr.Unavailable(err, "the index of this chain is still catching up; try again later")
		e.Code = codeCatchingUp
		return e
	default:
		return apierr.Internal(err)
	}
}

// absent answers for a record that this instance does not keep.
func absent(what string) error {
	return apierr.Unavailable(nil, "this instance keeps no record of %s on this network", what)
}

func reply(c echo.Context, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return apierr.Internal(err)
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, content)
}
