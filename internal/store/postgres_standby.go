package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// StandbyOptions say which servers follow a store's, and how far behind they may be.
type StandbyOptions struct {
	// URLs are those of the servers. Their secrets are in no error or log.
	URLs []string
	// MaxLag is how far behind a server may be to be read from. 2 s at least, default 5 s.
	MaxLag time.Duration
	// Connections bounds those that are open to each server; default as for a store.
	Connections int
	// Every is the time between two looks at how far the servers are; default 1 s.
	Every time.Duration
	// Log gets when a server comes to be used, and when no longer. Nil discards it.
	Log *slog.Logger
}

const (
	defaultMaxLag = 5 * time.Second
	leastMaxLag   = 2 * time.Second
	standbyEvery  = time.Second
	// mostSamples bounds the memory of where the store has been, mostCursors that of one.
	mostSamples = 600
	mostCursors = 10_000
)

// Standbys reads from servers that follow the one of a store. Each is used in its turn
// while it answers and is not too far behind; without any, the store itself is.
//
// How far one is behind shows in its cursors: it is at the youngest moment at which none
// of the store's was ahead of them. That takes nothing of the server but rows, and holds
// however they get there. What has no cursor may be as old as that, too: who must read
// what was just written asks the store.
type Standbys struct {
	store   *Postgres
	all     []*follower
	maxLag  time.Duration
	every   time.Duration
	log     *slog.Logger
	turn    atomic.Uint64
	stop    context.CancelFunc
	stopped chan struct{} // closed once the watch has ended

	samples []sample // oldest first; the watch's alone
}

// follower is one server.
type follower struct {
	options PostgresOptions
	at      string

	mu    sync.Mutex
	store *Postgres // guarded by mu, nil until it has answered once
	// fresh is when the store was where the server is now, zero if it is not known; lag
	// is how long that was ago when it was found out. Both guarded by mu.
	fresh time.Time
	lag   time.Duration
	err   error // of the last look; guarded by mu

	used bool // the watch's alone
}

// sample is where the store was at a moment.
type sample struct {
	at      time.Time
	cursors map[string]Cursor
}

// StandbyStats is how a server stands.
type StandbyStats struct {
	// Name is host, port and database.
	Name string
	// Lag is how far it is behind, if Known, and Used whether it is read from.
	Lag         time.Duration
	Known, Used bool
	// Err is why it did not answer, nil if it did.
	Err error
}

// OpenStandbys begins to watch servers. Those that do not answer are asked again until
// they do. The store must not be closed before. An error is ErrInvalid.
func OpenStandbys(ctx context.Context, s *Postgres, o StandbyOptions) (*Standbys, error) {
	o.MaxLag, o.Every = cmp.Or(o.MaxLag, defaultMaxLag), cmp.Or(o.Every, standbyEvery)
	if o.MaxLag < leastMaxLag || o.Every <= 0 {
		return nil, fmt.Errorf("%w: servers can be %s behind at most, which is to be %s or more", ErrInvalid, o.MaxLag, leastMaxLag)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Standbys{store: s, maxLag: o.MaxLag, every: o.Every, log: o.Log, stopped: make(chan struct{})}
	for _, url := range o.URLs {
		config, err := parsePostgres(url)
		if err != nil {
			return nil, err
		}
		c := config.ConnConfig
		r.all = append(r.all, &follower{
			options: PostgresOptions{URL: url, Connections: o.Connections, Log: o.Log}, at: fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database),
		})
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	r.look(ctx)
	go r.watch(watching)
	return r, nil
}

// watch looks at the servers until ctx ends.
func (r *Standbys) watch(ctx context.Context) {
	defer close(r.stopped)
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look(ctx)
		}
	}
}

// look finds out how far everybody is.
func (r *Standbys) look(ctx context.Context) {
	// One that is silent must not keep the others from being looked at in time.
	ctx, cancel := context.WithTimeout(ctx, r.maxLag/2)
	defer cancel()
	begun := time.Now()
	if cursors, err := cursorsOf(ctx, r.store); err == nil {
		r.samples = append(r.samples, sample{begun, cursors})
		if len(r.samples) > mostSamples {
			r.samples = r.samples[1:]
		}
	}
	var wg sync.WaitGroup
	for _, f := range r.all {
		wg.Go(func() { f.look(ctx, r.samples) })
	}
	wg.Wait()
	for _, f := range r.all {
		stats := f.stats(r.maxLag)
		if stats.Used == f.used {
			continue
		}
		f.used = stats.Used
		level := slog.LevelInfo
		if !f.used {
			level = slog.LevelWarn
		}
		r.log.Log(ctx, level, "reading from a standby begins or ends", slog.String("standby", f.at), slog.Bool("used", f.used),
			slog.Duration("lag", stats.Lag), slog.Any("error", stats.Err))
	}
}

func cursorsOf(ctx context.Context, r Reader) (map[string]Cursor, error) {
	rows, err := r.Walk(ctx, FamilyCursor, nil, mostCursors)
	if err != nil {
		return nil, err
	}
	cursors := make(map[string]Cursor, len(rows))
	for _, row := range rows {
		if cursors[string(row.P)], err = ParseCursor(string(row.P), row.V); err != nil {
			return nil, err
		}
	}
	return cursors, nil
}

// behind says whether cursors have not got to where the store was.
func (s sample) behind(cursors map[string]Cursor) bool {
	for name, was := range s.cursors {
		now, ok := cursors[name]
		if !ok || now.Epoch < was.Epoch || now.Epoch == was.Epoch && now.Next < was.Next {
			return true
		}
	}
	return false
}

// look asks the server where it is.
func (f *follower) look(ctx context.Context, samples []sample) {
	f.mu.Lock()
	s := f.store
	f.mu.Unlock()
	var cursors map[string]Cursor
	var err error
	if s == nil {
		s, err = connect(ctx, f.options)
	}
	if err == nil {
		cursors, err = cursorsOf(ctx, s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store, f.err, f.fresh = s, err, time.Time{}
	if err != nil {
		return
	}
	for i := len(samples) - 1; i >= 0; i-- {
		if !samples[i].behind(cursors) {
			f.fresh, f.lag = samples[i].at, samples[len(samples)-1].at.Sub(samples[i].at)
			return
		}
	}
}

// usable is the server's store while it is not too far behind.
func (f *follower) usable(maxLag time.Duration) *Postgres {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store == nil || f.fresh.IsZero() || time.Since(f.fresh) > maxLag {
		return nil
	}
	return f.store
}

func (f *follower) stats(maxLag time.Duration) StandbyStats {
	used := f.usable(maxLag) != nil
	f.mu.Lock()
	defer f.mu.Unlock()
	return StandbyStats{Name: f.at, Lag: f.lag, Known: !f.fresh.IsZero(), Used: used, Err: f.err}
}

// View is a view of a server that is near enough, or else of the store.
func (r *Standbys) View(ctx context.Context) (View, error) {
	v, _, err := r.viewScans(ctx, nil)
	return v, err
}

// viewScans is ViewScans.
func (r *Standbys) viewScans(ctx context.Context, queries []Query) (View, [][]Row, error) {
	first := r.turn.Add(1)
	for i := range r.all {
		f := r.all[(first+uint64(i))%uint64(len(r.all))]
		s := f.usable(r.maxLag)
		if s == nil {
			continue
		}
		v, found, err := s.viewScans(ctx, queries)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return v, found, err
		}
		f.mu.Lock()
		f.fresh, f.err = time.Time{}, err // until the next look
		f.mu.Unlock()
	}
	return r.store.viewScans(ctx, queries)
}

// Stats tells how the servers stand.
func (r *Standbys) Stats() []StandbyStats {
	all := make([]StandbyStats, len(r.all))
	for i, f := range r.all {
		all[i] = f.stats(r.maxLag)
	}
	return all
}

// Close ends the watch and the views of servers; the store stays open.
func (r *Standbys) Close() error {
	r.stop()
	<-r.stopped
	var err error
	for _, f := range r.all {
		f.mu.Lock()
		s := f.store
		f.mu.Unlock()
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}
