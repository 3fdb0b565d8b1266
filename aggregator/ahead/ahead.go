// Package ahead signs messages before clients request them. It retries each message until validators sign it or the
// message is obsolete, within a budget. Results go to the aggregator's cache, so that a later request is a read.
package ahead

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
)

// ErrObsolete is returned by a Job's Request when its message will never be signed because the network's state has
// changed.
var ErrObsolete = errors.New("no client can need this message any more")

// Signer signs messages.
type Signer interface {
	Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error)
}

// Job is a message to sign.
type Job struct {
	// ID identifies the job. A waiting job is not queued twice.
	ID ids.ID
	// Request returns the request. It is called for each attempt.
	Request func(ctx context.Context) (aggregator.Request, error)
}

// Options configures an Ahead. Signer is required.
type Options struct {
	Signer Signer
	// Rounds is the number of messages signed concurrently; 0 means 4.
	Rounds int
	// Waiting is the maximum number of waiting jobs. Further jobs are refused. 0 means 10,000.
	Waiting int
	// Lifetime is how long a job is retried; 0 means an hour.
	Lifetime time.Duration
	// Attempt is the timeout of one attempt; 0 means 10 s.
	Attempt time.Duration
	// Log may be nil.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// Ahead is a queue of jobs with its workers. It is safe for concurrent use.
type Ahead struct {
	options Options
	jobs    *prometheus.CounterVec
	seconds prometheus.Histogram

	mu      sync.Mutex
	queue   queue               // guarded by mu
	waiting map[ids.ID]struct{} // queued or in progress; guarded by mu
	changed chan struct{}       // holds one token when the queue's head may have changed
}

// task is a job with its attempts.
type task struct {
	Job
	due, since time.Time
	pause      time.Duration
}

// New returns an Ahead. It works while Run runs.
func New(o Options) (*Ahead, error) {
	if o.Rounds <= 0 {
		o.Rounds = 4
	}
	if o.Waiting <= 0 {
		o.Waiting = 10_000
	}
	if o.Lifetime <= 0 {
		o.Lifetime = time.Hour
	}
	if o.Attempt <= 0 {
		o.Attempt = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	a := &Ahead{
		options: o,
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_ahead_jobs_total", Help: "Messages to sign ahead of requests, by outcome: signed, obsolete, expired, or dropped because the queue was full.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorate_ahead_seconds", Help: "Time from the discovery of a message to its signature.", Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300},
		}),
		waiting: make(map[ids.ID]struct{}),
		changed: make(chan struct{}, 1),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_ahead_waiting", Help: "Messages that wait to be signed ahead of requests.",
	}, func() float64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		return float64(len(a.waiting))
	})
	for _, c := range []prometheus.Collector{a.jobs, a.seconds, waiting} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Offer queues a job. It returns false if the job is already waiting or the queue is full.
func (a *Ahead) Offer(j Job) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.waiting[j.ID]; known {
		return false
	}
	if len(a.waiting) >= a.options.Waiting {
		a.jobs.WithLabelValues("dropped").Inc()
		return false
	}
	now := time.Now()
	a.waiting[j.ID] = struct{}{}
	a.push(&task{Job: j, due: now, since: now, pause: firstPause})
	return true
}

// push queues a task. Requires mu.
func (a *Ahead) push(t *task) {
	heap.Push(&a.queue, t)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Run processes jobs until ctx ends.
func (a *Ahead) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	slots := make(chan struct{}, a.options.Rounds)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		t := a.next(ctx, timer)
		if t == nil {
			return
		}
		workers.Go(func() {
			defer func() { <-slots }()
			a.attempt(ctx, t)
		})
	}
}

// next waits for a task that is due. It returns nil when ctx ends.
func (a *Ahead) next(ctx context.Context, timer *time.Timer) *task {
	for {
		a.mu.Lock()
		wait := time.Hour
		if len(a.queue) > 0 {
			if wait = time.Until(a.queue[0].due); wait <= 0 {
				t := heap.Pop(&a.queue).(*task)
				a.mu.Unlock()
				return t
			}
		}
		a.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-a.changed:
		}
	}
}

func (a *Ahead) attempt(ctx context.Context, t *task) {
	attempt, cancel := context.WithTimeout(ctx, a.options.Attempt)
	defer cancel()
	request, err := t.Request(attempt)
	if err == nil {
		request.Ahead = true
		_, err = a.options.Signer.Sign(attempt, request)
	}
	switch {
	case err == nil:
		a.seconds.Observe(time.Since(t.since).Seconds())
		a.done(t, "signed")
	case ctx.Err() != nil:
		a.keep(t) // Run may be called again
	case errors.Is(err, ErrObsolete):
		a.done(t, "obsolete")
	case time.Since(t.since)+t.pause > a.options.Lifetime:
		a.options.Log.Info("a message was not signed ahead of requests; it is signed on request", slog.String("id", t.ID.String()), slog.Any("error", err))
		a.done(t, "expired")
	default:
		a.options.Log.Debug("signing a message ahead of requests failed; it is tried again", slog.String("id", t.ID.String()), slog.Duration("in", t.pause), slog.Any("error", err))
		t.due = time.Now().Add(t.pause)
		t.pause = min(2*t.pause, maxPause)
		a.keep(t)
	}
}

// keep queues a task again.
func (a *Ahead) keep(t *task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.push(t)
}

func (a *Ahead) done(t *task, outcome string) {
	a.jobs.WithLabelValues(outcome).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, t.ID)
}

// queue is a heap of tasks, the next one due first.
type queue []*task

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*task)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
