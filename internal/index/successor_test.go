package index_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// TestSuccessor continues an index with other pipelines, as after switches to rebuilt indexes. The status is what is true
// of the last one, and no failure hides behind what was true of one before.
func TestSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 1_000}, store.NewMemory()
		o := options(source, memory, &ledger{name: "l", rows: 1})
		first := start(t, o)
		time.Sleep(time.Minute)
		require.Equal(t, index.Following, first.Status().State)

		// The node is away when the second one begins.
		source.set(func() { source.trouble = func(uint64) error { return errAway } })
		first.end(t, store.ErrFenced)
		require.Equal(t, index.Following, first.Status().State)
		second := succeed(t, first.Pipeline, o)
		time.Sleep(time.Minute)
		status := first.Status()
		require.Equal(t, index.Stalled, status.State)
		require.ErrorIs(t, status.Err, errAway)
		require.True(t, status.CaughtUp)
		require.EqualValues(t, 1_000, status.Tip)
		source.set(func() { source.trouble = nil })
		time.Sleep(time.Minute)
		require.Equal(t, index.Following, first.Status().State)
		require.NoError(t, first.Status().Err)

		// The third one has rows of a part of the chain.
		second.end(t, store.ErrFenced)
		source.set(func() {
			source.delay = func(height uint64) time.Duration { return time.Duration(min(height, 1)) * time.Second }
			source.most = 100
		})
		third := succeed(t, first.Pipeline, options(source, store.NewMemory(), &ledger{name: "l", rows: 1}))
		time.Sleep(3 * time.Second)
		status = first.Status()
		require.Equal(t, index.CatchingUp, status.State)
		require.False(t, status.CaughtUp)
		require.False(t, first.StatusOf("l").CaughtUp)
		require.Less(t, status.Next, uint64(1_000))
		time.Sleep(time.Minute)
		require.True(t, first.Status().CaughtUp)

		// It stops, and a fourth one follows until a fifth one does.
		source.grow(1)
		source.set(func() { source.bad = source.tip })
		require.ErrorIs(t, <-third.ended, index.ErrUnreadable)
		require.Equal(t, index.Stopped, first.Status().State)
		source.set(func() { source.bad = 0 })
		fourth := succeed(t, first.Pipeline, o)
		time.Sleep(time.Minute)
		require.Equal(t, index.Following, first.Status().State)
		fourth.end(t, store.ErrFenced)
		require.Equal(t, index.Following, first.Status().State)
		fifth := succeed(t, first.Pipeline, o)
		for range 1_000 {
			require.Equal(t, index.Following, first.Status().State)
			time.Sleep(time.Millisecond)
		}
		fifth.end(t, store.ErrFenced)
	})
}

// TestStoppedIndexerOfWatcher has the indexer of a process that watches stop. The process still knows the height of the
// chain.
func TestStoppedIndexerOfWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 1_000}, store.NewMemory()
		o := options(source, memory, &ledger{name: "l", rows: 1})
		p := watch(t, o, source)
		recorder := succeed(t, p, o)
		time.Sleep(time.Minute)
		source.set(func() {
			source.tip += 5
			source.bad = source.tip - 4
		})
		require.ErrorIs(t, <-recorder.ended, index.ErrUnreadable)
		time.Sleep(time.Second)
		status := p.Status()
		require.Equal(t, index.Stopped, status.State)
		require.ErrorIs(t, status.Err, index.ErrUnreadable)
		require.True(t, status.CaughtUp)
		require.EqualValues(t, 5, status.Lag())
	})
}
