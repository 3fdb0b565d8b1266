package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"quorate/internal/retry"
	"quorate/internal/store"
)

// Part is a part of an index that is rebuilt beside the one that serves: the chains of a network, or an EVM chain.
type Part interface {
	// Run indexes into the part's store until ctx ends, and then returns nil.
	Run(ctx context.Context) error
	// Cursors returns the cursors that must be as far as those of the active slot before the switch.
	Cursors() []string
	// Stopped returns why the part does not go on by itself, nil if it does.
	Stopped() error
	// Lacks returns what the active rows have and the rebuilt ones lack although their cursors are as far, empty if
	// nothing.
	Lacks(ctx context.Context) (string, error)
}

// Rebuilder holds the parameters of Slots.Run. Open and Log are required.
type Rebuilder struct {
	// Open returns all parts of the index, for the given store. It waits until all are known, because the switch would
	// lose the others, and calls waiting with the reason. Without a part, Run ends the rebuild and keeps the active rows.
	Open func(ctx context.Context, beside store.Store, waiting func(reason string)) ([]Part, error)
	// Poll is the interval at which Run checks for a requested rebuild; default 1 s.
	Poll time.Duration
	// Grace is how long old rows stay after a switch, for readers that have not observed it; default 1 min.
	Grace time.Duration
	// Attempt is the interval at which Run checks whether the rebuilt index has caught up; default 200 ms.
	Attempt time.Duration
	// Pauses are the pauses after failures; default 1 s to 1 min.
	Pauses retry.Pauses
	Log    *slog.Logger
}

// noteAgain is the minimum time between two reasons to wait that differ in numbers.
const noteAgain = 10 * time.Second

// Trouble is why a rebuild does not advance.
type Trouble struct {
	Reason string `json:"reason"`
	// Since is when the rebuild first failed or began to wait.
	Since time.Time `json:"since"`
	// Waiting says that the rebuild continues once the reason is gone. Otherwise it failed and is tried again.
	Waiting bool `json:"waiting,omitempty"`
}

func (t *Trouble) String() string {
	if t.Waiting {
		return "waiting: " + t.Reason
	}
	return "failing, and tried again: " + t.Reason
}

// Run carries out requested rebuilds until ctx ends, and then returns nil. It resumes interrupted rebuilds and repeats
// those that fail; Status has the reason. At most one process may run it at a time; a process that has lost that right
// is fenced. Run returns store.ErrClosed once the store is closed.
func (s *Slots) Run(ctx context.Context, r Rebuilder) error {
	if r.Poll <= 0 {
		r.Poll = time.Second
	}
	if r.Grace <= 0 {
		r.Grace = time.Minute
	}
	if r.Attempt <= 0 {
		r.Attempt = 200 * time.Millisecond
	}
	if r.Pauses == (retry.Pauses{}) {
		r.Pauses = retry.Pauses{First: time.Second, Longest: time.Minute}
	}
	defer s.trouble.Store(nil) // another process may rebuild
	for ctx.Err() == nil {
		pause := time.Duration(0)
		err := r.Pauses.Do(ctx, func() error {
			err := s.step(ctx, &r, pause)
			if err != nil && (errors.Is(err, store.ErrClosed) || ctx.Err() != nil) {
				return retry.Final(err)
			}
			return err
		}, func(err error, next time.Duration) {
			pause = next
			s.failures.Add(1)
			s.note(ctx, r.Log, err.Error(), false)
		})
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return fmt.Errorf("rebuilding the index: %w", err)
		default:
			s.well(ctx, r.Log)
		}
	}
	return nil
}

// step carries out the current stage of a rebuild. The last attempt failed, if pause is not 0, and pause passed since
// then.
func (s *Slots) step(ctx context.Context, r *Rebuilder, pause time.Duration) error {
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	at, err := store.ReadCursor(ctx, s.raw, s.rebuildCursor())
	if err != nil {
		return err
	}
	switch stage := Stage(at.Next); stage {
	case NoRebuild:
		return wait(ctx, r.Poll)
	case RebuildAsked:
		if err := s.clear(ctx, at); err != nil {
			return err
		}
		return s.move(ctx, &store.Batch{}, at, RebuildBeside)
	case RebuildBeside:
		moved, err := s.build(ctx, r, at, pause)
		if err != nil || moved {
			return err
		}
		return wait(ctx, r.Poll)
	case RebuildDone, RebuildCancelled:
		if stage == RebuildDone {
			if err := wait(ctx, r.Grace); err != nil {
				return err
			}
		}
		if err := s.clear(ctx, at); err != nil {
			return err
		}
		r.Log.Info("a rebuild has ended and the rows that do not serve are deleted", slog.String("index", s.name), slog.String("stage", stage.String()))
		return s.move(ctx, &store.Batch{}, at, NoRebuild)
	}
	return fmt.Errorf("%w: a rebuild is at stage %d", ErrNewer, at.Next)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// build fills the other slot until the slots are switched, the rebuild is cancelled, or ctx ends. It reports whether the
// rebuild is at another stage now.
func (s *Slots) build(ctx context.Context, r *Rebuilder, at store.Cursor, pause time.Duration) (moved bool, err error) {
	beside := s.beside(s.switches.Load() + 1)
	if err := Upgrade(ctx, beside, r.Log, s.forms...); err != nil {
		return false, err
	}
	r.Log.Info("rebuilding the index beside the one that serves", slog.String("index", s.name))
	before, err := s.ActiveHeights(ctx)
	if err != nil {
		return false, err
	}
	parts, moved, err := s.open(ctx, r, at, beside)
	switch {
	case err != nil || moved:
		return moved, err
	case len(parts) == 0:
		return true, s.endEmpty(ctx, r, at)
	}
	b := &besides{parts: parts, before: before}
	for _, part := range parts {
		b.names = append(b.names, part.Cursors()...)
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := false
	for _, part := range parts {
		group.Go(func() error { return part.Run(ctx) })
	}
	group.Go(func() error {
		defer end()
		// What failed before may fail again until it has worked for as long as the last pause.
		well := time.Now().Add(max(2*pause, r.Attempt))
		ticker := time.NewTicker(r.Attempt)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			var lacks string
			var err error
			if ended, lacks, err = s.finish(ctx, r, at, b); ended || err != nil && ctx.Err() == nil {
				return err
			}
			switch {
			case lacks != "":
				s.note(ctx, r.Log, lacks, true)
			case time.Now().After(well):
				s.well(ctx, r.Log)
			}
		}
	})
	err = group.Wait()
	if ended {
		return true, nil // the writers of the parts are fenced
	}
	return false, err
}

// endEmpty ends a rebuild without parts. A switch would delete the active rows and replace them by nothing.
func (s *Slots) endEmpty(ctx context.Context, r *Rebuilder, at store.Cursor) error {
	if err := s.clear(ctx, at); err != nil {
		return err
	}
	indexed, _, err := s.Heights(ctx)
	if err != nil {
		return err
	}
	var batch store.Batch
	if indexed == 0 { // there are no rows of an older version, see AskIfOlder
		now := slot{s.forms, s.switches.Load()}
		for i := range s.forms {
			batch.Delete(store.FamilyMeta, store.PK{P: []byte(now.Stored(store.FamilyMeta, string(s.forms[i].sinceKey().P)))})
		}
	}
	r.Log.Info("there is nothing to rebuild: no configured chain has this index", slog.String("index", s.name))
	return s.move(ctx, &batch, at, NoRebuild)
}

// besides is what a rebuild fills the other slot with.
type besides struct {
	parts []Part
	names []string // cursors of the parts
	// before are the heights of the active cursors before the parts were opened. A cursor that no part rebuilds must stay
	// there, like that of a chain that is not configured any more: its rows are deleted after the switch.
	before map[string]uint64
}

// open opens the parts. It returns none and reports moved once the rebuild is at another stage.
func (s *Slots) open(ctx context.Context, r *Rebuilder, at store.Cursor, beside store.Store) (parts []Part, moved bool, err error) {
	opening, end := context.WithCancel(ctx)
	defer end()
	noticed := make(chan bool, 1)
	go func() {
		defer end()
		for {
			if err := wait(opening, r.Poll); err != nil {
				noticed <- false
				return
			}
			if now, err := store.ReadCursor(opening, s.raw, s.rebuildCursor()); err == nil && now != at {
				noticed <- true
				return
			}
		}
	}()
	parts, err = r.Open(opening, beside, func(reason string) { s.note(opening, r.Log, reason, true) })
	end()
	if <-noticed {
		return nil, true, nil
	}
	return parts, false, err
}

// finish switches the slots if the rebuilt rows can replace the active ones. It reports whether the rebuild is at
// another stage now, and what the rebuilt rows lack.
func (s *Slots) finish(ctx context.Context, r *Rebuilder, at store.Cursor, b *besides) (ended bool, lacks string, err error) {
	stage, err := store.ReadCursor(ctx, s.raw, s.rebuildCursor())
	if err != nil || stage != at {
		return err == nil, "", err
	}
	for _, part := range b.parts {
		if err := part.Stopped(); err != nil {
			return false, "", err // the slots would never be switched
		}
	}
	if caught, err := s.caught(ctx, b.names); err != nil || !caught {
		return false, "", err
	}
	for _, part := range b.parts {
		if lacks, err := part.Lacks(ctx); err != nil || lacks != "" {
			return false, lacks, err
		}
	}
	ended, err = s.attempt(ctx, r, at, b)
	return ended, "", err
}

// caught reports whether the named cursors are as far in the rebuilt slot as in the active one.
func (s *Slots) caught(ctx context.Context, names []string) (bool, error) {
	next := slot{s.forms, s.switches.Load() + 1}
	for _, name := range names {
		active, err := store.ReadCursor(ctx, s.Store(), name)
		if err != nil {
			return false, err
		}
		rebuilt, err := store.ReadCursor(ctx, s.raw, next.Stored(store.FamilyCursor, name))
		if err != nil || rebuilt.Next < active.Next {
			return false, err
		}
	}
	return true, nil
}

// note stores why a rebuild does not advance, where all processes on the store find it.
func (s *Slots) note(ctx context.Context, log *slog.Logger, reason string, waiting bool) {
	before := s.trouble.Load()
	now := &Trouble{Reason: reason, Since: time.Now().UTC().Truncate(time.Second), Waiting: waiting}
	if before != nil {
		now.Since = before.Since
		if *now == *before || waiting && before.Waiting && time.Since(s.noted) < noteAgain {
			return
		}
	}
	s.trouble.Store(now)
	s.noted = time.Now()
	if before == nil || !waiting {
		log.Warn("the rebuild of the index does not advance; the index that is there serves", slog.String("index", s.name), slog.Bool("waiting", waiting), slog.String("reason", reason))
	}
	if err := store.PutMeta(ctx, s.raw, now, s.troubleKey()); err != nil && ctx.Err() == nil {
		log.Warn("other processes do not learn why the rebuild does not advance", slog.Any("error", err))
	}
}

// well deletes what note stored, also by a process before this one.
func (s *Slots) well(ctx context.Context, log *slog.Logger) {
	values, err := s.raw.Get(ctx, store.FamilyMeta, []store.PK{s.troubleKey()})
	if err == nil && values[0] != nil {
		var batch store.Batch
		batch.Delete(store.FamilyMeta, s.troubleKey())
		if err = s.raw.Commit(ctx, &batch); err == nil {
			log.Info("the rebuild of the index advances again", slog.String("index", s.name))
		}
	}
	if err == nil {
		s.trouble.Store(nil)
	}
}

func (s *Slots) troubleKey() store.PK { return store.PK{P: []byte(s.own("trouble"))} }

// RebuildStatus is the state of the rebuild of an index.
type RebuildStatus struct {
	Stage Stage
	// Percent is the share of the active index that the rebuilt one has reached.
	Percent int
	Forms   []FormChange
	// Trouble is nil while the rebuild advances.
	Trouble *Trouble
	// Replaced are indexes that are rebuilt in place, because this program cannot read their old rows.
	Replaced []Replaced
}

// Status returns the state of the rebuild, nil if there is none.
func (s *Slots) Status(ctx context.Context) (*RebuildStatus, error) {
	stage, err := s.Stage(ctx)
	if err != nil {
		return nil, err
	}
	r := &RebuildStatus{Stage: stage}
	for i := range s.forms {
		replaced, err := s.forms[i].replaced(ctx, s.Store())
		if err != nil {
			return nil, err
		}
		if replaced != nil {
			r.Replaced = append(r.Replaced, *replaced)
		}
	}
	switch stage {
	case NoRebuild:
		if r.Replaced == nil {
			return nil, nil
		}
		return r, nil
	case RebuildBeside:
		active, beside, err := s.Heights(ctx)
		if err != nil {
			return nil, err
		}
		if active > 0 {
			r.Percent = int(100 * beside / active)
		}
	case RebuildDone:
		r.Percent = 100
	}
	trouble := new(Trouble)
	found, err := store.GetMeta(ctx, s.raw, trouble, s.troubleKey())
	if err != nil {
		return nil, fmt.Errorf("reading why the rebuild does not advance: %w", err)
	}
	if found {
		r.Trouble = trouble
	}
	r.Forms, err = s.Changes(ctx)
	return r, err
}

func (s *Slots) failingDesc() *prometheus.Desc {
	return prometheus.NewDesc("quorate_index_rebuild_failing",
		"1 if this process rebuilds the index and that fails or waits; the index status says why.", nil, prometheus.Labels{"index": s.name})
}

func (s *Slots) failuresDesc() *prometheus.Desc {
	return prometheus.NewDesc("quorate_index_rebuild_failures_total",
		"Failures of rebuilds of the index. The service retries each.", nil, prometheus.Labels{"index": s.name})
}

// Describe implements prometheus.Collector.
func (s *Slots) Describe(descs chan<- *prometheus.Desc) {
	descs <- s.failingDesc()
	descs <- s.failuresDesc()
}

// Collect implements prometheus.Collector.
func (s *Slots) Collect(metrics chan<- prometheus.Metric) {
	failing := 0.0
	if s.trouble.Load() != nil {
		failing = 1
	}
	metrics <- prometheus.MustNewConstMetric(s.failingDesc(), prometheus.GaugeValue, failing)
	metrics <- prometheus.MustNewConstMetric(s.failuresDesc(), prometheus.CounterValue, float64(s.failures.Load()))
}
