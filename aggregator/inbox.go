package aggregator

import (
	"sync"
	"time"
)

// event changes the round; it runs on the runner's goroutine.
type event func(now time.Duration)

// inbox is a queue of events. Its length is bounded by its producers: each node answers a
// request at most once, and each waiter joins and leaves once.
type inbox struct {
	mu     sync.Mutex
	events []event
	closed bool
	signal chan struct{} // holds one token while events wait
}

// put queues e and reports false if the runner has ended.
func (b *inbox) put(e event) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

func (b *inbox) take(spare []event) []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = spare[:0]
	return events
}

// closeIfEmpty closes the queue unless it has events.
func (b *inbox) closeIfEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) > 0 {
		return false
	}
	b.closed = true
	return true
}

func (b *inbox) close() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	events := b.events
	b.events = nil
	return events
}
