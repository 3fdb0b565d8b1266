// Package evm implements the Data API's operations on EVM chains: transactions, internal transactions, tokens and
// their owners, contracts and their deployers, and ICM messages between chains. It parses requests, reads the indexes of
// the chains and converts the result to the API's format. It caches, in bounded memory, only immutable values: the text
// of addresses, and balances after a block.
//
// An answer is never silently outdated. Until the index has reached the last block for the first time, requests beyond
// it get 503. Later, even while the chain's node is down, answers contain what is indexed. They have the headers
// Indexed-Height, Indexed-Timestamp, Indexed-Lag and Indexed-State, as those on the primary network do, and
// Indexed-From if the index does not begin with the genesis block; balances of ERC-1155 tokens are then 503, because
// earlier transfers are unknown. If blocks lack call traces, the field tracesMissing
// states which. Values that only the chain's node has, for example the names of contracts and the logs of transactions,
// are requested when needed; the answer is 503 while the node is down. Some operations need an optional index, and are
// 503 with its name while it is off.
package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/holiman/uint256"
	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/evm/methods"
	"quorate/handlers/evm/tokenlist"
	"quorate/handlers/query"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/handlers/stream"
	"quorate/internal/bounded"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

// Options configures an API.
type Options struct {
	// Chains is required. It may be empty.
	Chains *Chains
	// Methods names methods; nil means methods.New().
	Methods *methods.Table
	// Lists adds token details; may be nil.
	Lists *tokenlist.Lists
	// Key authenticates page tokens and seals balances in them; see package page.
	Key []byte
	// Log may be nil.
	Log *slog.Logger
	// Timeout limits one request; 0 means 30 s.
	Timeout time.Duration
	// Answers limits the memory of answers about transactions with many effects, and divides it among clients. Nil means no
	// limit.
	Answers *node.Budget
	// Streams serves the stream of ICM messages; nil means default limits.
	Streams *stream.Streams
	// SignedAt returns when Warp messages were first signed, in the order of their IDs, and the zero time for those that
	// are not known to be signed. It may be nil.
	SignedAt func(ctx context.Context, messageIDs []ids.ID) ([]time.Time, error)
	// Webhooks reports that this instance sends webhooks.
	Webhooks bool
}

// API serves the operations. It is safe for concurrent use.
type API struct {
	chains  *Chains
	methods *methods.Table
	lists   *tokenlist.Lists
	key     []byte
	log     *slog.Logger
	timeout time.Duration
	answers *node.Budget
	streams *stream.Streams
	signed  func(ctx context.Context, messageIDs []ids.ID) ([]time.Time, error) // may be nil
	// webhooks is Options.Webhooks.
	webhooks bool

	plain    *bounded.Cache[common.Address, *addressParty] // addresses without further fields
	balances *bounded.Cache[balanceOf, uint256.Int]
}

// New returns an API.
func New(o Options) *API {
	a := &API{
		chains:  o.Chains,
		methods: o.Methods,
		lists:   o.Lists,
		key:     paging.KeyOr(o.Key),
		log:     cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		timeout: cmp.Or(o.Timeout, 30*time.Second),
		answers: o.Answers,
		streams: o.Streams,
		signed:  o.SignedAt,

		webhooks: o.Webhooks,

		plain:    bounded.New(bounded.Options[common.Address, *addressParty]{Entries: plainRoom}),
		balances: bounded.New(bounded.Options[balanceOf, uint256.Int]{Entries: balanceRoom}),
	}
	if a.methods == nil {
		a.methods = methods.New()
	}
	if a.streams == nil {
		a.streams = stream.New(stream.Options{})
	}
	return a
}

// Codes of a 503: an index without any call traces, one that begins after the requested block, and one that is off.
const (
	codeUntraced    = "INDEX_UNTRACED"
	codeBeginsLater = "INDEX_BEGINS_LATER"
	codeOff         = "INDEX_OFF"
)

// balancesUnknown refuses balances that follow from transfers which the index lacks.
func balancesUnknown(first uint64) error {
	e := apierr.Unavailable(nil, "balances of ERC-1155 tokens follow from all transfers since the genesis block, and the index of this chain begins with block %d, as the node of this instance lacks earlier ones; ask another instance", first)
	e.Code = codeBeginsLater
	return e
}

// notDeployed returns the message for a contract whose deployment is not indexed.
func notDeployed(e *evm.NotDeployedError) string {
	message := "address: no transaction of this chain is known to have deployed a contract there; it is an account, or its code was there from the beginning"
	if e.First > 0 {
		message += fmt.Sprintf(", or it was deployed before block %d, with which the index begins", e.First)
	}
	if m := e.TracesMissing; m != nil {
		message += fmt.Sprintf(", or a call in blocks %d to %d made it, some of which have no call traces", m.From, m.To)
	}
	return message
}

// Explain converts an error of a chain's index or node to the error for the client. request is the context of the
// client's request.
func Explain(request context.Context, err error) error {
	return reply.Explain(request, err, func(err error) error {
		var refusal *node.RPCError
		var unknown *evm.NotDeployedError
		var off *evm.OffError
		var later *evm.BeginsLaterError
		switch {
		case errors.As(err, &later):
			e := apierr.Unavailable(err, "blockNumber: the index %s of this instance begins with block %d; ask for that block or a later one, or another instance; its operator can run `quorate index rebuild evm` to index earlier blocks", later.Index, later.First)
			e.Code = codeBeginsLater
			return e
		case errors.Is(err, evm.ErrBeforeFirst):
			e := apierr.Unavailable(err, "blockNumber: the index of this chain begins with a later block (header Indexed-From), as the node of this instance lacks earlier ones; ask for a later block, or another instance")
			e.Code = codeBeginsLater
			return e
		case errors.As(err, &off):
			e := apierr.Unavailable(err, "this instance does not index it; its operator can add %s to networks.NAME.evm_indexes, and the index begins with the next block", off.Index)
			e.Code = codeOff
			return e
		case errors.As(err, &unknown):
			return &apierr.Error{Status: http.StatusNotFound, Message: notDeployed(unknown), Err: err}
		case errors.Is(err, index.ErrPosition):
			return reply.BadToken(err)
		case errors.Is(err, evm.ErrBeyondTip):
			return &apierr.Error{Status: http.StatusBadRequest, Message: "blockNumber: the chain has no such block yet; ask for an earlier one, or leave it out for the last", Err: err}
		case errors.Is(err, evm.ErrNotDeployed):
			return &apierr.Error{Status: http.StatusNotFound, Message: "address: no transaction of this chain is known to have deployed a contract there; it is an account, or its code was there from the beginning", Err: err}
		case errors.Is(err, evm.ErrUntraced):
			e := apierr.Unavailable(err, "internal transactions are not indexed, because the node of this instance traces no blocks; ask another instance")
			e.Code = codeUntraced
			return e
		case errors.Is(err, evm.ErrNoICM):
			return reply.CatchingUp(err, "the index of a chain was begun by an older version, which did not index ICM messages, and is being rebuilt with them; try again later")
		case errors.Is(err, evm.ErrNoBlocks):
			return reply.CatchingUp(err, "the index of this chain was begun by an older version, which did not index the gas and the fees of blocks, and is being rebuilt with them; try again later")
		case errors.Is(err, evm.ErrEmpty):
			return reply.CatchingUp(err, "nothing of this chain is indexed yet; try again later")
		case errors.Is(err, node.ErrPruned):
			return apierr.Unavailable(err, "the answer needs a block that the node of this instance does not have, as it was state-synced or has pruned it; ask another instance")
		case errors.Is(err, node.ErrBeyondTip):
			return reply.NodeAway(err, "the node of this chain, which the answer needs, is behind the index; try again later")
		case errors.Is(err, node.ErrUnavailable):
			return reply.NodeAway(err, "the node of this chain, which the answer needs, cannot be reached; try again later")
		case errors.Is(err, node.ErrMalformed), errors.Is(err, chain.ErrInconsistent), errors.As(err, &refusal):
			return &apierr.Error{Status: http.StatusBadGateway, Code: string(aggregator.CodeNodeFaulty), Message: "the node of this chain refused a call that the answer needs, or its response was wrong; it may not keep the state of old blocks", Err: err}
		default:
			return apierr.Internal(err)
		}
	})
}

// current returns an error unless the index of a chain has caught up or, if last is not nil, contains all blocks up to
// last. It also sets the progress headers. If the chain is known to have block last and the index lacks it, the error
// says so.
func current(c echo.Context, of *Chain, last *uint64) (reply.Progress, error) {
	p := of.Progress(c.Request().Context())
	if !p.CaughtUp && (last == nil || *last > p.Height) {
		return p, p.Behind("this chain")
	}
	if last != nil && *last > p.Height && *last-p.Height <= p.Lag {
		return p, p.NotYet(p.Err, fmt.Sprintf("block %d", *last))
	}
	p.Show(c.Response().Header())
	return p, nil
}

// beyondTipError returns the API's error for err, an error of the index. at is the requested block, or nil if a page token
// names it. The view of a standby may lack a block that the index has.
func beyondTipError(err error, progress reply.Progress, at *uint64) error {
	switch {
	case !errors.Is(err, evm.ErrBeyondTip):
		return err
	case at != nil && *at <= progress.Height:
		return reply.CatchingUp(err, "the standby that was read lacks block %d; send the request again in a moment", *at)
	case at == nil || progress.Err != nil:
		// The token is from an instance with a newer index, or was forged.
		return progress.NotYet(err, "the requested block")
	}
	return err
}

var addressShape = regexp.MustCompile("^0[xX][0-9a-fA-F]{40}$")

// address parses the address in the path.
func address(c echo.Context) (common.Address, error) {
	text := c.Param("address")
	if !addressShape.MatchString(text) {
		return common.Address{}, apierr.BadRequest("address: %q is no address; give 0x and 40 hexadecimal digits", apierr.Excerpt(text))
	}
	return common.HexToAddress(text[2:]), nil
}

// readAddress parses an optional address, nil if it is absent.
func readAddress(q *query.Values, key string) *common.Address {
	text, ok := q.Text(key)
	if !ok {
		return nil
	}
	if !addressShape.MatchString(text) {
		q.Fail(key, "%q is no address; give 0x and 40 hexadecimal digits", apierr.Excerpt(text))
		return nil
	}
	a := common.HexToAddress(text[2:])
	return &a
}
