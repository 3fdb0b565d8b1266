package index

import (
	"context"
	"sync"
)

// window limits the memory of fetched blocks that are not committed.
type window struct {
	limit int64
	room  *Room // shared with other pipelines; nil if there are none
	share int64 // of room; guarded by room.mu

	mu      sync.Mutex
	held    int64
	block   int64         // approximate bytes of a block
	next    uint64        // first uncommitted height
	changed chan struct{} // closed when held or next change in favour of waiters
	waiting int           // number of fetchers that wait for room

	hungry chan struct{} // holds a token when another fetcher waits
}

const (
	// firstBlock is the assumed size of a block before one is known, and leastBlock the minimum, in bytes.
	firstBlock = answerBytes / jobBlocks
	leastBlock = 256
)

func newWindow(limit int64, room *Room, next uint64) *window {
	return &window{limit: limit, room: room, block: firstBlock, next: next, changed: make(chan struct{}), hungry: make(chan struct{}, 1)}
}

// wait blocks until blocks from a height on may be fetched: while there is room, and always for the next block to
// commit, which alone can free room. It returns the number of blocks, at least one, and the bytes reserved for them,
// which the caller passes to add.
func (w *window) wait(ctx context.Context, from uint64, blocks int) (n int, aside int64, err error) {
	for {
		w.mu.Lock()
		first, fits, block, changed := from == w.next, w.held < w.limit, w.block, w.changed
		w.mu.Unlock()
		switch {
		case (first || fits) && w.room == nil:
			return blocks, 0, nil
		case first || fits:
			if aside, err = w.enter(ctx, from, min(int64(blocks)*block, answerBytes), block); err != nil {
				return 0, 0, err
			}
			return int(max(1, min(int64(blocks), aside/block))), aside, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-changed:
		}
	}
}

// enter waits for a part of the room.
func (w *window) enter(ctx context.Context, from uint64, want, block int64) (int64, error) {
	s := w.room.ask(w, want, block, w.ahead(from, block))
	w.wants(1)
	defer w.wants(-1)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		w.room.advance(s, w.ahead(from, block)) // only room or a commit can end the wait
		select {
		case <-s.got:
			return s.granted, nil
		default:
		}
		select { // a commit would free room
		case w.hungry <- struct{}{}:
		default:
		}
		select {
		case <-s.got:
			return s.granted, nil
		case <-changed:
		case <-ctx.Done():
			if !w.room.leave(s) {
				w.room.change(w, -s.granted)
			}
			return 0, ctx.Err()
		}
	}
}

// ahead returns the approximate number of uncommitted bytes before a height.
func (w *window) ahead(from uint64, block int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(from-w.next) * block
}

// wants adds n to the number of fetchers that wait for room.
func (w *window) wants(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting += n
}

// add counts fetched blocks and releases their reservation.
func (w *window) add(aside, size int64, blocks int) {
	w.mu.Lock()
	w.held += size
	if blocks > 0 {
		w.block = max(leastBlock, (3*w.block+size/int64(blocks))/4)
	}
	w.mu.Unlock()
	if w.room != nil && size != aside {
		w.room.change(w, size-aside)
	}
}

// full reports whether a fetcher waits for a commit.
func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held >= w.limit || w.waiting > 0
}

// committed subtracts blocks that were committed up to, not including, next.
func (w *window) committed(size int64, next uint64) {
	if w.room != nil {
		w.room.change(w, -size)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= size
	w.next = next
	close(w.changed)
	w.changed = make(chan struct{})
}

// close releases the remaining room after the last fetch.
func (w *window) close() {
	if w.room != nil {
		w.room.close(w)
	}
}

// reached is the height up to which blocks can be fetched. It falls if a node's earlier report turns out to be wrong.
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

// wait blocks until the block at from exists, and returns the last existing height.
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
