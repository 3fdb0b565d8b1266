package evm

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/query"
	"quorate/handlers/stream"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
)

// icmCursor is the query parameter with a cursor; "from" is the sender of messages.
const icmCursor = "cursor"

// StreamParameters returns the names of the parameters of StreamICM's query.
func StreamParameters() []string {
	names := []string{icmCursor}
	for _, p := range icmFilters() {
		names = append(names, p.Name)
	}
	return names
}

// StreamICM is GET /v1/icm/messages:stream. It streams the steps of ICM messages as their blocks are indexed. A cursor
// has a position in the log of each chain.
func (a *API) StreamICM(c echo.Context) error {
	q := query.Parse(c.Request().URL.RawQuery, icmFilters())
	chains, network, err := a.readICMNetwork(q)
	if err != nil {
		return err
	}
	f := &icmFeed{api: a, network: network, filter: readICMFilter(q, chains), at: make(icmPositions)}
	if err := q.Err(); err != nil {
		return err
	}
	return a.streams.Serve(c, icmCursor, func(ctx context.Context, from string) (stream.Feed, error) {
		return f, Explain(ctx, f.seek(ctx, from))
	})
}

// icmPositions holds positions in the logs of chains, by the beginning of their blockchain IDs. A chain without a
// position begins with its log.
type icmPositions map[[icmChainSize]byte]evm.ICMPosition

// icmChainSize is the number of bytes of a blockchain ID in a cursor. The index distinguishes chains by as many.
const icmChainSize = 8

func icmChain(id ids.ID) [icmChainSize]byte { return [icmChainSize]byte(id[:]) }

// cursor returns the positions as text.
func (p icmPositions) cursor() string {
	b := []byte{1} // version
	for _, id := range slices.SortedFunc(maps.Keys(p), func(a, b [icmChainSize]byte) int { return slices.Compare(a[:], b[:]) }) {
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, id[:]...), p[id].Number), uint64(p[id].LogIndex))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseICMPositions reads what cursor returned.
func parseICMPositions(text string) (p icmPositions, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != 1 {
		return nil, false
	}
	p = make(icmPositions)
	for b = b[1:]; len(b) > 0; {
		if len(b) < icmChainSize {
			return nil, false
		}
		id := [icmChainSize]byte(b)
		number, n := binary.Uvarint(b[icmChainSize:])
		if n <= 0 {
			return nil, false
		}
		b = b[icmChainSize+n:]
		index, n := binary.Uvarint(b)
		if n <= 0 || index > 1<<32-1 {
			return nil, false
		}
		p[id], b = evm.ICMPosition{Number: number, LogIndex: uint32(index)}, b[n:]
	}
	return p, p.cursor() == text
}

// icmFeed implements stream.Feed.
type icmFeed struct {
	api     *API
	network string
	filter  icmFilter
	opened  bool
	oldest  icmPositions // when the stream was opened
	at      icmPositions
	turn    int // the chain to read first
	passed  int // steps that were read and not selected since the client was last charged for them
}

const (
	// icmStreamPage is the maximum number of events that a stream reads at a time. It bounds the memory of a stream of
	// large messages.
	icmStreamPage = 8
	// icmPoll is the interval at which a stream looks for indexed blocks.
	icmPoll = 250 * time.Millisecond
	// icmAhead is how far a cursor may lie above the last block that this process knows: another one may have sent it.
	icmAhead = 1024
)

// seek sets the position.
func (f *icmFeed) seek(ctx context.Context, from string) error {
	chains, starting, err := f.api.chains.all(f.network)
	if err != nil {
		return err
	}
	if starting && from == "" {
		return errStarting()
	}
	given, ok := parseICMPositions(from)
	switch {
	case from == "", from == stream.Oldest:
	case !ok:
		return stream.NotACursor(icmCursor, from)
	default:
		f.at = given
	}
	f.oldest = make(icmPositions, len(chains))
	for _, c := range chains {
		id, p := icmChain(c.BlockchainID), c.Progress(ctx)
		if _, ok := f.filter.query(c.BlockchainID); !ok { // the stream never reads it
			if from == "" {
				f.at[id] = evm.ICMPosition{Number: p.Height + 1}
			}
			continue
		}
		if from == "" && !p.CaughtUp {
			return p.Behind("chain " + c.name) // otherwise old blocks would be new events
		}
		log, err := c.Index.ICMLog(ctx, evm.ICMPosition{Number: 1<<64 - 1}, 1)
		switch {
		case errors.Is(err, evm.ErrEmpty):
			continue
		case err != nil:
			return err
		case p.Unreadable != nil:
			return p.Behind("chain " + c.name) // its height is not known, so a cursor cannot be checked
		}
		f.oldest[id] = log.From
		at, known := f.at[id]
		switch {
		case from == "":
			f.at[id] = evm.ICMPosition{Number: p.Height + 1}
		case !known:
			f.at[id] = log.From
		case at.Compare(log.From) < 0:
			return stream.Gone("%s: the events of chain %s after this cursor are not indexed any more, the index begins with block %d; connect with %s=%s for those that are", icmCursor, c.name, log.From.Number, icmCursor, stream.Oldest)
		case at.Number > p.Height+p.Lag+icmAhead:
			return apierr.BadRequest("%s: it names block %d of chain %s, which has %d; send the cursor of an event unchanged", icmCursor, at.Number, c.name, p.Height+p.Lag)
		}
	}
	return nil
}

// Next implements stream.Feed. The first event is open.
func (f *icmFeed) Next(ctx context.Context) ([]stream.Event, error) {
	if !f.opened {
		f.opened = true
		return []stream.Event{{Name: stream.OpenEvent, Cursor: f.at.cursor(), Data: stream.Open{Oldest: f.oldest.cursor()}}}, nil
	}
	for {
		chains, _, err := f.api.chains.all(f.network)
		if err != nil {
			return nil, err
		}
		more := false
		for range chains {
			f.turn++
			c := chains[f.turn%len(chains)]
			at := f.at[icmChain(c.BlockchainID)]
			if _, ok := f.filter.query(c.BlockchainID); !ok || c.Progress(ctx).Height < at.Number {
				continue
			}
			events, err := f.read(ctx, chains, c, at)
			f.charge(ctx)
			if err != nil && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil && !errors.Is(err, evm.ErrEmpty) && !errors.Is(err, index.ErrViewBehind) {
				return nil, Explain(ctx, err)
			}
			if len(events) > 0 {
				return events, nil
			}
			// An index without blocks, one that is behind its progress, or a standby that lacks messages of the log leaves the
			// position where it was.
			after := f.at[icmChain(c.BlockchainID)]
			more = more || after != at && c.Progress(ctx).Height >= after.Number
		}
		if more && ctx.Err() == nil {
			continue
		}
		if err := stream.Wait(ctx, nil, icmPoll); err != nil {
			return nil, err
		}
	}
}

// charge charges the client for steps that were not selected like package stream does for those that are sent.
func (f *icmFeed) charge(ctx context.Context) {
	if client := access.ClientOf(ctx); client != nil {
		client.Owe(ctx, f.passed/stream.EventsPerRequest)
	}
	f.passed %= stream.EventsPerRequest
}

// read returns the next selected events of a chain, and advances its position past them.
func (f *icmFeed) read(ctx context.Context, chains []*Chain, c *Chain, at evm.ICMPosition) ([]stream.Event, error) {
	log, err := c.Index.ICMLog(ctx, at, icmStreamPage)
	if err != nil {
		return nil, err
	}
	byID := make(map[ids.ID]*Chain, len(chains))
	for _, one := range chains {
		byID[one.BlockchainID] = one
	}
	entries, places := make([]evm.ICMEntry, len(log.Events)), make([]icmPlace, len(log.Events))
	for i := range log.Events {
		e := &log.Events[i]
		entries[i] = evm.ICMEntry{ICMPlace: e.ICMPlace(), ID: e.ID, Other: e.Other, Delivered: e.Kind != chain.ICMSent && e.Kind != chain.ICMReceiptReturned}
		places[i] = icmPlace{e.ICMPlace(), c.BlockchainID}
	}
	messages, err := readICM(ctx, byID, entries, places)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if messages[i].on(c.BlockchainID) == (evm.ICMEvents{}) {
			return nil, fmt.Errorf("%w: of message %s", index.ErrViewBehind, messages[i].id) // another standby than that of the log
		}
	}
	var selected []int
	var known []icmMessage // of the selected
	for i := range messages {
		sent := messages[i].known()
		if sent != nil {
			entries[i].Sender, entries[i].Recipient = sent.Message.Sender, sent.Message.Recipient
		}
		if !f.filter.selects(c.BlockchainID, &entries[i]) {
			continue
		}
		selected = append(selected, i)
		if sent != nil {
			known = append(known, messages[i])
		}
	}
	shown, err := f.api.showICM(ctx, known)
	if err != nil {
		return nil, err
	}
	events := make([]stream.Event, len(selected))
	for n, i := range selected {
		e, m := &log.Events[i], &messages[i]
		data := icmEvent{icmStep: stepOf(icmSteps[e.Kind], c.name, e), MessageID: e.ID, Unconfirmed: entries[i].Delivered && m.unconfirmed(ctx)}
		if m.known() != nil {
			data.Message, shown = &shown[0], shown[1:]
		}
		f.at[icmChain(c.BlockchainID)] = evm.ICMPosition{Number: e.Block.Number, LogIndex: e.LogIndex + 1}
		events[n] = stream.Event{Name: "step", Cursor: f.at.cursor(), Data: data}
	}
	f.at[icmChain(c.BlockchainID)] = log.Next
	f.passed += len(log.Events) - len(events)
	return events, nil
}

// icmEvent is a step of a message, and the message as far as it is known now.
type icmEvent struct {
	icmStep
	MessageID common.Hash `json:"messageId"`
	// Message is absent if the blocks with its content are not indexed.
	Message *shownICM `json:"message,omitempty"`
	// Unconfirmed reports that the index of the source, which has all its blocks, lacks the message: it lags, or the
	// destination lies.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}
