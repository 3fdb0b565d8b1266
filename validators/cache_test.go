package validators

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/node"
)

func keepFor(d time.Duration) func(int, error) time.Duration {
	return func(int, error) time.Duration { return d }
}

func TestQuestionEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started, ended atomic.Int64
		m := newCache(time.Minute, keepFor(time.Hour), func(ctx context.Context, k int) (int, error) {
			started.Add(1)
			select {
			case <-time.After(10 * time.Second):
				return k, nil
			case <-ctx.Done():
				ended.Add(1)
				return 0, ctx.Err()
			}
		})
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				if _, err := m.get(ctx, 7); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("caller %d: got %v, want its own deadline", i, err)
				}
			})
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, ended.Load(), "one still waits")
		callers.Wait()
		synctest.Wait()
		require.Equal(t, int64(1), started.Load())
		require.Equal(t, int64(1), ended.Load())
		require.Empty(t, m.asking)
		require.Zero(t, m.answers.Len()+m.refusals.Len(), "a cancellation is no answer")

		got, err := m.get(t.Context(), 7)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Equal(t, int64(2), started.Load())
	})
}

func TestCallerAfterTheLastAsksAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The question takes its time to end, as a real one may.
		m := newCache(time.Minute, keepFor(time.Hour), func(ctx context.Context, k int) (int, error) {
			if k == 0 {
				return 0, nil
			}
			select {
			case <-ctx.Done():
				time.Sleep(time.Second)
				return 0, ctx.Err()
			case <-time.After(3 * time.Second):
				return k, nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.get(ctx, 7)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		got, err := m.get(t.Context(), 7)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		got, err = m.get(t.Context(), 7)
		require.NoError(t, err)
		require.Equal(t, 7, got)
	})
}

func TestTimeoutOfAQuestionIsNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newCache(time.Second, keepFor(0), func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		_, err := m.get(t.Context(), 1)
		require.ErrorIs(t, err, node.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAnswersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		m := newCache(time.Second, func(k int, _ error) time.Duration { return time.Duration(k) * time.Second }, func(_ context.Context, k int) (int, error) {
			asked++
			return k, nil
		})
		for range 2 {
			_, _ = m.get(t.Context(), 0)
		}
		require.Equal(t, 2, asked)
		require.Zero(t, m.answers.Len(), "an answer that is not cached takes no memory")
		for range 2 {
			_, _ = m.get(t.Context(), 5)
		}
		require.Equal(t, 3, asked)
		time.Sleep(5 * time.Second)
		_, _ = m.get(t.Context(), 5)
		require.Equal(t, 4, asked)
	})
}

func TestRefusalsDisplaceNoAnswers(t *testing.T) {
	no := errors.New("no")
	m := newCache(time.Second, keepFor(time.Hour), func(_ context.Context, k int) (int, error) {
		if k >= 10 {
			return 0, no
		}
		return k, nil
	})
	for k := range cacheSize + 100 {
		_, _ = m.get(t.Context(), k)
	}
	m.refusals.Trim()
	require.LessOrEqual(t, m.refusals.Len(), cacheSize)
	for k := range 10 {
		_, ok := m.answers.Get(k)
		require.True(t, ok, "a flood of unknown keys must not displace the answer to %d", k)
	}
}
