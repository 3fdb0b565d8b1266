// Package retry repeats what fails for a reason that may pass.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses are the times between two attempts: First after the first one, then twice as long
// each time, at most Longest. Each is varied by half, so that callers that failed together do
// not come back together.
type Pauses struct{ First, Longest time.Duration }

// Final marks an error of an attempt as one that another attempt does not change.
func Final(err error) error { return backoff.Permanent(err) }

// Do calls attempt until it succeeds, and returns nil. It returns the error of an attempt that
// is Final, or, once ctx ends, the cause of that. Before each pause it calls failed, which may
// be nil, with the error and the length of the pause.
func (p Pauses) Do(ctx context.Context, attempt func() error, failed func(err error, pause time.Duration)) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: p.First, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: p.Longest}
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, attempt() },
		backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(failed))
	return err
}
