package index

import (
	"context"
	"sync"
)

// window bounds the bytes of blocks that were fetched and are not yet committed.
type window struct {
	limit int64
	room  *Room // shared with other pipelines; nil if there are none
	share int64 // of room; guarded by its mu

	mu      sync.Mutex
	held    int64
	block   int64         // about how many bytes a block has
	next    uint64        // the first height that is not committed
	changed chan struct{} // closed when held or next change for the better
	waiting int           // how many wait for a share of the room

	hungry chan struct{} // holds a token when one more does
}

const (
	// firstBlock is how large blocks are taken to be before one is known, and leastBlock
	// when they are small, in bytes.
	firstBlock = answerBytes / jobBlocks
	leastBlock = 256
)

func newWindow(limit int64, room *Room, next uint64) *window {
	return &window{limit: limit, room: room, block: firstBlock, next: next, changed: make(chan struct{}), hungry: make(chan struct{}, 1)}
}

// wait blocks until blocks from a height on may be fetched: while there is room,
// and always for those that nothing is before, without which room would never come. It
// returns how many of them, at least one, and the bytes that were set aside for them,
// which add takes.
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

// enter waits for a share of the room.
func (w *window) enter(ctx context.Context, from uint64, want, block int64) (int64, error) {
	s := w.room.ask(w, want, block, w.ahead(from, block))
	w.wants(1)
	defer w.wants(-1)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		w.room.advance(s, w.ahead(from, block)) // nothing else may end the waiting
		select {
		case <-s.got:
			return s.granted, nil
		default:
		}
		select { // a commit would make room
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

// ahead is about how many bytes of blocks are not committed before a height.
func (w *window) ahead(from uint64, block int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(from-w.next) * block
}

// wants counts those who wait for a share of the room.
func (w *window) wants(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting += n
}

// add counts blocks that were fetched, for which bytes were set aside.
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

// full reports whether fetching waits for a commit.
func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held >= w.limit || w.waiting > 0
}

// committed takes off blocks that were committed up to, not including, next.
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

// close gives back what is left of the room when nobody fetches any more.
func (w *window) close() {
	if w.room != nil {
		w.room.close(w)
	}
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
