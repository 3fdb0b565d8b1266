package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/internal/retry"
	"quorate/internal/store"
)

// Options configures a Pipeline. Source, Store and Projections are required.
type Options[B any] struct {
	// NetworkID and Chain identify the pipeline in cursors, errors and logs.
	NetworkID uint32
	Chain     string
	Source    Source[B]
	Store     store.Store
	// Projections are the pipeline's projections. Each has its own cursor: a new projection gets the blocks from Start on,
	// while projections that have indexed them are skipped.
	Projections []Projection[B]
	// Keep stores the containers of blocks beside the projections' rows. Projections that are rebuilt read from them. Keep
	// requires that Source is a ContainerSource.
	Keep bool
	// Start is the height at which new projections begin; 0 is the genesis block. It has no effect on other projections.
	Start uint64
	// Fetchers is the number of concurrent fetches; default 4.
	Fetchers int
	// WindowBytes limits the memory of fetched blocks that are not committed. Each fetcher may exceed it by one
	// response. Default 64 MiB.
	WindowBytes int64
	// Room limits the same memory across several pipelines; nil means no common limit.
	Room *Room
	// Poll is the interval between requests for the node's height while there is nothing to fetch; default 200 ms. See
	// Wake.
	Poll time.Duration
	// QuietPoll is the maximum poll interval while the chain is quiet. The interval grows to a sixteenth of the time
	// since the node's height last rose or Wake was called. Default Poll.
	QuietPoll time.Duration
	// StoreCaughtUp stores that the index has caught up. After a restart such an index counts as caught up while the
	// node does not answer. Set it for the index that serves, not for one that is rebuilt beside it.
	StoreCaughtUp bool
	// Committed is called after each commit with the first height that some projection lacks. It blocks the pipeline: it
	// must only wake readers.
	Committed func(next uint64)
	// Now returns the time at which a container is stored; default time.Now.
	Now func() time.Time
	// Log receives failures and recoveries; nil discards them.
	Log *slog.Logger
}

const (
	// jobBlocks is the number of blocks in one fetcher's job.
	jobBlocks = 1024
	// jobInRoom is the number of blocks in a job if chains share a Room, which may not fit more for one chain.
	jobInRoom = 128
	// answerBytes is the target memory of one fetch. The number of blocks per request follows from their size.
	answerBytes = 16 << 20

	// A batch is committed when it has this many bytes or rows,
	batchBytes = 4 << 20
	batchRows  = 20_000
	// keptRows is the largest number of rows of a batch whose memory is reused at the tip.
	keptRows = 1000
	// or when its first block has waited this long, near the tip and elsewhere.
	batchAgeAtTip = 50 * time.Millisecond
	batchAge      = 500 * time.Millisecond

	// quietPart divides the time since the last change to give the poll interval.
	quietPart = 16
	// pollFar is the poll interval while catching up.
	pollFar = 5 * time.Second
)

func (o Options[B]) withDefaults() Options[B] {
	if o.Fetchers <= 0 {
		o.Fetchers = 4
	}
	if o.WindowBytes <= 0 {
		o.WindowBytes = 64 << 20
	}
	if o.Poll <= 0 {
		o.Poll = 200 * time.Millisecond
	}
	o.QuietPoll = max(o.QuietPoll, o.Poll)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Committed == nil {
		o.Committed = func(uint64) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pipeline indexes one chain: it catches up with the tip and then follows it, both by the same code. It is safe for
// concurrent use.
type Pipeline[B any] struct {
	options Options[B]
	log     *slog.Logger
	status  status
	wake    chan struct{}
	busy    chan struct{} // holds an element while Run or Watch runs
	// indexer is the pipeline in this process that indexes the chain while this one watches, or nil.
	indexer atomic.Pointer[Pipeline[B]]
	// reported is what the indexing process published, while this one watches; nil if nothing.
	reported atomic.Pointer[report]
}

// New returns a pipeline. It reads and fetches nothing.
func New[B any](o Options[B]) (*Pipeline[B], error) {
	switch {
	case o.Source == nil || o.Store == nil:
		return nil, errors.New("an index needs a source and a store")
	case len(o.Projections) == 0:
		return nil, errors.New("an index needs a projection")
	}
	names := make(map[string]bool)
	for _, t := range o.Projections {
		if names[t.Name()] {
			return nil, fmt.Errorf("two projections are named %q", t.Name())
		}
		names[t.Name()] = true
	}
	if _, ok := o.Source.(ContainerSource[B]); o.Keep && !ok {
		return nil, errors.New("cannot store containers: the source has none")
	}
	o = o.withDefaults()
	return &Pipeline[B]{
		options: o,
		log:     o.Log.With(slog.Uint64("networkID", uint64(o.NetworkID)), slog.String("chain", o.Chain)),
		wake:    make(chan struct{}, 1),
		busy:    make(chan struct{}, 1),
	}, nil
}

// Wake makes the pipeline request the node's height now. Call it when a new block is reported before the next poll.
func (p *Pipeline[B]) Wake() {
	if indexer := p.indexer.Load(); indexer != nil {
		indexer.Wake()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// IndexedBy makes Status report the status of another Pipeline that indexes the same chain in the same store; nil ends
// that. The other one, which must not run yet, begins with what is known. The last reported position stays.
func (p *Pipeline[B]) IndexedBy(other *Pipeline[B]) {
	last := p.indexer.Load()
	from := &p.status
	if last != nil {
		from = &last.status
	}
	switch {
	case other != nil:
		other.status.inherit(from)
	case last != nil:
		last.status.mu.Lock()
		next, lanes := last.status.current.Next, last.status.lanes
		last.status.mu.Unlock()
		p.status.committed(next, lanes)
	}
	p.indexer.Store(other)
}

// Fail makes Status report that the index has stopped. Call it if no pipeline goes on after store.ErrFenced.
func (p *Pipeline[B]) Fail(err error) {
	p.IndexedBy(nil)
	p.status.end(err, false)
}

// Status returns the state of the pipeline.
func (p *Pipeline[B]) Status() Status { return p.readStatus((*status).read) }

// StatusOf returns the state of one projection, which may be ahead of projections that are rebuilt. Before Run has read the
// cursors, it equals Status.
func (p *Pipeline[B]) StatusOf(projection string) Status {
	return p.readStatus(func(s *status) Status { return s.readOf(projection) })
}

// readStatus returns the status of the indexer, if there is one.
func (p *Pipeline[B]) readStatus(read func(*status) Status) Status {
	indexer := p.indexer.Load()
	if indexer == nil {
		return p.noted(read(&p.status))
	}
	now := indexer.readStatus(read)
	if now.State == Stopped && len(p.busy) > 0 { // p watches: it knows the height of the chain
		own := p.noted(read(&p.status))
		own.State, own.Err = now.State, now.Err
		return own
	}
	return now
}

func (p *Pipeline[B]) noted(status Status) Status {
	if noter, ok := p.options.Source.(Noter); ok {
		status.Note = noter.Note()
	}
	if said := p.reported.Load(); said != nil {
		said.apply(&status)
	}
	return status
}

// Run indexes blocks until ctx ends, and then returns nil. It resumes from the store's position and takes over from any
// other process that indexes the same chain there; that process fails at its next commit. Run waits for an unavailable
// node or store without limit. It returns a *BlockError, store.ErrFenced if another process took over, or permanent
// errors of the store.
func (p *Pipeline[B]) Run(ctx context.Context) error { return p.alone(ctx, p.run) }

// alone runs work exclusively. It returns nil if ctx ends.
func (p *Pipeline[B]) alone(ctx context.Context, work func(ctx context.Context) error) error {
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	default:
		return errors.New("this index runs already")
	}
	p.status.begin()
	err := work(ctx)
	follows := Continued(err)
	if ctx.Err() != nil {
		// The pipeline of another chain may be the one that noticed.
		err, follows = nil, Continued(context.Cause(ctx))
	}
	p.status.end(err, follows)
	return err
}

// Continued reports whether another pipeline continues the index after a failure of one: it has taken over, or the store
// was unavailable for so long that this process lost its lease.
func Continued(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnavailable)
}

func (p *Pipeline[B]) run(ctx context.Context) error {
	start, err := p.start(ctx)
	if err != nil {
		return err
	}
	lanes, err := p.takeOver(ctx, start)
	if err != nil {
		return err
	}
	if err := p.readCaughtUp(ctx); err != nil {
		return err
	}
	c := newCommitter(p, lanes)
	next := c.next // only the committer uses it from here on
	source, stored, err := p.source(ctx, next)
	if err != nil {
		return err
	}
	p.status.position(c.from(), next, stored, c.reached())
	p.log.Info("indexing", slog.Uint64("from", next), slog.Uint64("storedUntil", stored))
	r := &running[B]{
		Pipeline: p,
		source:   source,
		window:   c.window,
		reached:  newReached(),
		tips:     make(chan uint64),
		jobs:     make(chan *job[B]),
		queue:    make(chan *job[B], 2*p.options.Fetchers),
	}
	defer c.window.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.poll(ctx) })
	group.Go(func() error { return r.peek(ctx) })
	group.Go(func() error { return r.plan(ctx, next) })
	for fetcher := range p.options.Fetchers {
		group.Go(func() error { return r.fetch(ctx, fetcher) })
	}
	group.Go(func() error { return c.run(ctx, r.queue) })
	return group.Wait()
}

// running is the state that the goroutines of one Run share. Heights go from poll to plan and jobs from plan to fetch.
// The committer receives the same jobs in order.
type running[B any] struct {
	*Pipeline[B]
	source Source[B]
	window *window
	// reached is the height up to which blocks can be fetched.
	reached *reached
	tips    chan uint64 // nil without fetchers
	jobs    chan *job[B]
	queue   chan *job[B] // bounds the number of jobs ahead of the committer
}

// job is a range of heights that one fetcher fetches in pieces.
type job[B any] struct {
	from   uint64
	blocks int
	pieces chan piece[B] // closed after the last piece; never blocks the fetcher
}

// piece is the result of one fetch: blocks, or the reason why none follow.
type piece[B any] struct {
	blocks []Block[B]
	err    error
}

// poll requests the node's height and passes on changes.
func (r *running[B]) poll(ctx context.Context) error {
	ticker := time.NewTicker(r.options.Poll)
	defer ticker.Stop()
	changed := time.Now()
	for passed, known := uint64(0), false; ; {
		var height uint64
		a, ok := r.source.(*again[B])
		local := ok && a.local()
		if err := r.retry(ctx, askingHeight, func() (err error) {
			height, err = r.source.Tip(ctx)
			return err
		}); err != nil {
			return err
		}
		if !local { // the tip of the chain is not known yet
			height = r.status.tip(min(height, math.MaxInt64))
		}
		r.reached.set(height)
		var news chan<- uint64
		if !known || height > passed {
			news = r.tips
			changed = time.Now()
		}
		asked := time.Now()
		ticker.Reset(min(max(asked.Sub(changed)/quietPart, r.options.Poll), r.options.QuietPoll))
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case news <- height:
				passed, known, news = height, true, nil
			case <-ticker.C:
				waiting = r.Status().Lag() > NearTip && time.Since(asked) < pollFar
			case <-r.wake:
				waiting = false
			}
		}
	}
}

// peek requests the node's height while blocks come from the store, so that projections that are not rebuilt can report
// their lag. Nothing waits for the node.
func (r *running[B]) peek(ctx context.Context) error {
	a, ok := r.source.(*again[B])
	if !ok {
		return nil
	}
	ticker := time.NewTicker(pollFar)
	defer ticker.Stop()
	for a.local() {
		if height, err := a.ContainerSource.Tip(ctx); err == nil {
			r.status.tip(height)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// plan cuts the accepted heights into jobs.
func (r *running[B]) plan(ctx context.Context, next uint64) error {
	for {
		var tip uint64
		select {
		case <-ctx.Done():
			return ctx.Err()
		case tip = <-r.tips:
		}
		for next <= tip {
			n := min(jobBlocks, tip-next+1)
			if r.options.Room != nil {
				n = min(jobInRoom, n)
			}
			j := &job[B]{from: next, blocks: int(n), pieces: make(chan piece[B], n)}
			for _, to := range []chan<- *job[B]{r.queue, r.jobs} {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case to <- j:
				}
			}
			next += n
		}
	}
}

// fetch processes jobs. Fetchers are numbered.
func (r *running[B]) fetch(ctx context.Context, fetcher int) error {
	for most := jobBlocks; ; {
		var j *job[B]
		select {
		case <-ctx.Done():
			return ctx.Err()
		case j = <-r.jobs:
		}
		for from, end := j.from, j.from+uint64(j.blocks); from < end; {
			tip, err := r.reached.wait(ctx, from)
			if err != nil {
				return err
			}
			n, aside, err := r.window.wait(ctx, from, int(min(uint64(most), end-from, tip-from+1)))
			if err != nil {
				return err
			}
			blocks, err := r.get(ctx, fetcher, from, n)
			size := int64(0)
			for i := range blocks {
				size += int64(blocks[i].Size)
			}
			r.window.add(aside, size, len(blocks))
			if errors.Is(err, errFallen) {
				continue
			}
			if err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				// The committer ends the pipeline when it reaches this job.
				j.pieces <- piece[B]{err: err}
				break
			}
			j.pieces <- piece[B]{blocks: blocks}
			from += uint64(len(blocks))
			most = int(min(jobBlocks, max(1, answerBytes*int64(len(blocks))/max(1, size))))
		}
		close(j.pieces)
	}
}

// errFallen means that a block does not exist because an earlier report of the node's height was too high.
var errFallen = errors.New("the node's height has fallen")

// get fetches 1 to n blocks. It returns ErrUnreadable, errFallen, or the context's error.
func (r *running[B]) get(ctx context.Context, fetcher int, from uint64, n int) (blocks []Block[B], err error) {
	var unreadable error // or errFallen
	err = r.retryAs(ctx, task{doing: "fetching blocks", by: fetcher}, func() (err error) {
		if from > r.reached.height() {
			unreadable = errFallen
			return nil
		}
		blocks, err = r.source.Fetch(ctx, from, n)
		if errors.Is(err, ErrUnreadable) {
			unreadable = err
			return nil
		}
		if err == nil && (len(blocks) == 0 || len(blocks) > n) {
			err = fmt.Errorf("asked for 1 to %d blocks, got %d", n, len(blocks))
		}
		var missing *MissingError
		if err != nil && !errors.As(err, &missing) { // which names the block
			err = fmt.Errorf("block %d: %w", from, err)
		}
		return err
	})
	return blocks, errors.Join(err, unreadable)
}

// retry calls f until it succeeds or ctx ends. Meanwhile Status shows the failure and its cause.
func (p *Pipeline[B]) retry(ctx context.Context, what string, f func() error) error {
	return p.retryAs(ctx, task{doing: what}, f)
}

func (p *Pipeline[B]) retryAs(ctx context.Context, what task, f func() error) error {
	pauses := retry.Pauses{First: 100 * time.Millisecond, Longest: 5 * time.Second}
	err := pauses.Do(ctx, f, func(err error, _ time.Duration) {
		if p.status.failing(what, fmt.Errorf("%s: %w", what.doing, err)) {
			p.log.Warn(what.doing+" fails; the pipeline tries again until it works", slog.Any("error", err))
		}
	})
	if err == nil && p.status.failing(what, nil) {
		p.log.Info(what.doing + " works again")
	}
	return err
}
