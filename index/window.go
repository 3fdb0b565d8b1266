package index

import (
	"context"
	"sync"
)

// window bounds the bytes of blocks that were fetched and are not yet committed.
type window struct {
	limit int64

	mu      sync.Mutex
	held    int64
	next    uint64        // the first height that is not committed
	changed chan struct{} // closed when held or next change for the better
}

func newWindow(limit int64, next uint64) *window {
	return &window{limit: limit, next: next, changed: make(chan struct{})}
}

// wait blocks until blocks from a height on may be fetched: while there is room,
// and always for those that nothing is before, without which room would never come.
func (w *window) wait(ctx context.Context, from uint64) error {
	for {
		w.mu.Lock()
		may, changed := w.held < w.limit || from == w.next, w.changed
		w.mu.Unlock()
		if may {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// add counts blocks that were fetched.
func (w *window) add(size int64) {
	w.mu.Lock()
	w.held += size
	w.mu.Unlock()
}

// full reports whether fetching waits for a commit.
func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held >= w.limit
}

// committed takes off blocks that were committed up to, not including, next.
func (w *window) committed(size int64, next uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= size
	w.next = next
	close(w.changed)
	w.changed = make(chan struct{})
}

// reached is the height up to which blocks may be fetched. It falls when what a node
// told turns out not to be so.
type reached struct {
	mu      sync.Mutex
	to      uint64
	known   bool
	changed chan struct{} // closed when to rises
}

func newReached() *reached { return &reached{changed: make(chan struct{})} }

func (r *reached) set(to uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rises := !r.known || to > r.to; rises {
		close(r.changed)
		r.changed = make(chan struct{})
	}
	r.to, r.known = to, true
}

func (r *reached) height() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to
}

// wait blocks until there is a block at a height, and returns the last that there is.
func (r *reached) wait(ctx context.Context, from uint64) (uint64, error) {
	for {
		r.mu.Lock()
		to, known, changed := r.to, r.known, r.changed
		r.mu.Unlock()
		if known && from <= to {
			return to, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-changed:
		}
	}
}
