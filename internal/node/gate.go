package node

import (
	"context"
	"errors"
	"time"
)

// ErrBusy reports that a call was not made because the calls in progress for clients take all of the gate, or the rate
// leaves none.
var ErrBusy = errors.New("too many calls to the upstream nodes are in progress for clients")

const (
	// gateSize is the cost of the calls in progress for clients, over all endpoints of a Client. A node answers most of
	// them under the lock that its P-Chain needs to accept blocks.
	gateSize = 32
	// gateWait bounds how long a call waits for its turn.
	gateWait = 5 * time.Second
)

// requester is the client of a context.
type requester struct {
	id       func() string
	admitted bool // by the gate
}

type requesterKey struct{}

// WithClient returns a context whose calls are made for a client. id returns the client's identifier. Calls with other
// contexts are the service's own: no client delays them.
func WithClient(ctx context.Context, id func() string) context.Context {
	return context.WithValue(ctx, requesterKey{}, requester{id: id})
}

// WithoutClient returns a context whose calls are the service's own.
func WithoutClient(ctx context.Context) context.Context {
	if _, ok := requesterOf(ctx); !ok {
		return ctx
	}
	return context.WithValue(ctx, requesterKey{}, requester{})
}

// requesterOf returns the client of ctx; false if calls with ctx are the service's own.
func requesterOf(ctx context.Context) (requester, bool) {
	c, _ := ctx.Value(requesterKey{}).(requester)
	return c, c.id != nil
}

// clientOf returns the identifier of the client of ctx, empty if calls with ctx are the service's own.
func clientOf(ctx context.Context) string {
	if c, ok := requesterOf(ctx); ok {
		return c.id()
	}
	return ""
}

// Enter waits until calls of a total cost may be made for the client of ctx. Clients share the gate as they share a
// Budget. Calls with the returned context do not wait for the gate again; leave must be called after the last of them.
// Enter returns at once for the service's own calls, and for a context that Enter returned. Errors: ErrBusy, also if
// ctx's deadline ends first, or context.Canceled.
func (c *Client) Enter(ctx context.Context, cost int64) (admitted context.Context, leave func(), err error) {
	who, ok := requesterOf(ctx)
	if !ok || who.admitted {
		return ctx, func() {}, nil
	}
	id := who.id()
	if err := c.gate.acquire(ctx, id, cost); err != nil {
		if errors.Is(err, ErrNoRoom) {
			err = ErrBusy
		}
		return nil, nil, err
	}
	who.admitted = true
	return context.WithValue(ctx, requesterKey{}, who), func() { c.gate.release(id, cost) }, nil
}
