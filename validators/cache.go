package validators

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quorate/internal/bounded"
	"quorate/internal/node"
)

// cache caches the answers of a slow query and runs one query for a key at a time. A caller
// that leaves does not cancel the query for others; the query ends when the last caller has
// left, unless it is lasting. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	ask func(context.Context, K) (V, error)
	// keep returns how long an answer is cached, errors included; 0 means not at all.
	keep    func(V, error) time.Duration
	timeout time.Duration
	// lasting says that a query goes on without callers, for later ones.
	lasting bool
	// enter waits until a query may be made for the client of ctx, and returns the context
	// to make it with. Nil means that queries are the service's own.
	enter func(ctx context.Context) (admitted context.Context, leave func(), err error)

	// answers and refusals hold at most cacheSize each, so that a flood of unknown keys does
	// not displace answers.
	answers, refusals *bounded.Cache[K, cachedAnswer[V]]

	mu     sync.Mutex
	asking map[K]*query[V] // guarded by mu
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
	waiters int  // guarded by cache.mu
	stale   bool // guarded by cache.mu; whether it was forgotten
}

func newCache[K comparable, V any](timeout time.Duration, keep func(V, error) time.Duration, ask func(context.Context, K) (V, error)) *cache[K, V] {
	newMap := func() *bounded.Cache[K, cachedAnswer[V]] {
		return bounded.New(bounded.Options[K, cachedAnswer[V]]{Entries: cacheSize})
	}
	return &cache[K, V]{ask: ask, keep: keep, timeout: timeout, answers: newMap(), refusals: newMap(), asking: make(map[K]*query[V])}
}

// get returns the cached answer, or waits for a new one until ctx ends.
func (m *cache[K, V]) get(ctx context.Context, key K) (V, error) {
	if a, ok := m.cached(key); ok {
		return a.value, a.err
	}
	if q := m.join(key); q != nil {
		return m.await(ctx, key, q)
	}
	// The caller waits for its own turn. Otherwise another client's queue would delay it.
	querying, leave := node.WithoutClient(ctx), func() {}
	if m.enter != nil {
		var err error
		if querying, leave, err = m.enter(ctx); err != nil {
			var zero V
			return zero, err
		}
	}
	if a, ok := m.cached(key); ok { // asked meanwhile
		leave()
		return a.value, a.err
	}
	return m.await(ctx, key, m.start(querying, key, leave))
}

// cached returns the cached answer to key, which may be a refusal.
func (m *cache[K, V]) cached(key K) (cachedAnswer[V], bool) {
	for _, known := range []*bounded.Cache[K, cachedAnswer[V]]{m.answers, m.refusals} {
		if a, ok := known.Get(key); ok && time.Now().Before(a.until) {
			return a, true
		}
	}
	return cachedAnswer[V]{}, false
}

// join adds a waiter to the running query for key, and returns nil if there is none.
func (m *cache[K, V]) join(key K) *query[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.asking[key]
	if q != nil {
		q.waiters++
	}
	return q
}

// start joins the running query for key, or starts one. It calls leave when that query, or
// the need for one, has ended.
func (m *cache[K, V]) start(ctx context.Context, key K, leave func()) *query[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, ok := m.asking[key]
	if !ok {
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), m.timeout)
		q = &query[V]{done: make(chan struct{}), stop: stop}
		m.asking[key] = q
		go m.run(asking, key, q, leave) // ends with its context
	} else {
		leave()
	}
	q.waiters++
	return q
}

// await returns q's answer. The caller is one of q's waiters.
func (m *cache[K, V]) await(ctx context.Context, key K, q *query[V]) (V, error) {
	select {
	case <-q.done:
		m.mu.Lock()
		stale := q.stale
		m.mu.Unlock()
		if stale {
			return m.get(ctx, key)
		}
		return q.answer.value, q.answer.err
	case <-ctx.Done():
		m.leave(key, q)
		var zero V
		return zero, ctx.Err()
	}
}

// leave removes a waiter of q, and ends q with the last one unless it is lasting.
func (m *cache[K, V]) leave(key K, q *query[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q.waiters--
	if q.waiters == 0 && !m.lasting {
		q.stop()
		if m.asking[key] == q {
			delete(m.asking, key) // the next caller must not get the cancellation
		}
	}
}

func (m *cache[K, V]) run(ctx context.Context, key K, q *query[V], leave func()) {
	defer leave()
	defer q.stop()
	value, err := m.ask(ctx, key)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// It was the query's own deadline: callers must not take it for theirs.
		err = fmt.Errorf("%w: no answer within %s: %v", node.ErrUnavailable, m.timeout, err) //nolint:errorlint // see above
	}
	keep := m.keep(value, err)
	q.answer = cachedAnswer[V]{value: value, err: err, until: time.Now().Add(keep)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking[key] == q {
		delete(m.asking, key)
		m.store(key, q.answer, keep)
	}
	close(q.done)
}

// store replaces what is cached for key.
func (m *cache[K, V]) store(key K, a cachedAnswer[V], keep time.Duration) {
	m.answers.Delete(key)
	m.refusals.Delete(key)
	switch {
	case keep <= 0:
	case a.err != nil:
		m.refusals.Set(key, a)
	default:
		m.answers.Set(key, a)
	}
}

// forgetRefusals drops all cached errors.
func (m *cache[K, V]) forgetRefusals() { m.refusals.Clear() }

// forget drops everything that is cached. Waiters get the answer of a later query.
func (m *cache[K, V]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.asking {
		q.stale = true
	}
	clear(m.asking)
	m.answers.Clear()
	m.refusals.Clear()
}
