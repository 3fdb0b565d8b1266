package index_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// indexer is a pipeline that runs until the test ends or fences it.
type indexer struct {
	*index.Pipeline[uint64]
	end   context.CancelCauseFunc
	ended chan error
}

// run starts a pipeline, which continues the index of p unless that is nil.
func run(t *testing.T, p *index.Pipeline[uint64], o index.Options[uint64]) *indexer {
	t.Helper()
	next, err := index.New(o)
	require.NoError(t, err)
	if p != nil {
		p.IndexedBy(next)
	}
	ctx, end := context.WithCancelCause(t.Context())
	i := &indexer{next, end, make(chan error, 1)}
	go func() { i.ended <- next.Run(ctx) }()
	return i
}

// fence ends a pipeline like a switch of slots.
func (i *indexer) fence(t *testing.T) {
	t.Helper()
	i.end(store.ErrFenced)
	require.NoError(t, <-i.ended)
}

// TestSuccessor continues an index with other pipelines, as after switches to rebuilt indexes. The status is what is true
// of the last one, and no failure hides behind what was true of one before.
func TestSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 1_000}, store.NewMemory()
		o := options(source, memory, &ledger{name: "l", rows: 1})
		first := run(t, nil, o)
		time.Sleep(time.Minute)
		require.Equal(t, index.Following, first.Status().State)

		// The node is away when the second one begins.
		source.set(func() { source.trouble = func(uint64) error { return errAway } })
		first.fence(t)
		require.Equal(t, index.Following, first.Status().State)
		second := run(t, first.Pipeline, o)
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
		second.fence(t)
		source.set(func() {
			source.delay = func(height uint64) time.Duration { return time.Duration(min(height, 1)) * time.Second }
			source.most = 100
		})
		third := run(t, first.Pipeline, options(source, store.NewMemory(), &ledger{name: "l", rows: 1}))
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
		fourth := run(t, first.Pipeline, o)
		time.Sleep(time.Minute)
		require.Equal(t, index.Following, first.Status().State)
		fourth.fence(t)
		require.Equal(t, index.Following, first.Status().State)
		fifth := run(t, first.Pipeline, o)
		for range 1_000 {
			require.Equal(t, index.Following, first.Status().State)
			time.Sleep(time.Millisecond)
		}
		fifth.fence(t)
	})
}

// TestStoppedIndexerOfWatcher has the indexer of a process that watches stop. The process still knows the height of the
// chain.
func TestStoppedIndexerOfWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 1_000}, store.NewMemory()
		o := options(source, memory, &ledger{name: "l", rows: 1})
		p := watch(t, o, source)
		recorder := run(t, p, o)
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
