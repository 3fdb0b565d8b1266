package signing

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/stream"
	"quorate/internal/store"
	"quorate/validators"
)

// SetChanges is a validators.Changes.
type SetChanges interface {
	Range() (oldest, newest uint64, ok bool)
	Check(ctx context.Context, subnetID ids.ID) error
	Next(ctx context.Context, subnetID ids.ID, after uint64) (found *validators.Change, reached uint64, err error)
}

var _ SetChanges = (*validators.Changes)(nil)

// StreamValidators is GET /v1/signatureAggregator/{network}/subnets/{subnetId}/validators:stream. It streams the changes
// of a subnet's validator set. A cursor is a P-Chain height.
func (a *API) StreamValidators(c echo.Context) error {
	name := c.Param("network")
	network, err := a.network(name)
	if err != nil {
		return err
	}
	if network.Changes == nil {
		return apierr.NotFound("network: the validator sets of %s are not followed here, so there is no stream of their changes", name)
	}
	subnetID, err := parseID("subnetId", c.Param("subnetId"), "subnet ID")
	if err != nil {
		return err
	}
	return a.streams.Serve(c, stream.From, func(ctx context.Context, from string) (stream.Feed, error) {
		f := &changeFeed{changes: network.Changes, subnetID: subnetID}
		return f, f.seek(ctx, from)
	})
}

// changeFeed implements stream.Feed.
type changeFeed struct {
	changes  SetChanges
	subnetID ids.ID
	opened   bool
	oldest   uint64 // when the stream was opened
	after    uint64 // there is no further change up to this height
	sent     uint64 // cursor of the last event
}

// maxAhead is how far a cursor may lie above the height that this process has heard of: another one may have sent it.
const maxAhead = 64

// seek sets the position.
func (f *changeFeed) seek(ctx context.Context, from string) error {
	oldest, newest, ok := f.changes.Range()
	if !ok {
		e := apierr.Unavailable(nil, "no upstream node has reported the P-Chain height; connect again in a moment")
		e.Code = string(aggregator.CodeNodeUnavailable)
		return e
	}
	f.oldest = oldest
	switch from {
	case "":
		f.after = newest
	case stream.Oldest:
		f.after = oldest
	default:
		height, err := strconv.ParseUint(from, 10, 64)
		switch {
		case err != nil:
			return stream.NotACursor(stream.From, from)
		case height > newest && height-newest > maxAhead:
			return apierr.BadRequest("from: the P-Chain height %d is ahead of this network, whose newest proposed height is %d; send the cursor of an event unchanged", height, newest)
		case height < oldest:
			return stream.Gone("from: changes after P-Chain height %d lie further back than max_height_age of this service allows; connect with from=%s for those since height %d", height, stream.Oldest, oldest)
		}
		f.after = height
	}
	f.sent = f.after
	if err := f.changes.Check(ctx, f.subnetID); err != nil {
		return f.failure(ctx, err)
	}
	return nil
}

// failure returns the error for the client.
func (f *changeFeed) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := apierr.Unavailable(err, "the validators of subnet %s cannot be read now, because the upstream node did not report them; connect again later with the same cursor", f.subnetID)
	e.Code = string(aggregator.CodeNodeUnavailable)
	switch {
	case errors.Is(err, validators.ErrUnknownSubnet):
		e.Status, e.Code = http.StatusNotFound, string(aggregator.CodeUnknownSubnet)
		e.Message = "subnetId: the network has no subnet " + f.subnetID.String()
	case errors.Is(err, store.ErrUnavailable):
		e = apierr.Unreadable(err)
		e.Message = fmt.Sprintf("the validators of subnet %s cannot be read now, because the index cannot be read; connect again in a few seconds with the same cursor", f.subnetID)
	case errors.Is(err, validators.ErrMerged):
		e.Message = validators.ErrMerged.Error()
	}
	return e
}

const (
	// changePoll is the interval at which a stream looks for a new height.
	changePoll = 250 * time.Millisecond
	// heightEvery is the number of heights without a change after which a stream sends its position, so that a cursor
	// does not become too old.
	heightEvery = 1000
)

// Next implements stream.Feed. The first event is open.
func (f *changeFeed) Next(ctx context.Context) ([]stream.Event, error) {
	if !f.opened {
		f.opened = true
		return []stream.Event{{Name: stream.OpenEvent, Cursor: cursorAt(f.after), Data: stream.Open{Oldest: cursorAt(f.oldest)}}}, nil
	}
	for {
		found, reached, err := f.changes.Next(ctx, f.subnetID, f.after)
		progress := reached > f.after
		f.after = reached
		switch {
		case err != nil:
			return nil, f.failure(ctx, err)
		case found != nil:
			f.sent = reached
			return []stream.Event{{Name: "validators", Cursor: cursorAt(reached), Data: f.show(found)}}, nil
		case reached-f.sent >= heightEvery:
			f.sent = reached
			return []stream.Event{{Name: "height", Cursor: cursorAt(reached), Data: heightEvent{reached}}}, nil
		case progress: // there may be more
			continue
		}
		if err := stream.Wait(ctx, nil, changePoll); err != nil {
			return nil, err
		}
	}
}

func cursorAt(height uint64) string { return strconv.FormatUint(height, 10) }

// heightEvent says that no further change precedes a height.
type heightEvent struct {
	Height uint64 `json:"pChainHeight,string"`
}

// changeEvent has all changes of a height.
type changeEvent struct {
	SubnetID       ids.ID       `json:"subnetId"`
	Height         uint64       `json:"pChainHeight,string"`
	TotalWeight    uint64       `json:"totalWeight,string"`
	InactiveWeight uint64       `json:"inactiveWeight,string"`
	Validators     []nodeChange `json:"validators"`
}

// Values of nodeChange.Change.
const (
	nodeJoined  = "JOINED"
	nodeLeft    = "LEFT"
	nodeChanged = "CHANGED"
)

// nodeChange is the change of one validator. The fields before the change are absent in a validator that joined, those
// after it in one that left. A validator without a BLS key has no public key.
type nodeChange struct {
	NodeID            ids.NodeID `json:"nodeId"`
	Change            string     `json:"change"`
	Weight            string     `json:"weight,omitempty"`
	PublicKey         string     `json:"publicKey,omitempty"`
	PreviousWeight    string     `json:"previousWeight,omitempty"`
	PreviousPublicKey string     `json:"previousPublicKey,omitempty"`
}

func (f *changeFeed) show(found *validators.Change) changeEvent {
	e := changeEvent{
		SubnetID: f.subnetID, Height: found.Height, TotalWeight: found.TotalWeight, InactiveWeight: found.InactiveWeight,
		Validators: make([]nodeChange, len(found.Nodes)),
	}
	for i, n := range found.Nodes {
		one := nodeChange{NodeID: n.NodeID, Change: nodeChanged}
		one.Weight, one.PublicKey = showMember(n.After)
		one.PreviousWeight, one.PreviousPublicKey = showMember(n.Before)
		switch {
		case n.Before == nil:
			one.Change = nodeJoined
		case n.After == nil:
			one.Change = nodeLeft
		}
		e.Validators[i] = one
	}
	return e
}

func showMember(m *validators.Member) (weight, key string) {
	if m == nil {
		return "", ""
	}
	if m.Key != nil {
		key = "0x" + hex.EncodeToString(m.Key)
	}
	return strconv.FormatUint(m.Weight, 10), key
}
