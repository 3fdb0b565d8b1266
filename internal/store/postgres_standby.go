package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// StandbyOptions names the standby servers of a store and limits their lag.
type StandbyOptions struct {
	// URLs are the URLs of the servers. Errors and logs omit their secrets.
	URLs []string
	// MaxLag is the maximum lag of a server that is read from; at least 2 s, default 5 s.
	MaxLag time.Duration
	// Every is the interval between checks of the servers; default 1 s.
	Every time.Duration
	// Log receives a line when a server comes into use or goes out of use. Nil discards them.
	Log *slog.Logger
}

const (
	defaultMaxLag = 5 * time.Second
	leastMaxLag   = 2 * time.Second
	standbyEvery  = time.Second
	// mostSamples limits the number of samples, mostCursors the cursors in each.
	mostSamples = 600
	mostCursors = 10_000
)

// Standbys reads from the standby servers of a store. It uses servers in turn while they respond and lag little;
// without any, it reads from the store. Reads with a context of OneServer use one server.
//
// A server's lag follows from its cursors: the server is at the latest sample in which no cursor of the store was ahead
// of the server's. This needs only rows and holds for any kind of replication. Rows without a cursor may lag as much:
// to read what was just written, read from the store. A row with a random text tells the store's rows from those of
// another store, whose server is not used.
type Standbys struct {
	store   *Postgres
	all     []*follower
	maxLag  time.Duration
	every   time.Duration
	log     *slog.Logger
	turn    atomic.Uint64
	stop    context.CancelFunc
	stopped chan struct{} // closed when the watch has ended

	samples []sample // oldest first; used by watch only
	id      string   // identifies the store's rows, as of the last answer; used by watch only
}

// follower is one standby server.
type follower struct {
	options PostgresOptions
	at      string

	mu    sync.Mutex
	store *Postgres // nil before the first response; guarded by mu
	// fresh is the time at which the store was where the server is now, zero if unknown. lag is the age of fresh when
	// it was determined. Both are guarded by mu.
	fresh time.Time
	lag   time.Duration
	err   error // of the last check; guarded by mu

	used bool // used by watch only
}

// sample holds the store's cursors at a time.
type sample struct {
	at      time.Time
	cursors map[string]Cursor
}

// StandbyStats is the state of a server.
type StandbyStats struct {
	// Name is host, port and database.
	Name string
	// Lag is the lag of the server if Known. Used reports whether it is read from.
	Lag         time.Duration
	Known, Used bool
	// Err is why the server did not respond, or nil.
	Err error
}

// OpenStandbys starts to watch servers. It retries those that do not respond. Keep the store open until Close. It
// returns ErrInvalid for invalid options.
func OpenStandbys(ctx context.Context, s *Postgres, o StandbyOptions) (*Standbys, error) {
	o.MaxLag, o.Every = cmp.Or(o.MaxLag, defaultMaxLag), cmp.Or(o.Every, standbyEvery)
	if o.MaxLag < leastMaxLag || o.Every <= 0 {
		return nil, fmt.Errorf("%w: maximum lag of standbys is %s, want at least %s", ErrInvalid, o.MaxLag, leastMaxLag)
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
			options: PostgresOptions{URL: url, Log: o.Log}, at: fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database),
		})
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	r.look(ctx)
	go r.watch(watching)
	return r, nil
}

// watch checks the servers until ctx ends.
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

// look determines the lag of every server.
func (r *Standbys) look(ctx context.Context) {
	// A server that does not respond must not delay the checks of the others.
	ctx, cancel := context.WithTimeout(ctx, r.maxLag/2)
	defer cancel()
	begun := time.Now()
	if id, err := r.identify(ctx); err == nil {
		r.id = id
	}
	if cursors, err := cursorsOf(ctx, r.store); err == nil {
		r.samples = append(r.samples, sample{begun, cursors})
		if len(r.samples) > mostSamples {
			r.samples = r.samples[1:]
		}
	}
	var wg sync.WaitGroup
	for _, f := range r.all {
		wg.Go(func() { f.look(ctx, r.id, r.samples) })
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

// behind reports whether cursors lag behind the sample.
func (s sample) behind(cursors map[string]Cursor) bool {
	for name, was := range s.cursors {
		now, ok := cursors[name]
		if !ok || now.Epoch < was.Epoch || now.Epoch == was.Epoch && now.Next < was.Next {
			return true
		}
	}
	return false
}

// identifyingRow has the text that identifies the rows of a store that standbys follow.
var identifyingRow = PK{P: []byte("identity")}

// identify returns the text that identifies the rows of the store, after it has written one if there was none.
func (r *Standbys) identify(ctx context.Context) (id string, err error) {
	found, err := GetMeta(ctx, r.store, &id, identifyingRow)
	if err != nil || found {
		return id, err
	}
	if err := PutMeta(ctx, r.store, rand.Text(), identifyingRow); err != nil {
		return "", err
	}
	_, err = GetMeta(ctx, r.store, &id, identifyingRow) // another process may have written one too
	return id, err
}

// requireID returns an error unless the rows of s have the identity id, which may be unknown yet.
func requireID(ctx context.Context, s *Postgres, id string) error {
	var own string
	if _, err := GetMeta(ctx, s, &own, identifyingRow); err != nil {
		return err
	}
	if id == "" || own != id {
		return fmt.Errorf("%w: it does not follow the store, or is not so far yet: name a standby of the same server and database", ErrInvalid)
	}
	return nil
}

// look reads the server's cursors. id identifies the store's rows.
func (f *follower) look(ctx context.Context, id string, samples []sample) {
	f.mu.Lock()
	s := f.store
	f.mu.Unlock()
	var cursors map[string]Cursor
	var err error
	if s == nil {
		s, err = connect(ctx, f.options)
	}
	if err == nil {
		err = requireID(ctx, s, id)
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

// usable returns the server's store if its lag is at most maxLag, else nil.
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

// choice is the server that the views of one context are read from.
type choice struct {
	mu     sync.Mutex
	made   bool      // guarded by mu
	server *follower // nil for the store; guarded by mu
}

type choiceKey struct{}

// OneServer returns a context for several reads that belong together: all views of Standbys are read from the server that
// the first one is read from, so that a later view has what an earlier one has. Once that server cannot be used, they are
// read from the store, which no server is ahead of.
func OneServer(ctx context.Context) context.Context {
	if ctx.Value(choiceKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, choiceKey{}, new(choice))
}

// leave ends the use of a server that failed.
func (c *choice) leave(f *follower) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == f {
		c.server = nil
	}
}

// choose returns the next server that can be used or, after the first call with a choice, the chosen one. It returns nil
// for the store.
func (r *Standbys) choose(one *choice) (*follower, *Postgres) {
	if one == nil {
		return r.next()
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	var s *Postgres
	if !one.made {
		one.made = true
		one.server, s = r.next()
	} else if one.server != nil {
		if s = one.server.usable(r.maxLag); s == nil {
			one.server = nil
		}
	}
	return one.server, s
}

// next returns the next server that can be used, in turn, or nil.
func (r *Standbys) next() (*follower, *Postgres) {
	first := r.turn.Add(1)
	for i := range r.all {
		f := r.all[(first+uint64(i))%uint64(len(r.all))]
		if s := f.usable(r.maxLag); s != nil {
			return f, s
		}
	}
	return nil, nil
}

// View returns a view of a server with little lag, or else of the store.
func (r *Standbys) View(ctx context.Context) (View, error) {
	v, _, err := r.viewScans(ctx, nil)
	return v, err
}

// viewScans implements ViewScans.
func (r *Standbys) viewScans(ctx context.Context, queries []Query) (View, [][]Row, error) {
	one, _ := ctx.Value(choiceKey{}).(*choice)
	for range r.all {
		f, s := r.choose(one)
		if f == nil {
			break
		}
		v, found, err := s.viewScans(ctx, queries)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return v, found, err
		}
		f.mu.Lock()
		f.fresh, f.err = time.Time{}, err // until the next check
		f.mu.Unlock()
		one.leave(f)
	}
	return r.store.viewScans(ctx, queries)
}

// Stats returns the state of the servers.
func (r *Standbys) Stats() []StandbyStats {
	all := make([]StandbyStats, len(r.all))
	for i, f := range r.all {
		all[i] = f.stats(r.maxLag)
	}
	return all
}

// Close ends the watch and closes the views of servers. The store stays open.
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
