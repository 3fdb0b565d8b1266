package ahead

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/testenv"
)

// fakeSigner takes a while for each message, and fails the first attempts.
type fakeSigner struct {
	takes time.Duration
	fails int

	mu     sync.Mutex
	atOnce int // guarded by mu
	most   int // guarded by mu
	calls  int // guarded by mu
}

func (s *fakeSigner) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	if !req.Ahead {
		return nil, errors.New("the request would count as a client's")
	}
	s.mu.Lock()
	s.calls++
	fail := s.calls <= s.fails
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.atOnce--
		s.mu.Unlock()
	}()
	if err := testenv.Delay(ctx, s.takes); err != nil {
		return nil, err
	}
	if fail {
		return nil, errors.New("unknown message")
	}
	return &aggregator.Result{}, nil
}

// counts are how often Sign was called, and how often at a time at most.
func (s *fakeSigner) counts() (calls, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.most
}

func (s *fakeSigner) called() int {
	calls, _ := s.counts()
	return calls
}

func job(i byte) Job {
	return Job{ID: ids.ID{i}, Request: func(context.Context) (aggregator.Request, error) { return aggregator.Request{}, nil }}
}

func run(t *testing.T, o Options, test func(t *testing.T, a *Ahead)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, err := New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		test(t, a)
		cancel()
		running.Wait()
	})
}

func TestBudgetIsKept(t *testing.T) {
	s := &fakeSigner{takes: time.Second}
	run(t, Options{Signer: s, Rounds: 3, Waiting: 9}, func(t *testing.T, a *Ahead) {
		for i := range 10 {
			require.Equal(t, i < 9, a.Offer(job(byte(i))), "job %d", i)
		}
		require.False(t, a.Offer(job(0)), "it waits already")
		start := time.Now()
		for s.called() < 9 {
			time.Sleep(100 * time.Millisecond)
		}
		_, most := s.counts()
		require.Equal(t, 3, most)
		require.Less(t, time.Since(start), 3*time.Second)
		time.Sleep(2 * time.Second)
		require.True(t, a.Offer(job(0)), "it is done")
		require.InDelta(t, 9, testutil.ToFloat64(a.jobs.WithLabelValues("signed")), 0)
		require.InDelta(t, 1, testutil.ToFloat64(a.jobs.WithLabelValues("dropped")), 0)
	})
}

func TestRetriedUntilSigned(t *testing.T) {
	s := &fakeSigner{fails: 5}
	run(t, Options{Signer: s}, func(t *testing.T, a *Ahead) {
		a.Offer(job(1))
		time.Sleep(30 * time.Second) // 1+2+4+8+16 is a little more
		require.Equal(t, 5, s.called())
		time.Sleep(2 * time.Second)
		require.Equal(t, 6, s.called())
		time.Sleep(time.Hour)
		require.Equal(t, 6, s.called(), "it was signed")
	})
}

func TestGivenUpInTheEnd(t *testing.T) {
	s := &fakeSigner{fails: 1 << 30}
	run(t, Options{Signer: s, Lifetime: 10 * time.Minute}, func(t *testing.T, a *Ahead) {
		a.Offer(job(1))
		time.Sleep(time.Hour)
		calls := s.called()
		require.Less(t, calls, 20)
		require.InDelta(t, 1, testutil.ToFloat64(a.jobs.WithLabelValues("expired")), 0)
		time.Sleep(time.Hour)
		require.Equal(t, calls, s.called())
	})
}

func TestObsoleteIsDropped(t *testing.T) {
	s := &fakeSigner{}
	run(t, Options{Signer: s}, func(t *testing.T, a *Ahead) {
		a.Offer(Job{ID: ids.ID{1}, Request: func(context.Context) (aggregator.Request, error) { return aggregator.Request{}, ErrObsolete }})
		synctest.Wait()
		require.Zero(t, s.called())
		require.InDelta(t, 1, testutil.ToFloat64(a.jobs.WithLabelValues("obsolete")), 0)
	})
}

// Messages that cannot be signed do not delay others.
func TestStuckJobsDoNotBlockOthers(t *testing.T) {
	s := &fakeSigner{}
	run(t, Options{Signer: s, Rounds: 1, Attempt: time.Second}, func(t *testing.T, a *Ahead) {
		for i := range 5 {
			a.Offer(Job{ID: ids.ID{byte(i)}, Request: func(ctx context.Context) (aggregator.Request, error) {
				<-ctx.Done()
				return aggregator.Request{}, ctx.Err()
			}})
		}
		a.Offer(job(9))
		time.Sleep(6 * time.Second)
		require.Equal(t, 1, s.called())
	})
}

// TestRunAgain ends Run while a message is being signed, as when a lease is lost. The next Run signs it.
func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSigner{takes: 5 * time.Second}
		a, err := New(Options{Signer: s})
		require.NoError(t, err)
		begin := func() (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				a.Run(ctx)
			}()
			return func() {
				cancel()
				<-done
			}
		}
		end := begin()
		require.True(t, a.Offer(job(1)))
		time.Sleep(time.Second)
		end()
		end = begin()
		defer end()
		time.Sleep(time.Minute)
		require.Equal(t, 2, s.called())
		require.True(t, a.Offer(job(1)), "the message is known for ever")
	})
}
