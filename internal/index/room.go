package index

import (
	"container/list"
	"sync"
)

// Room bounds the bytes of blocks that several pipelines have fetched and not yet
// committed, all together: what is enough for one chain is too much a hundred times. It
// is shared out by one rule, that a pipeline may hold as much as is left free then (the
// dynamic thresholds of switches with one memory for all ports, Choudhury and Hahne
// 1998): one alone has half of it, n that catch up at a time have one part of n+1 each,
// and whoever comes next finds room. The blocks that a pipeline needs to go on at all it
// gets in any case, one at a time. Safe for concurrent use.
type Room struct {
	size int64

	mu      sync.Mutex
	held    int64     // guarded by mu
	waiting list.List // of *seat, who came first in front; guarded by mu
}

// NewRoom makes room for so many bytes.
func NewRoom(size int64) *Room { return &Room{size: max(size, 1)} }

// Held is how many bytes are taken.
func (r *Room) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// seat waits for room, or has got it.
type seat struct {
	window *window
	// want is how many bytes would be taken, block those of a block.
	want, block int64
	ahead       int64         // about how many bytes come before, uncommitted; guarded by the room's mu
	got         chan struct{} // closed when it has some
	place       *list.Element // guarded by the room's mu; nil unless it waits
	granted     int64         // guarded by the room's mu until got is closed
}

// grains is how many times the least that is worth a fetch goes into the room.
const grains = 256

// fits is how much somebody may have of what he wants now, 0 for nothing. It needs mu.
func (r *Room) fits(s *seat) int64 {
	free, share := r.size-r.held, s.window.share
	// Of blocks that lie further ahead than what w may hold, none: those before them would
	// find no room, and all wait for these.
	more := min(s.want, (free-share)/2, (free+share)/2-s.ahead)
	if more >= min(s.want, max(s.block, r.size/grains)) {
		return more
	}
	return 0
}

// take counts what is granted. It needs mu.
func (r *Room) take(s *seat, n int64) {
	r.held += n
	s.window.share += n
	s.granted = n
	close(s.got)
}

// ask asks for room for blocks of w that so many bytes are before; if none are, they get
// it.
func (r *Room) ask(w *window, want, block, ahead int64) *seat {
	s := &seat{window: w, want: want, block: block, got: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.place = r.waiting.PushBack(s)
	r.serve(s, ahead)
	return s
}

// advance says that so many bytes are before what is waited for now.
func (r *Room) advance(s *seat, ahead int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.place != nil {
		r.serve(s, ahead)
	}
}

// serve ends the waiting if it can. It needs mu.
func (r *Room) serve(s *seat, ahead int64) {
	s.ahead = ahead
	n := r.fits(s)
	if n == 0 && ahead == 0 {
		n = min(s.want, s.block)
	}
	if n > 0 {
		r.waiting.Remove(s.place)
		s.place = nil
		r.take(s, n)
	}
}

// leave ends the waiting, unless it had come to its end.
func (r *Room) leave(s *seat) (left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.place == nil {
		return false
	}
	r.waiting.Remove(s.place)
	s.place = nil
	return true
}

// change counts what w has more, or less: then those who wait are served in their order,
// but who wants much does not keep others waiting.
func (r *Room) change(w *window, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	w.share += n
	if n >= 0 {
		return
	}
	for e := r.waiting.Front(); e != nil; {
		s, next := e.Value.(*seat), e.Next() //nolint:forcetypeassert // it has no others
		if n := r.fits(s); n > 0 {
			r.waiting.Remove(e)
			s.place = nil
			r.take(s, n)
		}
		e = next
	}
}

// close gives back all that w has.
func (r *Room) close(w *window) {
	r.mu.Lock()
	share := w.share
	r.mu.Unlock()
	r.change(w, -share)
}
