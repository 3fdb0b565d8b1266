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

// Options of a Pipeline. Source, Store and Tenants are required.
type Options[B any] struct {
	// NetworkID and Chain name the pipeline: in cursors, errors and logs.
	NetworkID uint32
	Chain     string
	Source    Source[B]
	Store     store.Store
	// Tenants each have their own cursor: one that is new to the store gets the
	// blocks from Start on, while those that have them already are left out.
	Tenants []Tenant[B]
	// Keep has the containers of blocks kept, beside the rows of tenants, and tenants
	// that have to begin anew read from those that are. It takes a Keeper for a Source.
	Keep bool
	// Start is the height at which a tenant begins that the store does not know
	// yet; 0 is the genesis block. For others it is without effect.
	Start uint64
	// Fetchers is how many fetches run at a time; default 4.
	Fetchers int
	// WindowBytes bounds the memory of blocks that were fetched and are not
	// committed; each fetcher may exceed it by one answer. Default 64 MiB.
	WindowBytes int64
	// Room bounds the same memory together with that of other pipelines; nil does not.
	Room *Room
	// Poll is how often the node is asked for its height while there is nothing to
	// fetch; default 200 ms. See Wake.
	Poll time.Duration
	// QuietPoll is what that becomes, little by little, while the node tells nothing new
	// and nobody wakes the pipeline: a sixteenth of the time since it last did, at most
	// this. Default Poll.
	QuietPoll time.Duration
	// Committed is called after each commit with the first height that no tenant
	// lacks. It holds up the pipeline: it must only wake whoever reads the rows.
	Committed func(next uint64)
	// Now tells when a container came to be kept; default time.Now.
	Now func() time.Time
	// Log gets what goes wrong and when it works again; nil drops it.
	Log *slog.Logger
}

const (
	// jobBlocks is how many blocks one fetcher is given at a time.
	jobBlocks = 1024
	// jobInRoom is the same where chains share a Room, in which there may not be more for
	// one of them.
	jobInRoom = 128
	// answerBytes is how much a fetch should bring, in memory: the number of blocks
	// asked for follows from their size.
	answerBytes = 16 << 20

	// A batch is committed once it has so many bytes or rows, which is what a
	// distributed store takes well,
	batchBytes = 4 << 20
	batchRows  = 20_000
	// keptRows is how many rows a batch may have had whose memory is kept at the tip.
	keptRows = 1000
	// or once its first block has waited so long: near the tip, and elsewhere.
	batchAgeAtTip = 50 * time.Millisecond
	batchAge      = 500 * time.Millisecond

	// quietPart is the part of the time since the last news that is let pass until the
	// node is asked again.
	quietPart = 16
	// pollFar is how often the node is asked for its height while catching up.
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

// Pipeline records one chain: it catches up with the tip and then follows it, both
// in the same way. All methods may be called from any goroutine.
type Pipeline[B any] struct {
	options Options[B]
	log     *slog.Logger
	status  status
	wake    chan struct{}
	busy    chan struct{} // holds an element while Run or Watch runs
	// recorder is who records while this one watches, if that is in this process.
	recorder atomic.Pointer[Pipeline[B]]
}

// New makes a pipeline. It reads and fetches nothing yet.
func New[B any](o Options[B]) (*Pipeline[B], error) {
	switch {
	case o.Source == nil || o.Store == nil:
		return nil, errors.New("an index needs a source and a store")
	case len(o.Tenants) == 0:
		return nil, errors.New("an index without tenants records nothing")
	}
	names := make(map[string]bool)
	for _, t := range o.Tenants {
		if names[t.Name()] {
			return nil, fmt.Errorf("two tenants are named %q", t.Name())
		}
		names[t.Name()] = true
	}
	if _, ok := o.Source.(Keeper[B]); o.Keep && !ok {
		return nil, errors.New("containers cannot be kept of a source that does not give them")
	}
	o = o.withDefaults()
	return &Pipeline[B]{
		options: o,
		log:     o.Log.With(slog.Uint64("networkID", uint64(o.NetworkID)), slog.String("chain", o.Chain)),
		wake:    make(chan struct{}, 1),
		busy:    make(chan struct{}, 1),
	}, nil
}

// Wake makes the pipeline ask for the node's height now: for whoever hears of new
// blocks before the next poll.
func (p *Pipeline[B]) Wake() {
	if recorder := p.recorder.Load(); recorder != nil {
		recorder.Wake()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// RecordedBy has Status tell what another Pipeline says of itself, which records the same
// chain in the same store; nil ends that. What it had recorded stays known: nobody is
// told of less than before.
func (p *Pipeline[B]) RecordedBy(other *Pipeline[B]) {
	if last := p.recorder.Load(); last != nil {
		last.status.mu.Lock()
		next, lanes := last.status.current.Next, last.status.lanes
		last.status.mu.Unlock()
		p.status.committed(next, lanes)
	}
	p.recorder.Store(other)
}

// Status tells how the pipeline stands.
func (p *Pipeline[B]) Status() Status { return p.told((*status).read) }

// StatusOf tells how the record of one tenant stands, which may be ahead of others that
// are made again; as Status before Run has found out.
func (p *Pipeline[B]) StatusOf(tenant string) Status {
	return p.told(func(s *status) Status { return s.readOf(tenant) })
}

// told is what the recorder says, once it knows as much as whoever watches.
func (p *Pipeline[B]) told(read func(*status) Status) Status {
	own := p.noted(read(&p.status))
	if recorder := p.recorder.Load(); recorder != nil {
		if now := recorder.told(read); now.State == Stopped || now.TipKnown && now.Next >= own.Next {
			return now
		}
	}
	return own
}

func (p *Pipeline[B]) noted(status Status) Status {
	if noter, ok := p.options.Source.(Noter); ok {
		status.Note = noter.Note()
	}
	return status
}

// Run records blocks until ctx ends, and then returns nil. It goes on from what the
// store has, and takes over from whoever else records the same chain there, who
// notices it with the next block. It waits for a node or a store that is away for as
// long as it takes. Errors: a *BlockError, store.ErrFenced if somebody else took over,
// or those of the store that do not pass.
func (p *Pipeline[B]) Run(ctx context.Context) error { return p.alone(ctx, p.run) }

// alone does work that no other may be done beside; an end of ctx is no error of it.
func (p *Pipeline[B]) alone(ctx context.Context, work func(ctx context.Context) error) error {
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	default:
		return errors.New("this index runs already")
	}
	p.status.begin()
	err := work(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	p.status.end(err)
	return err
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
	c := newCommitter(p, lanes)
	next := c.next // from now on the committer's alone
	source, kept, err := p.source(ctx, next)
	if err != nil {
		return err
	}
	p.status.position(c.from(), next, kept, c.reached())
	p.log.Info("indexing", slog.Uint64("from", next), slog.Uint64("kept", kept))
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

// running is what the goroutines of one Run share. Heights go from poll to plan,
// jobs from there to fetch, and the same jobs, in their order, to the committer.
type running[B any] struct {
	*Pipeline[B]
	source Source[B]
	window *window
	// reached is how far there are blocks to fetch.
	reached *reached
	tips    chan uint64 // nil if nobody fetches
	jobs    chan *job[B]
	queue   chan *job[B] // bounds how far fetching is ahead, in jobs
}

// job is a range of heights that one fetcher works off, piece by piece.
type job[B any] struct {
	from   uint64
	blocks int
	pieces chan piece[B] // closed after the last one; never blocks the fetcher
}

// piece is what one fetch brought: blocks, or why there will be none.
type piece[B any] struct {
	blocks []Block[B]
	err    error
}

// poll asks for the node's height and passes on what is news.
func (r *running[B]) poll(ctx context.Context) error {
	ticker := time.NewTicker(r.options.Poll)
	defer ticker.Stop()
	heard := time.Now() // of something new
	for told, known := uint64(0), false; ; {
		var height uint64
		a, ok := r.source.(*again[B])
		local := ok && a.local()
		if err := r.retry(ctx, "asking for the height", func() (err error) {
			height, err = r.source.Tip(ctx)
			return err
		}); err != nil {
			return err
		}
		if !local { // where the chain really ends is not known yet
			height = r.status.tip(min(height, math.MaxInt64))
		}
		r.reached.set(height)
		var news chan<- uint64
		if !known || height > told {
			news = r.tips
			heard = time.Now()
		}
		asked := time.Now()
		ticker.Reset(min(max(asked.Sub(heard)/quietPart, r.options.Poll), r.options.QuietPoll))
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case news <- height:
				told, known, news = height, true, nil
			case <-ticker.C:
				waiting = r.Status().Lag() > NearTip && time.Since(asked) < pollFar
			case <-r.wake:
				waiting = false
			}
		}
	}
}

// peek asks for the node's height while blocks come from the store, so that records
// which are not made again can tell how far behind they are meanwhile. Nothing waits
// for the node.
func (r *running[B]) peek(ctx context.Context) error {
	a, ok := r.source.(*again[B])
	if !ok {
		return nil
	}
	ticker := time.NewTicker(pollFar)
	defer ticker.Stop()
	for a.local() {
		if height, err := a.Keeper.Tip(ctx); err == nil {
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

// plan cuts what is accepted into jobs.
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

// fetch works off jobs. Fetchers are numbered.
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
				// The committer ends the pipeline when it comes to it.
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

// errFallen says that a block is not there, as the node's height was told too high.
var errFallen = errors.New("the node's height has fallen")

// get fetches 1 to n blocks, or returns an ErrUnreadable, errFallen, or the context's
// error.
func (r *running[B]) get(ctx context.Context, fetcher int, from uint64, n int) (blocks []Block[B], err error) {
	var unreadable error // or fallen
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

// retry calls f until it succeeds or ctx ends. Status says meanwhile what fails and why.
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
