// Package lease lets exactly one of the processes that share a store do a piece of work. If that process dies or is cut
// off, another one takes over within seconds.
//
// A lease is a cursor of the store that its holder moves with every beat, beside a row that names the holder. Other
// processes consider the holder gone when the cursor has not moved for the timeout, measured by their own clocks:
// clocks of different machines need not agree. A process that was cut off may continue for a moment before it notices.
// Its writes must therefore be fenced by cursors of their own, as in package index. A lease avoids duplicate work; it
// does not make duplicate work harmless.
package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/internal/store"
)

// Options configures Leases. Store is required.
type Options struct {
	Store store.Store
	// Holder is the name of this process that others see, for example the machine's name; at most 256 bytes. It need
	// not be unique.
	Holder string
	// Beat is the interval at which a holder moves the cursor and others read it; default 500 ms.
	Beat time.Duration
	// Timeout is the timeout after which others take a lease that was not moved. Values below 3 beats mean 6 beats. A
	// holder whose store does not respond ends its work one beat earlier.
	Timeout time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// Leases manages the leases of one process. It is safe for concurrent use.
type Leases struct {
	store    store.Store
	holder   string
	instance [8]byte // distinguishes processes with the same holder name
	beat     time.Duration
	timeout  time.Duration
	log      *slog.Logger

	mu   sync.Mutex
	held map[string]bool // requested leases by name; guarded by mu
}

// maxHolder is the maximum length of a holder's name in bytes.
const maxHolder = 256

// New returns Leases. It requests no lease.
func New(o Options) *Leases {
	l := &Leases{store: o.Store, holder: o.Holder, beat: o.Beat, timeout: o.Timeout, log: o.Log, held: make(map[string]bool)}
	if len(l.holder) > maxHolder {
		l.holder = l.holder[:maxHolder]
	}
	if l.beat <= 0 {
		l.beat = 500 * time.Millisecond
	}
	if l.timeout < 3*l.beat {
		l.timeout = 6 * l.beat
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	_, _ = rand.Read(l.instance[:]) // never fails, as documented
	return l
}

// errLost is the cause of the end of the work's context when another process has, or may have, the lease.
var errLost = errors.New("the lease was lost")

// Hold runs work whenever this process has the lease called name. When the lease is lost, the context of work ends;
// work must return, and Hold starts it again once the lease is back. Hold returns nil when ctx ends, or the error of
// work if work returns while it has the lease. If work returns store.ErrFenced or store.ErrUnavailable, it has lost the
// lease, and Hold starts it again. Hold retries while the store is unavailable. When Hold returns nil, the metric of
// the lease ends. After an error it stays 0, because the work is not done.
func (l *Leases) Hold(ctx context.Context, name string, work func(ctx context.Context) error) (err error) {
	l.note(name, false)
	defer func() {
		if err == nil {
			l.forget(name)
		}
	}()
	for {
		t, alive, err := l.acquire(ctx, name)
		if err != nil {
			return nil // ctx has ended
		}
		l.note(name, true)
		l.log.Info("lease taken", slog.String("lease", name), slog.Uint64("term", t.at.Epoch))
		err, lost := l.during(ctx, name, t, alive, work)
		l.note(name, false)
		switch {
		case !lost:
			return err
		case ctx.Err() != nil:
			return nil // as requested
		}
		l.log.Warn("lease lost; requesting it again", slog.String("lease", name), slog.Any("error", err))
		select { // pause, so that work that fails at once does not spin
		case <-ctx.Done():
			return nil
		case <-time.After(l.beat):
		}
	}
}

// Holder returns the holder of a lease, or an empty string if there is none.
func (l *Leases) Holder(ctx context.Context, name string) (string, error) {
	at, err := l.read(ctx, name)
	return at.holder, err
}

func (l *Leases) note(name string, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = held
}

func (l *Leases) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

// term is the stored state of a lease.
type term struct {
	at       store.Cursor // Next counts beats, Epoch counts holders
	instance [8]byte      // zero if the lease is free
	holder   string
}

func cursorOf(name string) string { return "lease/" + name }

func rowOf(name string) store.PK { return store.PK{P: []byte(cursorOf(name))} }

const rowVersion = 1

// read returns a consistent state of a lease. It opens no view, because requests may have all views that the store allows.
// Beats move the cursor alone, so the cursor belongs to the row if the row is the same before and after it.
func (l *Leases) read(ctx context.Context, name string) (t term, err error) {
	row := func() ([]byte, error) {
		values, err := l.store.Get(ctx, store.FamilyMeta, []store.PK{rowOf(name)})
		if err != nil {
			return nil, fmt.Errorf("reading lease %s: %w", name, err)
		}
		return values[0], nil
	}
	v, err := row()
	if err != nil {
		return t, err
	}
	for same := false; !same; {
		if t.at, err = store.ReadCursor(ctx, l.store, cursorOf(name)); err != nil {
			return t, err
		}
		after, err := row()
		if err != nil {
			return t, err
		}
		v, same = after, bytes.Equal(after, v)
	}
	switch {
	case v == nil:
	case len(v) < 1+len(t.instance) || v[0] != rowVersion:
		return t, fmt.Errorf("%w: lease %s is %s", store.ErrCorrupt, name, hex.EncodeToString(v))
	default:
		t.instance, t.holder = [8]byte(v[1:]), string(v[1+len(t.instance):])
	}
	return t, nil
}

// write moves a lease from one state to another. It returns store.ErrFenced if the lease is in another state.
func (l *Leases) write(ctx context.Context, name string, from store.Cursor, to term) error {
	// If the engine crashes, it may lose beats, which does no harm.
	batch := store.Batch{NoSync: from.Epoch == to.at.Epoch}
	batch.Move(cursorOf(name), from, to.at)
	if from.Epoch != to.at.Epoch || to.instance == [8]byte{} {
		row := append([]byte{rowVersion}, to.instance[:]...)
		batch.Put(store.FamilyMeta, rowOf(name), append(row, to.holder...))
	}
	return l.store.Commit(ctx, &batch)
}

// acquire waits until the lease is free and takes it. alive is the time at which it was known to belong to this
// process. It returns ctx's error.
func (l *Leases) acquire(ctx context.Context, name string) (mine term, alive time.Time, err error) {
	ticker := time.NewTicker(l.beat)
	defer ticker.Stop()
	var seen term
	var since time.Time // when seen was first read
	for failing := false; ; {
		var over <-chan time.Time // fires when the other holder times out
		asking, cancel := context.WithTimeout(ctx, l.timeout)
		now, err := l.read(asking, name)
		switch {
		case err != nil:
			// Time during which the store cannot be read does not count.
			since = time.Time{}
		case mine.instance == l.instance && now == mine && time.Since(alive) < 3*l.beat/2:
			cancel()
			return mine, alive, nil // the write succeeded but its reply was lost
		default:
			if since.IsZero() || now != seen {
				seen, since = now, time.Now()
			}
			if left := l.timeout - time.Since(since); now.instance != [8]byte{} && now.instance != l.instance && left > 0 {
				over = time.After(left)
				break
			}
			// The lease is still ours, but another process may take it unless it is moved.
			next := term{at: store.Cursor{Next: now.at.Next + 1, Epoch: now.at.Epoch}, instance: l.instance, holder: l.holder}
			if now.instance != l.instance {
				next.at.Epoch++
			}
			if next != mine { // otherwise an earlier attempt may still succeed
				mine, alive = next, time.Now()
			}
			if err = l.write(asking, name, now.at, mine); err == nil {
				cancel()
				return mine, alive, nil
			}
			if errors.Is(err, store.ErrFenced) {
				err = nil // another process was faster
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

// during runs work until it returns or the lease is lost.
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
	// Give the lease back, so that others need not wait for the timeout.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	if back := l.write(last, name, t.at, term{at: store.Cursor{Next: t.at.Next + 1, Epoch: t.at.Epoch}}); back != nil {
		l.log.Warn("a lease could not be given back; others will take it in a while", slog.String("lease", name), slog.Any("error", back))
	}
	return err, false
}

// keep beats until ctx ends, and returns the last known state. It ends the work if the lease was or may have been lost.
// alive is the last time at which the lease was known to belong to this process.
func (l *Leases) keep(ctx context.Context, name string, t term, alive time.Time, end context.CancelCauseFunc) term {
	ticker := time.NewTicker(l.beat)
	defer ticker.Stop()
	ours := l.timeout - l.beat // one beat before others take the lease
	var failure atomic.Pointer[error]
	// Not in the loop below: ending a transaction may take longer than the lease.
	limit := time.AfterFunc(time.Until(alive.Add(ours)), func() {
		cause := fmt.Errorf("%w: the store has not answered for %s", errLost, ours)
		if err := failure.Load(); err != nil {
			cause = fmt.Errorf("%w: %w", cause, *err)
		}
		end(cause)
	})
	defer limit.Stop()
	next, tried := t, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return t
		case <-ticker.C:
		}
		if next == t {
			next.at.Next++
			tried = time.Now()
		}
		left, cancel := context.WithDeadline(ctx, alive.Add(ours))
		err := l.write(left, name, t.at, next)
		if err != nil {
			failure.Store(&err)
			// A call of ours that seemed to fail may have moved it.
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
		if err == nil && limit.Stop() {
			t, alive = next, tried
			failure.Store(nil)
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
