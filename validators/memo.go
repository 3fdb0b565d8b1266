package validators

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quorate/internal/node"
)

// memo remembers the answers of a slow question for a while and asks it only
// once at a time. A caller that leaves does not stop the question for others;
// when the last one has left, it ends. Bounded to memoSize answers; safe for
// concurrent use.
type memo[K comparable, V any] struct {
	ask func(context.Context, K) (V, error)
	// keep says for how long an answer is good, errors included; 0 means not at
	// all.
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
	done    chan struct{}
	answer  answer[V] // set before done is closed
	stop    context.CancelFunc
	waiters int // guarded by memo.mu
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
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), m.timeout)
		q = &question[V]{done: make(chan struct{}), stop: stop}
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
func (m *memo[K, V]) leave(key K, q *question[V]) {
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

func (m *memo[K, V]) run(ctx context.Context, key K, q *question[V]) {
	defer q.stop()
	value, err := m.ask(ctx, key)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// The deadline was ours: it must not look like the caller's.
		err = fmt.Errorf("%w: no answer within %s: %v", node.ErrUnavailable, m.timeout, err) //nolint:errorlint // see above
	}
	keep := m.keep(value, err)
	q.answer = answer[V]{value: value, err: err, until: time.Now().Add(keep)}
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
func (m *memo[K, V]) remember(key K, a answer[V]) {
	if _, ok := m.answers[key]; !ok && len(m.answers) >= memoSize {
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
		if len(m.answers) >= memoSize {
			if refusal != nil {
				other = refusal
			}
			delete(m.answers, *other)
		}
	}
	m.answers[key] = a
}
