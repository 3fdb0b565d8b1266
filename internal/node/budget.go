package node

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ErrNoRoom says that what is under way takes as many bytes as it may, or that one
// thing alone would.
var ErrNoRoom = errors.New("answers under way take as much memory as they may")

// Budget bounds the bytes that answers take on their way through the process, all
// together, and shares them out: a client may hold up to three times as much as is left
// free then. So one alone gets three quarters, two that want all they can get three
// sevenths each, and however many do so, there is something left for who comes next (the
// dynamic thresholds of switches with one memory for all ports, Choudhury and Hahne
// 1998). Nil is no bound. Safe for concurrent use.
type Budget struct {
	size     int64
	patience time.Duration

	mu      sync.Mutex
	free    int64            // guarded by mu
	clients map[string]*part // guarded by mu; those that hold something, or wait
	waiting list.List        // of *waiter, who came first in front; guarded by mu
	refused Refused          // guarded by mu
}

// part is what a client has of a budget, guarded by the budget's mu.
type part struct {
	bytes   int64
	waiting int64
}

// waiter waits for room.
type waiter struct {
	client *part
	bytes  int64
	got    chan struct{} // closed when it has it
}

const (
	// share is how many times what is left free a client may hold, or have of the places
	// to wait at.
	share = 3
	// mostWaiting bounds who waits for room at a time.
	mostWaiting = 1024
)

// Refused counts those that got no room.
type Refused struct {
	// Size are those that alone would have been too large, Client those whose client held
	// most of what was taken itself, All those that found no room for other reasons.
	Size, Client, All uint64
}

// Usage is how much of a budget is in use.
type Usage struct {
	// Bytes are taken of Size. Largest is the most that one client holds.
	Bytes, Size, Largest int64
	// Clients hold something, and Waiting is how many wait for room.
	Clients, Waiting int
	// Refused are counted from the beginning.
	Refused Refused
}

// NewBudget makes a budget of so many bytes, for which one may wait so long.
func NewBudget(size int64, patience time.Duration) *Budget {
	return &Budget{free: size, size: size, patience: patience, clients: make(map[string]*part)}
}

// Usage tells how much is in use.
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := Usage{Bytes: b.size - b.free, Size: b.size, Waiting: b.waiting.Len(), Refused: b.refused}
	for _, c := range b.clients {
		if c.bytes > 0 {
			u.Clients++
			u.Largest = max(u.Largest, c.bytes)
		}
	}
	return u
}

// fair says whether somebody may have so much more of what is left free.
func fair(has, more, free int64) bool { return more <= free && has+more <= share*(free-more) }

// acquire waits for room.
func (b *Budget) acquire(ctx context.Context, client string, n int64) error {
	b.mu.Lock()
	if !fair(0, n, b.size) {
		b.refused.Size++
		b.mu.Unlock()
		return fmt.Errorf("%w: %d bytes, of %d", ErrNoRoom, n, b.size)
	}
	c := b.clients[client]
	if c == nil {
		c = new(part)
		b.clients[client] = c
	}
	if fair(c.bytes, n, b.free) {
		b.free -= n
		c.bytes += n
		b.mu.Unlock()
		return nil
	}
	if b.patience <= 0 || !fair(c.waiting, 1, mostWaiting-int64(b.waiting.Len())) {
		defer b.mu.Unlock()
		return b.refuse(client, c)
	}
	w := &waiter{client: c, bytes: n, got: make(chan struct{})}
	place := b.waiting.PushBack(w)
	c.waiting++
	b.mu.Unlock()

	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	select {
	case <-w.got:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.got: // meanwhile
		return nil
	default:
	}
	b.waiting.Remove(place)
	c.waiting--
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		b.forget(client, c)
		return err
	}
	return b.refuse(client, c) // also if the time for the whole ran out here
}

// refuse counts one that gets no room. It needs mu.
func (b *Budget) refuse(client string, c *part) error {
	if c.bytes > (b.size-b.free)/2 {
		b.refused.Client++
	} else {
		b.refused.All++
	}
	b.forget(client, c)
	return ErrNoRoom
}

// release gives bytes back, and room to those that wait for it: in their order, but who
// needs much does not keep others waiting.
func (b *Budget) release(client string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clients[client]
	if c == nil || n == 0 {
		return
	}
	b.free += n
	c.bytes -= n
	b.forget(client, c)
	for place := b.waiting.Front(); place != nil; {
		w, next := place.Value.(*waiter), place.Next() //nolint:forcetypeassert // it has no others
		if fair(w.client.bytes, w.bytes, b.free) {
			b.waiting.Remove(place)
			b.free -= w.bytes
			w.client.bytes += w.bytes
			w.client.waiting--
			close(w.got)
		}
		place = next
	}
}

// forget drops a client that has nothing. It needs mu.
func (b *Budget) forget(client string, c *part) {
	if c.bytes == 0 && c.waiting == 0 {
		delete(b.clients, client)
	}
}

// Begin makes a context with which Take counts, until the function that is returned is
// called: that gives everything back, and from then on Take refuses. Who names the client
// whose share it is. It is called at most once, by the first Take and never after the
// returned function; nil puts all that have none in one share.
func (b *Budget) Begin(ctx context.Context, who func() string) (context.Context, func()) {
	if b == nil {
		return ctx, func() {}
	}
	h := &held{budget: b, who: who}
	return context.WithValue(ctx, heldKey{}, h), h.end
}

type heldKey struct{}

// held is what is taken for one context.
type held struct {
	budget *Budget

	mu     sync.Mutex
	who    func() string // guarded by mu; nil once it has told
	client string        // guarded by mu
	bytes  int64         // guarded by mu
	over   bool          // guarded by mu
}

func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.budget.release(h.client, h.bytes)
	h.bytes = 0
}

// begin is whose share it is; false if it is over.
func (h *held) begin() (client string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return "", false
	}
	if h.who != nil {
		h.client, h.who = h.who(), nil
	}
	return h.client, true
}

// Take counts bytes before they are held, and waits for room if there is none. The
// error is ErrNoRoom or context.Canceled. Without a budget there is always room.
func Take(ctx context.Context, n int64) error {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok || n <= 0 {
		return nil
	}
	client, ok := h.begin()
	if !ok {
		return context.Canceled
	}
	if err := h.budget.acquire(ctx, client, n); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		h.budget.release(client, n)
		return context.Canceled
	}
	h.bytes += n
	return nil
}

// Give gives back what was taken and is held no more.
func Give(ctx context.Context, n int64) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n = min(n, h.bytes) // nothing is left when it is over
	h.bytes -= n
	h.budget.release(h.client, n)
}

// leastRead is how much room reading begins with, in bytes.
const leastRead = 2 << 10

// ReadAll reads up to limit bytes, and takes room for what it holds, which is the
// capacity of the result. Length is what the other side says, negative for nothing. The
// error is ErrMalformed if there is more, r's own, or Take's.
func ReadAll(ctx context.Context, r io.Reader, length, limit int64) ([]byte, error) {
	// One more than is needed lets the end be seen.
	size := min(max(length+1, leastRead), limit+1)
	if err := Take(ctx, size); err != nil {
		return nil, err
	}
	b := make([]byte, 0, size)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		end := errors.Is(err, io.EOF)
		if int64(len(b)) > limit {
			end, err = false, fmt.Errorf("%w: it has more than %d bytes", errOversized, limit)
		}
		if end {
			return b, nil
		}
		if err != nil {
			Give(ctx, int64(cap(b)))
			return nil, err
		}
		if len(b) < cap(b) {
			continue
		}
		before := int64(cap(b))
		after := min(2*before, limit+1)
		if err := Take(ctx, after); err != nil {
			Give(ctx, before)
			return nil, err
		}
		b = append(make([]byte, 0, after), b...)
		Give(ctx, before)
	}
}
