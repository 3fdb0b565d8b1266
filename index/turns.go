package index

import "context"

// Turns bounds how many pipelines read or apply blocks at a time: together they could
// keep all processors busy for as long as they catch up, and requests would wait for
// each of them. Nil means no bound.
type Turns chan struct{}

// turnBlocks is how many blocks a turn is for: a few milliseconds.
const turnBlocks = 64

// NewTurns makes so many turns that may be taken at a time, at least 1.
func NewTurns(n int) Turns { return make(Turns, max(1, n)) }

// take waits for a turn, and returns what gives it back.
func (t Turns) take(ctx context.Context) (giveBack func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
