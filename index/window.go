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
