package index_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// waiting is a ledger that needs something at a height which is not there yet.
type waiting struct {
	*ledger
	at      uint64
	missing atomic.Bool
	asked   atomic.Int64
}

var errMissing = errors.New("the node says nothing")

func (w *waiting) Apply(ctx context.Context, r store.Reader, height uint64, batch *store.Batch) error {
	if height == w.at && w.missing.Load() {
		w.asked.Add(1)
		return fmt.Errorf("around: %w", &index.RetryError{What: "asking for a reward", Err: errMissing})
	}
	return w.ledger.Apply(ctx, r, height, batch)
}

// TestWaitInsideOfABlock has a projection wait for a node within a block: the status has the reason,
// earlier blocks are committed, and indexing continues once the node answers.
func TestWaitInsideOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 500, size: 100}, store.NewMemory()
		before, w := &ledger{name: "before", rows: 1}, &waiting{ledger: &ledger{name: "waiting", rows: 2}, at: 321}
		w.missing.Store(true)
		p, logged := startFailing(t, options(source, memory, before, w), errMissing)
		status := p.Status()
		require.Equal(t, "asking for a reward", status.Failing)
		require.Equal(t, uint64(321), status.Next, "blocks before are committed")
		requireRows(t, memory, w.ledger, 0, 321)
		require.Equal(t, 1, strings.Count(logged.String(), "asking for a reward fails"), logged.String())
		if n := w.asked.Load(); n < 700 || n > 1500 {
			t.Errorf("got %d attempts in an hour, want one every 2.5 to 5 seconds", n)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(index.NewCollector("N", p.Status))
		metric := "# HELP quorate_index_failing 1 for the work that fails and is tried again; nothing while all works.\n" +
			"# TYPE quorate_index_failing gauge\n" + `quorate_index_failing{chain="N",what="asking for a reward"} 1` + "\n"
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(metric), "quorate_index_failing"))

		w.missing.Store(false)
		p.await(t, 501)
		require.Equal(t, index.Following, p.Status().State)
		require.Empty(t, p.Status().Failing)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(""), "quorate_index_failing"))
		p.stop(t)
		requireRows(t, memory, before, 0, 501)
		requireRows(t, memory, w.ledger, 0, 501)
	})
}

// TestStopWhileWaiting stops a pipeline whose projection waits, and starts another one.
func TestStopWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 50, size: 100}, store.NewMemory()
		before, w := &ledger{name: "before", rows: 1}, &waiting{ledger: &ledger{name: "waiting", rows: 2}, at: 0}
		for _, at := range []uint64{0, 1, 30} {
			w.at = at
			w.missing.Store(true)
			p := start(t, options(source, memory, before, w))
			time.Sleep(time.Minute)
			require.ErrorIs(t, p.Status().Err, errMissing, "block %d", at)
			p.stop(t)
			requireRows(t, memory, w.ledger, 0, at)
		}
		w.missing.Store(false)
		p := start(t, options(source, memory, before, w))
		p.await(t, 51)
		p.stop(t)
		requireRows(t, memory, before, 0, 51)
		requireRows(t, memory, w.ledger, 0, 51)
	})
}

// reading is a ledger that reads the store in the middle of each block. It fails if it gets a block again.
type reading struct {
	*ledger
	next uint64
}

func (l *reading) Apply(ctx context.Context, r store.Reader, height uint64, batch *store.Batch) error {
	if height != l.next {
		return fmt.Errorf("got block %d, want %d", height, l.next)
	}
	l.next++
	if err := l.ledger.Apply(ctx, r, height, batch); err != nil {
		return err
	}
	values, err := r.Get(ctx, store.FamilyMessage, []store.PK{{}, {}})
	if err != nil {
		return fmt.Errorf("getting: %w", err)
	}
	rows, err := r.Scan(ctx, store.FamilyMessage, nil, nil, nil, store.Ascending, 9)
	if err != nil {
		return fmt.Errorf("scanning: %w", err)
	}
	last, err := r.Floor(ctx, store.FamilyMessage, nil, []store.Range{{}})
	if err != nil {
		return fmt.Errorf("looking for the last: %w", err)
	}
	all, err := r.Walk(ctx, store.FamilyMessage, nil, 9)
	if err != nil {
		return fmt.Errorf("walking: %w", err)
	}
	if len(values) != 2 || len(rows) != 1 || len(last) != 1 || len(all) != 1 {
		return fmt.Errorf("read %d values, %d rows, %d last rows and %d entries, want 2, 1, 1 and 1", len(values), len(rows), len(last), len(all))
	}
	return nil
}

// failing is a store whose reads of messages fail: the given number succeeds before.
type failing struct {
	store.Store
	err  error
	left atomic.Int64 // reads until they fail
	away atomic.Bool  // whether they fail then
}

func (s *failing) fails(f store.Family) error {
	if f == store.FamilyMessage && s.left.Add(-1) < 0 && s.away.Load() {
		return s.err
	}
	return nil
}

func (s *failing) Get(ctx context.Context, f store.Family, keys []store.PK) ([][]byte, error) {
	if err := s.fails(f); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, f, keys)
}

func (s *failing) Scan(ctx context.Context, f store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	if err := s.fails(f); err != nil {
		return nil, err
	}
	return s.Store.Scan(ctx, f, p, lo, hi, dir, limit)
}

func (s *failing) Floor(ctx context.Context, f store.Family, p []byte, ranges []store.Range) ([]store.Row, error) {
	if err := s.fails(f); err != nil {
		return nil, err
	}
	return s.Store.Floor(ctx, f, p, ranges)
}

func (s *failing) Walk(ctx context.Context, f store.Family, after *store.PK, limit int) ([]store.Entry, error) {
	if err := s.fails(f); err != nil {
		return nil, err
	}
	return s.Store.Walk(ctx, f, after, limit)
}

// newFailing returns a store with one message whose reads fail with err in the middle of block 321, which is read after
// the given number of reads of the block.
func newFailing(t testing.TB, err error, reads int64) *failing {
	t.Helper()
	s := &failing{Store: store.NewMemory(), err: err}
	var batch store.Batch
	batch.Put(store.FamilyMessage, store.PK{}, nil)
	require.NoError(t, s.Commit(t.Context(), &batch))
	s.left.Store(4*321 + reads)
	s.away.Store(true)
	return s
}

// TestReadInsideOfABlock has the store fail while a projection reads: the status has the reason, and the read succeeds once
// the store answers, without another Apply. Each kind of read is tried, with errors that the store knows and others.
func TestReadInsideOfABlock(t *testing.T) {
	for _, cause := range []error{store.ErrUnavailable, errors.New("SQLSTATE XX000")} {
		for read := range int64(4) {
			synctest.Test(t, func(t *testing.T) {
				source, s := &numbers{tip: 500, size: 100}, newFailing(t, cause, read)
				l := &reading{ledger: &ledger{name: "l", rows: 2}}
				p, logged := startFailing(t, options(source, s, l), cause)
				require.Equal(t, "reading the index", p.Status().Failing)
				require.Equal(t, 1, strings.Count(logged.String(), "reading the index fails"), logged.String())

				s.away.Store(false)
				p.await(t, 501)
				require.Equal(t, index.Following, p.Status().State)
				require.NoError(t, p.Status().Err)
				p.stop(t)
				requireRows(t, s, l.ledger, 0, 501)
			})
		}
	}
}

// TestStopWhileReading stops a pipeline whose projection waits for the store, and starts another one.
func TestStopWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, s := &numbers{tip: 500, size: 100}, newFailing(t, store.ErrUnavailable, 2)
		p := start(t, options(source, s, &reading{ledger: &ledger{name: "l", rows: 2}}))
		time.Sleep(time.Minute)
		require.ErrorIs(t, p.Status().Err, store.ErrUnavailable)
		p.stop(t)
		at, err := store.ReadCursor(t.Context(), s, index.Cursor(5, "N", "l"))
		require.NoError(t, err)
		require.LessOrEqual(t, at.Next, uint64(321))

		s.away.Store(false)
		l := &reading{ledger: &ledger{name: "l", rows: 2}, next: at.Next}
		p = start(t, options(source, s, l))
		p.await(t, 501)
		p.stop(t)
		requireRows(t, s, l.ledger, 0, 501)
	})
}

// TestReadThatCannotSucceed ends the pipeline with the block and the store's permanent error.
func TestReadThatCannotSucceed(t *testing.T) {
	for _, cause := range []error{store.ErrClosed, store.ErrInvalid, store.ErrCorrupt} {
		for read := range int64(4) {
			synctest.Test(t, func(t *testing.T) {
				s := newFailing(t, fmt.Errorf("around: %w", cause), read)
				p := start(t, options(&numbers{tip: 500, size: 100}, s, &reading{ledger: &ledger{name: "l", rows: 2}}))
				err := <-p.ended
				require.ErrorIs(t, err, cause)
				var at *index.BlockError
				require.ErrorAs(t, err, &at)
				require.Equal(t, uint64(321), at.Height)
				require.Equal(t, index.Stopped, p.Status().State)
				require.Equal(t, err, p.Status().Err)
			})
		}
	}
}
