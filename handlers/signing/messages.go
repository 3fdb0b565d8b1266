package signing

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/stream"
	"quorate/internal/store"
)

// MessageStream is an aggregator.Stream.
type MessageStream interface {
	Ends(ctx context.Context) (store.LogEnds, error)
	Has(ctx context.Context, id, number uint64) (bool, error)
	Read(ctx context.Context, after uint64, limit int) ([]aggregator.StreamEvent, error)
	Changed() <-chan struct{}
}

var _ MessageStream = (*aggregator.Stream)(nil)

// StreamMessages is GET /v1/signatureAggregator/{network}/messages:stream. It streams the messages that any process on
// the store signs. A cursor is the ID of the network's stream and the number of an event in it.
func (a *API) StreamMessages(c echo.Context) error {
	name := c.Param("network")
	network, err := a.network(name)
	if err != nil {
		return err
	}
	if network.Stream == nil {
		return apierr.NotFound("network: the signed messages of %s are not stored here, so there is no stream of them", name)
	}
	return a.streams.Serve(c, stream.From, func(ctx context.Context, from string) (stream.Feed, error) {
		f := &messageFeed{stream: network.Stream}
		return f, f.seek(ctx, from)
	})
}

// messageFeed implements stream.Feed.
type messageFeed struct {
	stream MessageStream
	opened bool
	ends   store.LogEnds // when the stream was opened
	after  uint64        // number of the last event that was returned
}

// seek sets the position.
func (f *messageFeed) seek(ctx context.Context, from string) (err error) {
	if f.ends, err = f.stream.Ends(ctx); err != nil {
		return unreadable(err)
	}
	switch from {
	case "":
		f.after = f.ends.Newest
		return nil
	case stream.Oldest:
		f.after = f.ends.Oldest - 1
		return nil
	}
	id, number, ok := parseCursor(from)
	if !ok {
		return stream.NotACursor(stream.From, from)
	}
	if id != f.ends.ID || number+1 < f.ends.Oldest {
		return f.gone(from)
	}
	if number > f.ends.Newest { // another process may have returned an event that this one is still writing
		has, err := f.stream.Has(ctx, id, number)
		if err != nil {
			return unreadable(err)
		}
		if !has {
			return f.gone(from)
		}
	}
	f.after = number
	return nil
}

// gone returns the error for a cursor after which events are gone.
func (f *messageFeed) gone(cursor string) *apierr.Error {
	return stream.Gone("from: events after %s are not stored any more; connect with from=%s for those that are (from=%s), and find older messages by other means",
		apierr.Excerpt(cursor), stream.Oldest, f.cursor(f.ends.Oldest-1))
}

func unreadable(cause error) error {
	e := apierr.Unreadable(cause)
	e.Message = "the signed messages cannot be read now; connect again later with the same cursor"
	return e
}

// cursor returns the cursor of an event.
func (f *messageFeed) cursor(number uint64) string { return fmt.Sprintf("%x-%d", f.ends.ID, number) }

func parseCursor(text string) (id, number uint64, ok bool) {
	left, right, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, false
	}
	id, idErr := strconv.ParseUint(left, 16, 64)
	number, numberErr := strconv.ParseUint(right, 10, 63)
	return id, number, idErr == nil && numberErr == nil
}

const (
	// messagePage is the maximum number of events that a stream holds at a time. It bounds the memory of a stream
	// of large messages.
	messagePage = 4
	// messagePoll is the interval at which a stream looks for events of other processes.
	messagePoll = 500 * time.Millisecond
)

// Next implements stream.Feed. The first event is open.
func (f *messageFeed) Next(ctx context.Context) ([]stream.Event, error) {
	if !f.opened {
		f.opened = true
		return []stream.Event{{Name: stream.OpenEvent, Cursor: f.cursor(f.after), Data: stream.Open{Oldest: f.cursor(f.ends.Oldest - 1)}}}, nil
	}
	for {
		changed := f.stream.Changed()
		found, err := f.stream.Read(ctx, f.after, messagePage)
		has := true
		if err == nil { // a standby of the store that took over may lack events that were returned
			has, err = f.stream.Has(ctx, f.ends.ID, f.after)
		}
		switch {
		case errors.Is(err, store.ErrTruncated), err == nil && !has:
			cursor := f.cursor(f.after)
			if ends, err := f.stream.Ends(ctx); err == nil {
				f.ends = ends
			}
			return nil, f.gone(cursor)
		case err != nil && ctx.Err() == nil:
			return nil, unreadable(err)
		case err != nil:
			return nil, err
		case len(found) > 0:
			return f.events(found), nil
		}
		if err := stream.Wait(ctx, changed, messagePoll); err != nil {
			return nil, err
		}
	}
}

// messageEvent is a signed message.
type messageEvent struct {
	MessageID          ids.ID    `json:"messageId"`
	SourceBlockchainID ids.ID    `json:"sourceBlockchainId"`
	UnsignedMessage    string    `json:"unsignedMessage"`
	SignedMessage      string    `json:"signedMessage"`
	SigningSubnetID    ids.ID    `json:"signingSubnetId"`
	PChainHeight       uint64    `json:"pChainHeight,string"`
	Weight             uint64    `json:"weight,string"`
	TotalWeight        uint64    `json:"totalWeight,string"`
	Signers            int       `json:"signers"`
	SignedAt           time.Time `json:"signedAt"`
}

// gapEvent says how many messages were signed that could not be stored.
type gapEvent struct {
	Missed uint64 `json:"missed"`
}

func (f *messageFeed) events(found []aggregator.StreamEvent) []stream.Event {
	events := make([]stream.Event, len(found))
	for i, e := range found {
		f.after = e.Number
		if e.Message == nil {
			events[i] = stream.Event{Name: "gap", Cursor: f.cursor(e.Number), Data: gapEvent{e.Missed}}
			continue
		}
		events[i] = stream.Event{Name: "message", Cursor: f.cursor(e.Number), Data: messageEvent{
			MessageID: e.Message.ID(), SourceBlockchainID: e.Message.SourceChainID,
			UnsignedMessage: hex.EncodeToString(e.Message.UnsignedMessage.Bytes()), SignedMessage: hexOf(e.Message),
			SigningSubnetID: e.SigningSubnetID, PChainHeight: e.PChainHeight, Signers: e.Signers,
			Weight: e.Weight, TotalWeight: e.TotalWeight, SignedAt: e.Time,
		}}
	}
	return events
}
