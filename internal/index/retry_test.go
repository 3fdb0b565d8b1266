package index_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		var logged bytes.Buffer
		o := options(source, memory, before, w)
		o.Log = slog.New(slog.NewTextHandler(&logged, nil))
		p := start(t, o)
		time.Sleep(time.Hour)
		synctest.Wait()

		status := p.Status()
		require.Equal(t, index.Retrying, status.State)
		require.ErrorIs(t, status.Err, errMissing)
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
