package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// opening opens the engine, which otherwise repeats a write that fails until the disk has room. It gives up at the
// first failure, and when its context ends.
type opening struct {
	failed chan error
	over   chan struct{} // closed once the engine is open
}

func newOpening() *opening {
	return &opening{failed: make(chan error), over: make(chan struct{})}
}

// failure receives failures of the engine's background work, and returns once the engine is open. It never returns if
// the engine was given up: this ends the engine's retries. What the engine holds then stays held until the process
// ends.
func (o *opening) failure(err error) {
	select {
	case <-o.over:
		return
	default:
	}
	if pebble.IsCorruptionError(err) {
		return // reads report it
	}
	select {
	case <-o.over:
	case o.failed <- err:
		select {}
	}
}

// lateness is the time that run waits for open after its context ended. The caller can then remove the directory, or open
// it again. Creating a store and replaying most logs takes less.
const lateness = 3 * time.Second

// run calls open, and late with its result if ctx ended or the engine failed meanwhile. After ctx ended it waits for both,
// for at most lateness.
func (o *opening) run(ctx context.Context, open func() (*pebble.DB, error), late func(*pebble.DB)) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	opened, abandoned, over := make(chan result), make(chan struct{}), make(chan struct{})
	go func() { // ends with open, which may last as long as the process
		defer close(over)
		db, err := open()
		select {
		case opened <- result{db, err}:
		case <-abandoned:
			if err == nil {
				late(db)
			}
		}
	}()
	select {
	case r := <-opened:
		close(o.over)
		return r.db, r.err
	case err := <-o.failed:
		close(abandoned)
		return nil, err
	case <-ctx.Done():
		close(abandoned)
		select {
		case <-over:
		case err := <-o.failed:
			return nil, err
		case <-time.After(lateness):
		}
		return nil, fmt.Errorf("interrupted while replaying the log: %w", context.Cause(ctx))
	}
}

// seldom limits log lines about failures that the engine repeats at once.
type seldom struct {
	mu   sync.Mutex
	last time.Time // guarded by mu
}

// pass reports whether a line may be logged: one in 10 s.
func (s *seldom) pass() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < 10*time.Second {
		return false
	}
	s.last = time.Now()
	return true
}
