package validators

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quorate/internal/node"
)

// cache caches the answers of a slow query and runs one query for a key at a time. A caller
// that leaves does not cancel the query for others; the query ends when the last caller has
// left. A cache holds at most cacheSize answers. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	ask func(context.Context, K) (V, error)
	// keep returns how long an answer is cached, errors included; 0 means not at all.
	keep    func(V, error) time.Duration
	timeout time.Duration

	mu      sync.Mutex
	answers map[K]cachedAnswer[V] // guarded by mu
	asking  map[K]*query[V]       // guarded by mu
}

const cacheSize = 4096

type cachedAnswer[V any] struct {
	value V
	err   error
	until time.Time
}

type query[V any] struct {
	done    chan struct{}
	answer  cachedAnswer[V] // set before done is closed
	stop    context.CancelFunc
	waiters int // guarded by cache.mu
}

func newCache[K comparable, V any](timeout time.Duration, keep func(V, error) time.Duration, ask func(context.Context, K) (V, error)) *cache[K, V] {
	return &cache[K, V]{ask: ask, keep: keep, timeout: timeout, answers: make(map[K]cachedAnswer[V]), asking: make(map[K]*query[V])}
}

// get returns the cached answer, or waits for a new one until ctx ends.
func (m *cache[K, V]) get(ctx context.Context, key K) (V, error) {
	m.mu.Lock()
	if a, ok := m.answers[key]; ok && time.Now().Before(a.until) {
		m.mu.Unlock()
		return a.value, a.err
	}
	q, ok := m.asking[key]
	if !ok {
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), m.timeout)
		q = &query[V]{done: make(chan struct{}), stop: stop}
		m.asking[key] = q
		go m.run(asking, key, q) // ends with its context
	}
	q.waiters++
	m.mu.Unlock()
	select {
	case <-q.done:
		return q.answer.value, q.answer.err
	case <-ctx.Done():
		m.leave(key, q)
		var zero V
		return zero, ctx.Err()
	}
}

// leave ends q if nobody waits for it any more.
func (m *cache[K, V]) leave(key K, q *query[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q.waiters--
	if q.waiters == 0 {
		q.stop()
		if m.asking[key] == q {
			delete(m.asking, key) // the next caller must not get the cancellation
		}
	}
}

func (m *cache[K, V]) run(ctx context.Context, key K, q *query[V]) {
	defer q.stop()
	value, err := m.ask(ctx, key)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// The deadline was ours: it must not look like the caller's.
		err = fmt.Errorf("%w: no answer within %s: %v", node.ErrUnavailable, m.timeout, err) //nolint:errorlint // see above
	}
	keep := m.keep(value, err)
	q.answer = cachedAnswer[V]{value: value, err: err, until: time.Now().Add(keep)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking[key] == q {
		delete(m.asking, key)
		if keep > 0 {
			m.remember(key, q.answer)
		} else {
			delete(m.answers, key)
		}
	}
	close(q.done)
}

// remember makes room by dropping what is too old, then a refusal, then anything.
// m.mu is held.
func (m *cache[K, V]) remember(key K, a cachedAnswer[V]) {
	if _, ok := m.answers[key]; !ok && len(m.answers) >= cacheSize {
		now := time.Now()
		var refusal, other *K
		for k, old := range m.answers {
			switch {
			case !now.Before(old.until):
				delete(m.answers, k)
			case old.err != nil:
				refusal = &k
			default:
				other = &k
			}
		}
		if len(m.answers) >= cacheSize {
			if refusal != nil {
				other = refusal
			}
			delete(m.answers, *other)
		}
	}
	m.answers[key] = a
}
