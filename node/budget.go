package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrNoRoom says that what is under way takes as many bytes as it may, or that one
// thing alone would.
var ErrNoRoom = errors.New("answers under way take as much memory as they may")

// Budget bounds the bytes that answers take on their way through the process, all
// together. Nil is no bound. Safe for concurrent use.
type Budget struct {
	free     *semaphore.Weighted
	size     int64
	patience time.Duration
}

// NewBudget makes a budget of so many bytes, for which one may wait so long.
func NewBudget(size int64, patience time.Duration) *Budget {
	return &Budget{free: semaphore.NewWeighted(size), size: size, patience: patience}
}

// Begin makes a context that Take counts for, until the function is called: it gives
// all of it back, also what those take that are late.
func (b *Budget) Begin(ctx context.Context) (context.Context, func()) {
	if b == nil {
		return ctx, func() {}
	}
	h := &held{budget: b}
	return context.WithValue(ctx, heldKey{}, h), h.end
}

type heldKey struct{}

// held is what is taken for one context.
type held struct {
	budget *Budget

	mu    sync.Mutex
	bytes int64 // guarded by mu
	over  bool  // guarded by mu
}

func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.budget.free.Release(h.bytes)
	h.bytes = 0
}

// Take counts bytes before they are held, and waits for room if there is none. The
// error is ErrNoRoom or context.Canceled. Without a budget there is always room.
func Take(ctx context.Context, n int64) error {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok || n <= 0 {
		return nil
	}
	b := h.budget
	if n > b.size {
		return fmt.Errorf("%w: %d bytes, of %d", ErrNoRoom, n, b.size)
	}
	if !b.free.TryAcquire(n) {
		waiting, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		if b.free.Acquire(waiting, n) != nil {
			if err := ctx.Err(); errors.Is(err, context.Canceled) {
				return err
			}
			return ErrNoRoom // also if the time for the whole ran out here
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		b.free.Release(n)
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
	h.budget.free.Release(n)
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
