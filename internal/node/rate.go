package node

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"
)

// Rate limits the calls of Clients that share it. Those made for clients (see WithClient) get at most three quarters of
// it, so that they do not delay the service's own.
type Rate struct{ all, clients *rate.Limiter }

// NewRate returns a Rate that allows perSecond calls a second, also all at once.
func NewRate(perSecond int) *Rate {
	part := float64(perSecond) * share / (share + 1)
	return &Rate{all: rate.NewLimiter(rate.Limit(perSecond), perSecond), clients: rate.NewLimiter(rate.Limit(part), max(1, int(part)))}
}

// Await waits until the rate allows the calls of body, a call or a batch that the caller sends over a connection of
// Connect. The error is ErrBusy if ctx ends before.
func (c *Client) Await(ctx context.Context, body []byte) error {
	if c.rate == nil {
		return nil // without reading body
	}
	if err := c.await(ctx, len(methodsOf(body))); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return nil
}

// await waits until the rate allows a number of calls, 0 means 1. A batch of more than the rate counts as the calls of
// one second.
func (c *Client) await(ctx context.Context, calls int) error {
	if c.rate == nil {
		return nil
	}
	limiters := []*rate.Limiter{c.rate.all}
	if _, ok := requesterOf(ctx); ok {
		limiters = []*rate.Limiter{c.rate.clients, c.rate.all}
	}
	for _, limiter := range limiters {
		if err := limiter.WaitN(ctx, min(max(calls, 1), limiter.Burst())); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &busyError{fmt.Sprintf("not asked: the configured rate of %g requests a second leaves none before the deadline", limiter.Limit()), true}
		}
	}
	return nil
}
