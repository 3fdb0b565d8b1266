package aggregator

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// witness keeps every snapshot of a round.
type witness struct {
	mu        sync.Mutex
	watching  bool
	snapshots []Snapshot // guarded by mu
}

func (w *witness) Watching() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watching
}

func (w *witness) watch(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching = yes
}

func (w *witness) Observe(l Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshots = append(w.snapshots, l)
}

// observed runs test with a witness of n's rounds.
func observed(t *testing.T, n *fakeNetwork, test func(t *testing.T, ctx context.Context, a *Aggregator, w *witness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &witness{watching: true}
		a := newTestAggregator(t, n)
		a.observer = w
		defer a.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		test(t, ctx, a, w)
	})
}

// tally counts how often each reply occurs.
func tally(replies []Reply) map[Reply]int {
	count := make(map[Reply]int)
	for _, r := range replies {
		count[r]++
	}
	return count
}

func TestObserverSeesARoundFromItsStartToItsEnd(t *testing.T) {
	n := newFakeNetwork(t, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10)
	for i, v := range n.validators {
		v.do = honest(time.Duration(10*(i+1)) * time.Millisecond)
	}
	n.validators[0].do = refuse(-3, "not a validator", 5*time.Millisecond)
	n.validators[1].do = mute
	n.validators[2].offline = true
	observed(t, n, func(t *testing.T, ctx context.Context, a *Aggregator, w *witness) {
		m := testMessage(t, "m")
		r, err := a.Sign(ctx, Request{Message: m})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		synctest.Wait()
		require.Greater(t, len(w.snapshots), 4)
		for i, l := range w.snapshots {
			require.Equal(t, w.snapshots[0].Round, l.Round)
			require.Equal(t, m.ID(), l.MessageID)
			require.Equal(t, uint64(67), l.TargetWeight)
			require.Len(t, l.Replies, 10)
			require.Equal(t, i == len(w.snapshots)-1, l.Outcome != "", "snapshot %d of %d: %q", i, len(w.snapshots), l.Outcome)
			if i > 0 && l.Outcome == "" {
				require.GreaterOrEqual(t, l.Elapsed-w.snapshots[i-1].Elapsed, SnapshotInterval)
				require.NotEqual(t, w.snapshots[i-1].Replies, l.Replies, "nothing was new")
			}
		}
		require.Zero(t, tally(w.snapshots[0].Replies)[Signed])
		last := w.snapshots[len(w.snapshots)-1]
		require.Equal(t, OutcomeSigned, last.Outcome)
		require.Equal(t, map[Reply]int{Signed: 7, Refused: 1, Asked: 1, Offline: 1}, tally(last.Replies))
		i, ok := last.Set.Index(n.validators[0].nodeIDs[0])
		require.True(t, ok)
		require.Equal(t, Refused, last.Replies[i])
	})
}

func TestObserverSeesWhyARoundFailed(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	for _, v := range n.validators[:2] {
		v.do = refuse(-3, "not a validator", 5*time.Millisecond)
	}
	observed(t, n, func(t *testing.T, ctx context.Context, a *Aggregator, w *witness) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		requireFailure(t, err, CodeRefused)
		synctest.Wait()
		require.Equal(t, CodeRefused, w.snapshots[len(w.snapshots)-1].Outcome)

		// The round ends when its only waiter leaves.
		n.validators[0].do, n.validators[1].do = mute, mute
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = a.Sign(ctx, Request{Message: testMessage(t, "another")})
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Equal(t, OutcomeAbandoned, w.snapshots[len(w.snapshots)-1].Outcome)
		require.NotEqual(t, w.snapshots[0].Round, w.snapshots[len(w.snapshots)-1].Round)
	})
}

func TestUnwatchedRoundsAreNotObserved(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.validators[0].do = honest(200 * time.Millisecond)
	n.validators[1].do = honest(200 * time.Millisecond)
	observed(t, n, func(t *testing.T, ctx context.Context, a *Aggregator, w *witness) {
		w.watch(false)
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.snapshots)

		// An observer that arrives during a round gets its current state.
		time.AfterFunc(100*time.Millisecond, func() { w.watch(true) })
		_, err = a.Sign(ctx, Request{Message: testMessage(t, "another")})
		require.NoError(t, err)
		synctest.Wait()
		require.NotEmpty(t, w.snapshots)
		require.True(t, slices.ContainsFunc(w.snapshots[0].Replies, func(r Reply) bool { return r == Signed || r == Unproven }))
	})
}
