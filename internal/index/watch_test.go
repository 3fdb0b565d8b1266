package index_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
	"quorate/internal/store/lease"
)

// watch has a pipeline tell what others record until the test is over.
func watch(t *testing.T, o index.Options[uint64], tips index.Source[uint64]) *index.Pipeline[uint64] {
	t.Helper()
	p, err := index.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(ctx, tips) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return p
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &keptNumbers{numbers: numbers{tip: 10_000, size: 100, most: 100}}, store.NewMemory()
		source.delay = func(height uint64) time.Duration {
			if height == 0 {
				return 0
			}
			return 200 * time.Millisecond
		}
		o := options(source, memory, &ledger{name: "l", rows: 1})
		o.Keep = true
		var committed []uint64
		seen := o
		seen.Committed = func(next uint64) { committed = append(committed, next) }
		p := watch(t, seen, source)
		synctest.Wait()
		require.Equal(t, index.CatchingUp, p.Status().State)
		require.Equal(t, uint64(10_001), p.Status().Lag())
		require.Zero(t, p.Status().Next)

		holder := start(t, o)
		holder.await(t, 5_000)
		time.Sleep(time.Second)
		at := p.Status()
		require.Equal(t, index.CatchingUp, at.State)
		require.Greater(t, at.Next, uint64(5_000))
		require.Positive(t, at.BlocksPerSecond)
		require.False(t, at.CaughtUp)
		holder.await(t, 10_001)
		time.Sleep(time.Second)
		want := holder.Status()
		got := p.Status()
		got.BlocksPerSecond, want.BlocksPerSecond, want.Kept = 0, 0, got.Kept
		require.Equal(t, want, got)
		require.Equal(t, index.Following, p.StatusOf("l").State)
		require.True(t, p.StatusOf("l").CaughtUp)
		for i := range committed {
			require.True(t, i == 0 || committed[i] > committed[i-1])
		}
		require.Equal(t, uint64(10_001), committed[len(committed)-1])

		// Without a holder the lag says so.
		holder.stop(t)
		source.grow(index.NearTip + 1)
		time.Sleep(time.Second)
		require.Equal(t, index.CatchingUp, p.Status().State)
		require.EqualValues(t, index.NearTip+1, p.Status().Lag())

		// An index that is rebuilt continues from its beginning.
		var batch store.Batch
		for _, projection := range []string{"l", index.Containers} {
			name := index.Cursor(5, "N", projection)
			was, err := store.ReadCursor(t.Context(), memory, name)
			require.NoError(t, err)
			batch.Move(name, was, store.Cursor{Epoch: was.Epoch})
			batch.Delete(store.FamilyIndexed, store.PK{P: []byte(name)})
		}
		require.NoError(t, memory.Commit(t.Context(), &batch))
		time.Sleep(time.Second)
		require.Zero(t, p.Status().Next)
		require.GreaterOrEqual(t, p.Status().BlocksPerSecond, 0.)
		require.Equal(t, index.CatchingUp, p.Status().State)
		require.False(t, p.Status().CaughtUp, "most rows are missing")

		source.set(func() { source.trouble = func(uint64) error { return errAway } })
		time.Sleep(10 * time.Second)
		require.Equal(t, index.Retrying, p.Status().State)
		require.ErrorIs(t, p.Status().Err, errAway)
	})
}

// TestRecorderEnds: a watcher reports what the indexer of the same process reported, never less:
// neither while the indexer begins nor after it has lost the store.
func TestRecorderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 1_000, size: 100}, store.NewMemory()
		away := &awayStore{Store: memory}
		o := options(source, away, &ledger{name: "l", rows: 1})
		p := watch(t, o, source)
		for range 3 {
			recorder, err := index.New(o)
			require.NoError(t, err)
			before := p.Status()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			p.IndexedBy(recorder)
			require.Equal(t, before.Next, p.Status().Next, "it has not begun")
			go func() { ended <- recorder.Run(ctx) }()
			source.grow(100)
			for p.Status().Next < source.tip+1 {
				require.GreaterOrEqual(t, p.Status().Next, before.Next)
				time.Sleep(time.Millisecond)
			}
			// The one that watches does not hear of the last blocks from the store.
			away.set(true)
			last := recorder.Status().Next
			cancel()
			require.NoError(t, <-ended)
			p.IndexedBy(nil)
			require.Equal(t, last, p.Status().Next)
			require.Equal(t, last, p.StatusOf("l").Next)
			time.Sleep(time.Second)
			require.Equal(t, last, p.Status().Next)
			away.set(false)
			time.Sleep(10 * time.Second)
			require.Equal(t, last, p.Status().Next)
			require.Equal(t, index.Following, p.Status().State)
		}
	})
}

// awayStore is a store that cannot be read at times.
type awayStore struct {
	store.Store
	away atomic.Bool
}

func (s *awayStore) set(away bool) { s.away.Store(away) }

func (s *awayStore) Get(ctx context.Context, f store.Family, keys []store.PK) ([][]byte, error) {
	if s.away.Load() {
		return nil, store.ErrUnavailable
	}
	return s.Store.Get(ctx, f, keys)
}

// TestHolderDies repeatedly kills the indexing one of three processes: no block is lost or doubled,
// and the next process continues soon.
func TestHolderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * time.Second
		source, memory := &numbers{tip: 1_000, size: 100}, store.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		type process struct {
			die   context.CancelFunc
			works bool
		}
		var mu sync.Mutex
		all := make(map[*process]bool)
		begin := func() {
			life, die := context.WithCancel(ctx)
			p := &process{die: die}
			mu.Lock()
			all[p] = true
			mu.Unlock()
			// A process that dies does not give its lease back.
			leases := lease.New(lease.Options{Store: &mortal{Store: memory, life: life}, Beat: time.Second, Timeout: timeout})
			running.Go(func() {
				_ = leases.Hold(life, "index", func(ctx context.Context) error {
					o := options(source, &mortal{Store: memory, life: life}, &ledger{name: "l", rows: 2})
					pipeline, err := index.New(o)
					require.NoError(t, err)
					mu.Lock()
					p.works = true
					mu.Unlock()
					return pipeline.Run(ctx)
				})
			})
		}
		for range 3 {
			begin()
		}
		p := watch(t, options(source, memory, &ledger{name: "l", rows: 2}), source)
		for i := range uint64(20) {
			source.grow(1_000)
			begun := time.Now()
			for p.Status().Next < 1_001+1_000*(i+1) {
				time.Sleep(10 * time.Millisecond)
				require.Less(t, time.Since(begun), timeout+3*time.Second, "no other process continued")
			}
			mu.Lock()
			for one := range all {
				if one.works {
					one.die()
					delete(all, one)
				}
			}
			mu.Unlock()
			begin()
		}
		cancel()
		running.Wait()
		requireRows(t, memory, &ledger{name: "l", rows: 2}, 0, 21_001)
	})
}

// mortal is the store as a process sees it, as long as that lives.
type mortal struct {
	store.Store
	life context.Context //nolint:containedctx // it is the process's
}

func (m *mortal) Commit(ctx context.Context, b *store.Batch) error {
	if m.life.Err() != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return m.Store.Commit(ctx, b)
}
