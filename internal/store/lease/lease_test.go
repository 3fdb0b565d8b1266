package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/store/lease"
)

// The defaults.
const (
	beat    = 500 * time.Millisecond
	timeout = 3 * time.Second
)

var errCut = errors.New("no connection")

// link is a process's way to the store, which may be cut: then calls fail, or hang, or
// are carried out and fail all the same, or commits linger, as a server's may that has stopped to answer to one.
type link struct {
	store.Store
	mode atomic.Int32
}

const (
	works = iota
	fails
	hangs
	deceives
	lingers
)

func (l *link) pass(ctx context.Context) error {
	switch l.mode.Load() {
	case fails:
		return errCut
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return ctx.Err()
}

func (l *link) Get(ctx context.Context, family store.Family, keys []store.PK) ([][]byte, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.Store.Get(ctx, family, keys)
}

// View waits until ctx ends, because requests have all views of the store.
func (l *link) View(ctx context.Context) (store.View, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (l *link) Commit(ctx context.Context, b *store.Batch) error {
	if l.mode.Load() == lingers {
		time.Sleep(lingering)
		return errCut
	}
	if err := l.pass(ctx); err != nil {
		return err
	}
	err := l.Store.Commit(ctx, b)
	if l.mode.Load() == deceives {
		return errCut
	}
	return err
}

const lingering = 5 * time.Second // longer than the timeout

// process is one that wants the lease.
type process struct {
	link
	leases *lease.Leases
	at     *atomic.Int32 // how many work at the moment
	most   *atomic.Int32
	begun  atomic.Int32
	works  atomic.Bool
}

func (p *process) run(ctx context.Context) error {
	return p.leases.Hold(ctx, "index", func(ctx context.Context) error {
		p.begun.Add(1)
		p.works.Store(true)
		p.most.Store(max(p.most.Load(), p.at.Add(1)))
		<-ctx.Done()
		p.at.Add(-1)
		p.works.Store(false)
		return nil
	})
}

func start(n int) []*process {
	shared := store.NewMemory()
	at, most := new(atomic.Int32), new(atomic.Int32)
	all := make([]*process, n)
	for i := range all {
		p := &process{at: at, most: most}
		p.Store = shared
		p.leases = lease.New(lease.Options{Store: &p.link, Holder: fmt.Sprint("process ", i)})
		all[i] = p
	}
	return all
}

func working(all []*process) (one *process) {
	for _, p := range all {
		if p.works.Load() {
			one = p
		}
	}
	return one
}

func TestOneWorksAndAnotherTakesOver(t *testing.T) {
	for name, mode := range map[string]int32{"cut off": fails, "hanging": hangs, "in a commit": lingers} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				all := start(3)
				var running sync.WaitGroup
				for _, p := range all {
					running.Go(func() { require.NoError(t, p.run(ctx)) })
				}
				time.Sleep(2 * beat)
				for range 10 {
					first := working(all)
					require.NotNil(t, first)
					first.mode.Store(mode)
					// Others have seen its last beat within one more, and then wait for the timeout.
					time.Sleep(timeout + beat + time.Millisecond)
					second := working(all)
					require.NotNil(t, second, "no process has taken over")
					require.NotSame(t, first, second)
					first.mode.Store(works)
					time.Sleep(2 * timeout)
					require.Same(t, second, working(all), "who comes back must not take it away")
				}
				require.EqualValues(t, 1, all[0].most.Load(), "as many worked at a time")
				cancel()
				running.Wait()
			})
		})
	}
}

func TestGivenBackIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := start(2)
		ctx, cancel := context.WithCancel(t.Context())
		first, leave := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { require.NoError(t, all[0].run(first)) })
		time.Sleep(beat)
		running.Go(func() { require.NoError(t, all[1].run(ctx)) })
		time.Sleep(10 * timeout)
		require.True(t, all[0].works.Load())
		holder, err := all[1].leases.Holder(ctx, "index")
		require.NoError(t, err)
		require.Equal(t, "process 0", holder)
		require.EqualValues(t, 1, testutil.ToFloat64(all[0].leases))
		require.EqualValues(t, 0, testutil.ToFloat64(all[1].leases))
		leave()
		time.Sleep(beat + beat/2)
		require.True(t, all[1].works.Load())
		cancel()
		running.Wait()
		holder, err = all[0].leases.Holder(t.Context(), "index")
		require.NoError(t, err)
		require.Empty(t, holder)
	})
}

// A write whose answer was lost does not count as another process's.
func TestAnswersThatGetLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		p.mode.Store(deceives)
		running.Go(func() { require.NoError(t, p.run(ctx)) })
		time.Sleep(20 * timeout)
		require.True(t, p.works.Load())
		require.EqualValues(t, 1, p.begun.Load())
		cancel()
		running.Wait()
	})
}

func TestWorkThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(1)[0]
		failure := errors.New("no more of it")
		require.ErrorIs(t, p.leases.Hold(t.Context(), "index", func(context.Context) error { return failure }), failure)
		// Work that is fenced, or has lost the store, has lost the lease, and begins again.
		times := 0
		require.NoError(t, p.leases.Hold(t.Context(), "index", func(context.Context) error {
			switch times++; times {
			case 1:
				return fmt.Errorf("writing: %w", store.ErrFenced)
			case 2:
				return fmt.Errorf("reading: %w", store.ErrUnavailable)
			}
			return nil
		}))
		require.Equal(t, 3, times)
	})
}

// The metric of a lease ends with its work. It stays 0 after an error, so that an alert fires.
func TestMetricEndsWithWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := start(2)
		p, other := both[0], both[1]
		metric := func(p *process, want ...float64) {
			t.Helper()
			require.Equal(t, len(want), testutil.CollectAndCount(p.leases))
			if len(want) > 0 {
				require.InDelta(t, want[0], testutil.ToFloat64(p.leases), 0)
			}
		}
		require.NoError(t, p.leases.Hold(t.Context(), "upgrade", func(context.Context) error {
			metric(p, 1)
			return nil
		}))
		metric(p)

		// The lease is not requested any more, whether this process has it or not.
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, p := range []*process{p, other} {
			running.Go(func() { require.NoError(t, p.run(ctx)) })
			time.Sleep(time.Minute)
		}
		metric(p, 1)
		metric(other, 0)
		end()
		running.Wait()
		metric(p)
		metric(other)

		require.ErrorIs(t, p.leases.Hold(t.Context(), "index", func(context.Context) error { return errCut }), errCut)
		metric(p, 0)
	})
}

// Whatever connections are cut, never do two processes hold a lease at a time, and once all are
// restored one does.
func TestNeverTwo(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			all := start(4)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			for _, p := range all {
				running.Go(func() { require.NoError(t, p.run(ctx)) })
			}
			for range 200 {
				all[random.IntN(len(all))].mode.Store(random.Int32N(5))
				time.Sleep(time.Duration(random.Int64N(int64(3 * beat))))
			}
			for _, p := range all {
				p.mode.Store(works)
			}
			time.Sleep(lingering + timeout + 3*beat)
			require.NotNil(t, working(all), "seed %d: no process works", seed)
			require.EqualValues(t, 1, all[0].most.Load(), "seed %d: as many worked at a time", seed)
			cancel()
			running.Wait()
		})
	}
}
