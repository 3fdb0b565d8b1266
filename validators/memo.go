package validators

import (
	"context"
	"sync"
	"time"
)

// memo remembers the answers of a slow question for a while and asks it only
// once at a time. A caller that leaves does not stop the question for others.
// Bounded to memoSize answers; safe for concurrent use.
type memo[K comparable, V any] struct {
	ask func(context.Context, K) (V, error)
	// keep says for how long an answer is good, errors included.
	keep    func(V, error) time.Duration
	timeout time.Duration

	mu      sync.Mutex
	answers map[K]answer[V]    // guarded by mu
	asking  map[K]*question[V] // guarded by mu
}

const memoSize = 4096

type answer[V any] struct {
	value V
	err   error
	until time.Time
}

type question[V any] struct {
	done   chan struct{}
	answer answer[V] // set before done is closed
}

func newMemo[K comparable, V any](timeout time.Duration, keep func(V, error) time.Duration, ask func(context.Context, K) (V, error)) *memo[K, V] {
	return &memo[K, V]{ask: ask, keep: keep, timeout: timeout, answers: make(map[K]answer[V]), asking: make(map[K]*question[V])}
}

// get returns the remembered answer or waits for a new one, at most until ctx
// ends.
func (m *memo[K, V]) get(ctx context.Context, key K) (V, error) {
	m.mu.Lock()
	if a, ok := m.answers[key]; ok && time.Now().Before(a.until) {
		m.mu.Unlock()
		return a.value, a.err
	}
	q, ok := m.asking[key]
	if !ok {
		q = &question[V]{done: make(chan struct{})}
		m.asking[key] = q
		go m.run(context.WithoutCancel(ctx), key, q) // ends within m.timeout
	}
	m.mu.Unlock()
	select {
	case <-q.done:
		return q.answer.value, q.answer.err
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
}

func (m *memo[K, V]) run(ctx context.Context, key K, q *question[V]) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	value, err := m.ask(ctx, key)
	q.answer = answer[V]{value: value, err: err, until: time.Now().Add(m.keep(value, err))}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asking, key)
	if len(m.answers) >= memoSize {
		for victim := range m.answers {
			delete(m.answers, victim)
			break
		}
	}
	m.answers[key] = q.answer
	close(q.done)
}
