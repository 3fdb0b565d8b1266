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

// ErrNoRoom reports that responses in progress use the whole budget, or that one response
// alone exceeds it.
var ErrNoRoom = errors.New("responses in progress use all memory allowed for them")

// Budget bounds the bytes of all responses in progress and divides them among clients. A
// client may hold up to three times as many bytes as are free afterwards. One client alone
// gets three quarters, two greedy clients get three sevenths each, and some bytes are
// always left for the next client. (These are the dynamic thresholds of shared-memory
// switches, Choudhury and Hahne 1998.) A nil Budget has no bound. A Client divides calls in
// the same way: there, a "byte" is a call. A Budget is safe for concurrent use.
type Budget struct {
	size    int64
	timeout time.Duration

	mu      sync.Mutex
	free    int64            // guarded by mu
	clients map[string]*part // guarded by mu; those that hold bytes or wait
	waiting list.List        // of *waiter, oldest in front; guarded by mu
	refused Refused          // guarded by mu
}

// part is what one client holds of a budget. The budget's mu guards it.
type part struct {
	bytes   int64
	waiting int64
}

// waiter waits for bytes.
type waiter struct {
	client *part
	bytes  int64
	got    chan struct{} // closed when it has them
}

const (
	// share is how many times the free bytes a client may hold, and how many times the free
	// waiting places it may take.
	share = 3
	// mostWaiting bounds the number of waiters.
	mostWaiting = 1024
)

// Refused counts refusals.
type Refused struct {
	// Size counts requests larger than the budget, Client those of clients that themselves
	// held most of the bytes, All the others.
	Size, Client, All uint64
}

// Usage is how much of a budget is in use.
type Usage struct {
	// Bytes are in use, of Size in all. Largest is the most that one client holds.
	Bytes, Size, Largest int64
	// Clients is the number of clients that hold bytes or wait, Waiting the number of
	// waiters.
	Clients, Waiting int
	// Refused counts from the start of the process.
	Refused Refused
}

// NewBudget returns a budget of size bytes. A caller waits for bytes up to timeout.
func NewBudget(size int64, timeout time.Duration) *Budget {
	return &Budget{free: size, size: size, timeout: timeout, clients: make(map[string]*part)}
}

// Usage returns the current use.
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

// fair reports whether a client that holds has may take more of free bytes.
func fair(has, more, free int64) bool { return more <= free && has+more <= share*(free-more) }

// acquire waits for n bytes.
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
	if b.timeout <= 0 || !fair(c.waiting, 1, mostWaiting-int64(b.waiting.Len())) {
		defer b.mu.Unlock()
		return b.refuse(client, c)
	}
	w := &waiter{client: c, bytes: n, got: make(chan struct{})}
	place := b.waiting.PushBack(w)
	c.waiting++
	b.mu.Unlock()

	timer := time.NewTimer(b.timeout)
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
	case <-w.got: // given meanwhile
		return nil
	default:
	}
	b.waiting.Remove(place)
	c.waiting--
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		b.forget(client, c)
		return err
	}
	return b.refuse(client, c) // also if the client's time ended here
}

// refuse counts a refusal. The caller holds mu.
func (b *Budget) refuse(client string, c *part) error {
	if c.bytes > (b.size-b.free)/2 {
		b.refused.Client++
	} else {
		b.refused.All++
	}
	b.forget(client, c)
	return ErrNoRoom
}

// release returns n bytes and gives them to waiters in order. A waiter that needs more than
// there is does not block those behind it.
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
		w, next := place.Value.(*waiter), place.Next() //nolint:forcetypeassert // the list holds only waiters
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

// forget drops a client that holds nothing. The caller holds mu.
func (b *Budget) forget(client string, c *part) {
	if c.bytes == 0 && c.waiting == 0 {
		delete(b.clients, client)
	}
}

// Begin returns a context for Take, and a function that returns all bytes taken with it;
// Take fails afterwards. The client of ctx is charged (see WithClient), or the one without a
// name. The first Take asks for its name, at most once and never after the returned function.
func (b *Budget) Begin(ctx context.Context) (context.Context, func()) {
	return b.begin(ctx, func() string { return clientOf(ctx) })
}

func (b *Budget) begin(ctx context.Context, who func() string) (context.Context, func()) {
	if b == nil {
		return ctx, func() {}
	}
	h := &held{budget: b, who: who}
	return context.WithValue(ctx, heldKey{}, h), h.end
}

// Outlive returns a context for work that may continue after what ctx's Begin is for, and a function that returns all
// bytes taken with it. They are charged to ctx's client.
func Outlive(ctx context.Context) (context.Context, func()) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return ctx, func() {}
	}
	client, _ := h.begin()
	return h.budget.begin(ctx, func() string { return client })
}

type heldKey struct{}

// held is what is taken for one context.
type held struct {
	budget *Budget

	mu     sync.Mutex
	who    func() string // guarded by mu; nil once it was called
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

// begin returns the client to charge; false if the context's use is over.
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

// Take charges n bytes to ctx's client before they are allocated, and waits until they are
// free. Errors: ErrNoRoom or context.Canceled. Without a budget Take returns nil.
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

// Give returns n bytes that are no longer in use.
func Give(ctx context.Context, n int64) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n = min(n, h.bytes) // 0 after the end
	h.bytes -= n
	h.budget.release(h.client, n)
}

// leastRead is the smallest buffer that ReadAll starts with, in bytes.
const leastRead = 2 << 10

// ReadAll reads up to limit bytes and charges the capacity of the result to ctx's client.
// Length is the announced length, negative if there is none. The error is ErrMalformed if r
// has more bytes, r's own, or that of Take.
func ReadAll(ctx context.Context, r io.Reader, length, limit int64) ([]byte, error) {
	// One spare byte detects the end.
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
			end, err = false, fmt.Errorf("%w: more than %d bytes", ErrTooLong, limit)
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
