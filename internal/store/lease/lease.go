// Package lease lets exactly one of the processes that share a store do a piece of
// work, and another one take it over within seconds when that one dies or is cut off.
//
// A lease is a cursor of the store that its holder moves with every beat, beside a row
// that says who that is. Others believe that the holder is gone once they have seen the
// cursor rest for as long as their patience lasts, by their own clocks: no two machines
// have to agree on the time. A process that was cut off and has not noticed yet may go
// on for a moment; what it writes must therefore be fenced by cursors of its own, as
// that of package index is. A lease is there so that work is not done twice, not to make
// doing it twice harmless.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/internal/store"
)

// Options of Leases. Store is required.
type Options struct {
	Store store.Store
	// Holder is what others are told of who this is, such as a machine's name; at most
	// 256 bytes. It need not be unique.
	Holder string
	// Beat is how often a holder shows that it is alive, and how often others look;
	// default 500 ms.
	Beat time.Duration
	// Patience is how long a lease may rest before others take it; 6 beats if it is
	// less than 3. The work of a holder whose store does not answer for a beat less ends.
	Patience time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// Leases are those that one process wants to have. Safe for concurrent use.
type Leases struct {
	store    store.Store
	holder   string
	instance [8]byte // tells this process from others, were they called the same
	beat     time.Duration
	patience time.Duration
	log      *slog.Logger

	mu   sync.Mutex
	held map[string]bool // by name, those that were asked for; guarded by mu
}

// maxHolder bounds a holder's name, in bytes.
const maxHolder = 256

// New makes Leases. Nothing is asked for yet.
func New(o Options) *Leases {
	l := &Leases{store: o.Store, holder: o.Holder, beat: o.Beat, patience: o.Patience, log: o.Log, held: make(map[string]bool)}
	if len(l.holder) > maxHolder {
		l.holder = l.holder[:maxHolder]
	}
	if l.beat <= 0 {
		l.beat = 500 * time.Millisecond
	}
	if l.patience < 3*l.beat {
		l.patience = 6 * l.beat
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	_, _ = rand.Read(l.instance[:]) // never fails, as documented
	return l
}

// errLost ends the context of work whose lease another process has, or may have.
var errLost = errors.New("the lease was lost")

// Hold does work whenever this process has the lease of that name. The context that
// work gets ends when the lease is lost; work must end then, and is begun again when
// the lease is back. Hold returns once ctx ends, then with nil, or once work returns
// while it had the lease, then with its error. Work that returns store.ErrFenced or
// store.ErrUnavailable has lost the lease, too: it is begun again from what the store
// has. A store that does not answer is asked again.
func (l *Leases) Hold(ctx context.Context, name string, work func(ctx context.Context) error) error {
	l.note(name, false)
	for {
		t, alive, err := l.acquire(ctx, name)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		l.note(name, true)
		l.log.Info("lease taken", slog.String("lease", name), slog.Uint64("term", t.at.Epoch))
		err, lost := l.during(ctx, name, t, alive, work)
		l.note(name, false)
		switch {
		case !lost:
			return err
		case ctx.Err() != nil:
			return nil //nolint:nilerr // as it was asked to
		}
		l.log.Warn("lease lost; it is asked for again", slog.String("lease", name), slog.Any("error", err))
		select { // as work that fails at once would be begun again at once
		case <-ctx.Done():
			return nil
		case <-time.After(l.beat):
		}
	}
}

// Holder is who has a lease: empty if nobody has, or gave it back.
func (l *Leases) Holder(ctx context.Context, name string) (string, error) {
	at, err := l.read(ctx, name)
	return at.holder, err
}

func (l *Leases) note(name string, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = held
}

// term is a lease as the store has it.
type term struct {
	at       store.Cursor // Next counts beats, Epoch those who had it
	instance [8]byte      // zero once given back
	holder   string
}

func cursorOf(name string) string { return "lease/" + name }

func rowOf(name string) store.PK { return store.PK{P: []byte(cursorOf(name))} }

const rowVersion = 1

// read returns a lease in one consistent state.
func (l *Leases) read(ctx context.Context, name string) (t term, err error) {
	view, err := l.store.View(ctx)
	if err != nil {
		return t, fmt.Errorf("reading lease %s: %w", name, err)
	}
	defer func() { _ = view.Close() }()
	if t.at, err = store.ReadCursor(ctx, view, cursorOf(name)); err != nil {
		return t, err
	}
	values, err := view.Get(ctx, store.FamilyMeta, []store.PK{rowOf(name)})
	if err != nil {
		return t, fmt.Errorf("reading lease %s: %w", name, err)
	}
	switch v := values[0]; {
	case v == nil:
	case len(v) < 1+len(t.instance) || v[0] != rowVersion:
		return t, fmt.Errorf("%w: lease %s is %s", store.ErrCorrupt, name, hex.EncodeToString(v))
	default:
		t.instance, t.holder = [8]byte(v[1:]), string(v[1+len(t.instance):])
	}
	return t, nil
}

// write moves a lease from one state to another; store.ErrFenced if it is not there.
func (l *Leases) write(ctx context.Context, name string, from store.Cursor, to term) error {
	// What a crash of the engine undoes is only that somebody was alive a moment ago.
	batch := store.Batch{NoSync: from.Epoch == to.at.Epoch}
	batch.Move(cursorOf(name), from, to.at)
	if from.Epoch != to.at.Epoch || to.instance == [8]byte{} {
		row := append([]byte{rowVersion}, to.instance[:]...)
		batch.Put(store.FamilyMeta, rowOf(name), append(row, to.holder...))
	}
	return l.store.Commit(ctx, &batch)
}

// acquire waits until nobody has the lease, and takes it; alive is when it was known to
// be this process's. The error is ctx's.
func (l *Leases) acquire(ctx context.Context, name string) (mine term, alive time.Time, err error) {
	ticker := time.NewTicker(l.beat)
	defer ticker.Stop()
	var seen term
	var since time.Time // when seen was first seen
	for failing := false; ; {
		var over <-chan time.Time // patience with another one
		asking, cancel := context.WithTimeout(ctx, l.patience)
		now, err := l.read(asking, name)
		switch {
		case err != nil:
			// Nobody's silence counts while it cannot be heard.
			since = time.Time{}
		case mine.instance == l.instance && now == mine && time.Since(alive) < 3*l.beat/2:
			cancel()
			return mine, alive, nil // it was written, though the answer got lost
		default:
			if since.IsZero() || now != seen {
				seen, since = now, time.Now()
			}
			if left := l.patience - time.Since(since); now.instance != [8]byte{} && now.instance != l.instance && left > 0 {
				over = time.After(left)
				break
			}
			// What is still ours may be another's in a moment, unless it is moved.
			next := term{at: store.Cursor{Next: now.at.Next + 1, Epoch: now.at.Epoch}, instance: l.instance, holder: l.holder}
			if now.instance != l.instance {
				next.at.Epoch++
			}
			if next != mine { // else it may be an earlier attempt that succeeds
				mine, alive = next, time.Now()
			}
			if err = l.write(asking, name, now.at, mine); err == nil {
				cancel()
				return mine, alive, nil
			}
			if errors.Is(err, store.ErrFenced) {
				err = nil // another one was faster
			}
		}
		cancel()
		if ctx.Err() != nil {
			return term{}, alive, ctx.Err()
		}
		if err != nil && !failing {
			l.log.Warn("a lease cannot be read or taken; it is tried again until it works", slog.String("lease", name), slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return term{}, alive, ctx.Err()
		case <-over:
		case <-ticker.C:
		}
	}
}

// during does work until it ends, or the lease is lost.
func (l *Leases) during(ctx context.Context, name string, t term, alive time.Time, work func(context.Context) error) (err error, lost bool) {
	held, end := context.WithCancelCause(ctx)
	defer end(nil)
	beating := make(chan term, 1)
	go func() { beating <- l.keep(held, name, t, alive, end) }()
	err = work(held)
	cause := context.Cause(held)
	end(nil)
	t = <-beating
	if errors.Is(cause, errLost) || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnavailable) {
		return errors.Join(cause, err), true
	}
	// Others need not wait until they lose patience.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
	defer cancel()
	if back := l.write(last, name, t.at, term{at: store.Cursor{Next: t.at.Next + 1, Epoch: t.at.Epoch}}); back != nil {
		l.log.Warn("a lease could not be given back; others will take it in a while", slog.String("lease", name), slog.Any("error", back))
	}
	return err, false
}

// keep beats until ctx ends, and returns the last state that is known. It ends the
// work if the lease was lost, or may have been. Alive is when it was known last to be
// this process's.
func (l *Leases) keep(ctx context.Context, name string, t term, alive time.Time, end context.CancelCauseFunc) term {
	ticker := time.NewTicker(l.beat)
	defer ticker.Stop()
	ours := l.patience - l.beat // others have patience for a beat more
	limit := time.NewTimer(time.Until(alive.Add(ours)))
	defer limit.Stop()
	next, tried := t, time.Time{}
	var err error
	for {
		select {
		case <-ctx.Done():
			return t
		case <-limit.C:
			end(fmt.Errorf("%w: the store has not answered for %s: %w", errLost, time.Since(alive).Round(time.Millisecond), err))
			return t
		case <-ticker.C:
		}
		if next == t {
			next.at.Next++
			tried = time.Now()
		}
		left, cancel := context.WithDeadline(ctx, alive.Add(ours))
		if err = l.write(left, name, t.at, next); err != nil {
			// It may have been moved by us, in a call that seemed to fail.
			now, readErr := l.read(left, name)
			switch {
			case readErr != nil:
			case now.instance != l.instance:
				end(fmt.Errorf("%w: %q has it now", errLost, now.holder))
			case now == next:
				err = nil
			}
		}
		cancel()
		if err == nil {
			t, alive = next, tried
			limit.Reset(time.Until(alive.Add(ours)))
		}
	}
}

var heldDesc = prometheus.NewDesc("quorate_lease_held", "Whether this process has a lease that it asked for, by what the lease is for.", []string{"lease"}, nil)

// Describe implements prometheus.Collector.
func (l *Leases) Describe(c chan<- *prometheus.Desc) { c <- heldDesc }

// Collect implements prometheus.Collector.
func (l *Leases) Collect(c chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, held := range l.held {
		value := 0.
		if held {
			value = 1
		}
		c <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, value, name)
	}
}
