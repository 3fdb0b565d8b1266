package aggregator

import (
	"sync"
	"time"
)

// event changes the round; it runs on the runner's goroutine.
type event func(now time.Duration)

// inbox is an unbounded queue; what bounds it is that every node asked answers
// at most once and every waiter joins and leaves once.
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

// closeIfEmpty ends the queue unless something arrived meanwhile.
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
