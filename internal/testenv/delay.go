package testenv

import (
	"context"
	"time"
)

// Delay is how long a fake takes to answer: it returns after d, or the error of ctx if that ends first. For 0 it makes no
// timer: one that has ended when it is received runs in the goroutine that receives, and two of these at once in a synctest
// bubble crash the race detector (Go 1.26.8: runtime, timer.maybeRunChan).
func Delay(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
