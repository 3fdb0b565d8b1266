package index

import (
	"container/list"
	"sync"
)

// Room limits the memory of blocks that several pipelines have fetched but not committed. A pipeline may hold at most
// as much as remains free (dynamic thresholds of shared-memory switches, Choudhury and Hahne 1998): one pipeline alone
// gets half of the room, n concurrent ones get 1/(n+1) each, and a newcomer always finds room. A pipeline always gets
// the next block that it must commit, one at a time. Room is safe for concurrent use.
type Room struct {
	size int64

	mu      sync.Mutex
	held    int64     // guarded by mu
	waiting list.List // of *seat, oldest first; guarded by mu
}

// NewRoom returns a Room of size bytes.
func NewRoom(size int64) *Room { return &Room{size: max(size, 1)} }

// seat is a request for room, waiting or granted.
type seat struct {
	window *window
	// want is the number of bytes requested; block is the size of one block.
	want, block int64
	ahead       int64         // approximate uncommitted bytes before it; guarded by the room's mu
	got         chan struct{} // closed when granted
	place       *list.Element // guarded by the room's mu; nil unless it waits
	granted     int64         // guarded by the room's mu until got is closed
}

// grains is the number of smallest useful fetches that fit into the room.
const grains = 256

// fits returns how many bytes s may get now, or 0. Requires mu.
func (r *Room) fits(s *seat) int64 {
	free, share := r.size-r.held, s.window.share
	// Grant nothing for blocks beyond what w may hold: the blocks before them would find no room, and all would wait
	// for those.
	more := min(s.want, (free-share)/2, (free+share)/2-s.ahead)
	if more >= min(s.want, max(s.block, r.size/grains)) {
		return more
	}
	return 0
}

// take counts granted bytes. Requires mu.
func (r *Room) take(s *seat, n int64) {
	r.held += n
	s.window.share += n
	s.granted = n
	close(s.got)
}

// ask requests room for blocks of w that follow ahead uncommitted bytes. If ahead is 0, the request is granted.
func (r *Room) ask(w *window, want, block, ahead int64) *seat {
	s := &seat{window: w, want: want, block: block, got: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.place = r.waiting.PushBack(s)
	r.serve(s, ahead)
	return s
}

// advance updates the number of uncommitted bytes before a waiting request.
func (r *Room) advance(s *seat, ahead int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.place != nil {
		r.serve(s, ahead)
	}
}

// serve grants the request if it can. Requires mu.
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

// leave cancels a waiting request. It reports false if the request was granted.
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

// change adds n bytes, which may be negative, to what w holds. It then serves waiting requests in order; a request too
// large to serve does not block later ones.
func (r *Room) change(w *window, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	w.share += n
	if n >= 0 {
		return
	}
	for e := r.waiting.Front(); e != nil; {
		s, next := e.Value.(*seat), e.Next() //nolint:forcetypeassert // no other type is stored
		if n := r.fits(s); n > 0 {
			r.waiting.Remove(e)
			s.place = nil
			r.take(s, n)
		}
		e = next
	}
}

// close frees all room of w.
func (r *Room) close(w *window) {
	r.mu.Lock()
	share := w.share
	r.mu.Unlock()
	r.change(w, -share)
}
