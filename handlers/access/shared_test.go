package access

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// three are the allowances of one key in three processes.
func three(s store.Store, c Class) []*allowance {
	all := make([]*allowance, 3)
	for i := range all {
		all[i] = newAllowance(c, nil)
		all[i].account = &account{shared: NewShared(s, nil), key: "k"}
	}
	return all
}

// Several processes together allow as many requests as one would: never more, and hardly fewer if
// all of them get requests all the time.
func TestAllowancesAreShared(t *testing.T) {
	for _, c := range []Class{
		{PerSecond: 200, Burst: 50}, {PerSecond: 10}, {PerSecond: 1, Burst: 1}, {PerSecond: 1000, PerDay: 1500}, {PerSecond: 0.5, Burst: 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			const span = 20 * time.Second
			all := three(store.NewMemory(), c)
			random := rand.New(rand.NewPCG(1, 2))
			allowed, begun := 0, time.Now()
			for time.Since(begun) < span {
				if all[random.IntN(3)].use(t.Context(), 1, time.Now()).allowed {
					allowed++
				}
				time.Sleep(time.Duration(random.Int64N(int64(200 * time.Microsecond))))
			}
			requireAllowance(t, c, allowed, time.Since(begun), 0.95)
		})
	}
}

// requireAllowance wants no more than a class allows in a time to have been let in, and a
// part of it at least.
func requireAllowance(t *testing.T, c Class, allowed int, in time.Duration, part float64) {
	t.Helper()
	most := float64(c.burst()) + c.PerSecond*in.Seconds()
	if c.PerDay > 0 {
		most = min(most, float64(c.PerDay))
	}
	require.LessOrEqual(t, float64(allowed), most+1, "%+v", c)
	require.GreaterOrEqual(t, float64(allowed), part*most-1, "%+v", c)
}

// Batches are allowed as a whole or not at all.
func TestBatchesAreShared(t *testing.T) {
	for _, c := range []Class{{PerSecond: 200, Burst: 50}, {PerSecond: 10}, {PerSecond: 1000, PerDay: 1500}} {
		synctest.Test(t, func(t *testing.T) {
			all := three(store.NewMemory(), c)
			random := rand.New(rand.NewPCG(3, 4))
			allowed, begun := 0, time.Now()
			for time.Since(begun) < 10*time.Second {
				n := 1 + random.IntN(c.burst())
				if all[random.IntN(3)].use(t.Context(), n, time.Now()).allowed {
					allowed += n
				}
				time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
			}
			requireAllowance(t, c, allowed, time.Since(begun), 0.8)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		two := three(store.NewMemory(), Class{PerSecond: 2, Burst: 6})
		require.True(t, two[0].use(t.Context(), 4, time.Now()).allowed)
		v := two[1].use(t.Context(), 3, time.Now())
		require.False(t, v.allowed)
		require.Equal(t, 500*time.Millisecond, v.reset)
		time.Sleep(v.reset)
		require.True(t, two[1].use(t.Context(), 3, time.Now()).allowed, "after the reported time")
	})
}

func TestSharedAllowanceSaysWhenToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := three(store.NewMemory(), Class{PerSecond: 2, Burst: 3})
		for i := range 3 {
			v := all[i].use(t.Context(), 1, time.Now())
			require.True(t, v.allowed)
			require.Equal(t, 2-i, v.remaining)
		}
		v := all[0].use(t.Context(), 1, time.Now())
		require.False(t, v.allowed)
		require.Equal(t, 500*time.Millisecond, v.reset)
		time.Sleep(v.reset)
		require.True(t, all[1].use(t.Context(), 1, time.Now()).allowed, "after the reported time")
		require.False(t, all[2].use(t.Context(), 1, time.Now()).allowed)

		daily := three(store.NewMemory(), Class{PerSecond: 100, PerDay: 2})
		require.True(t, daily[0].use(t.Context(), 1, time.Now()).allowed)
		time.Sleep(2 * time.Second)
		require.True(t, daily[1].use(t.Context(), 1, time.Now()).allowed)
		v = daily[2].use(t.Context(), 1, time.Now())
		require.True(t, v.daily)
		time.Sleep(v.reset)
		require.True(t, daily[2].use(t.Context(), 1, time.Now()).allowed, "the next day")
	})
}

// A client's debt in one process counts in all.
func TestDebtsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := three(store.NewMemory(), Class{PerSecond: 100, Burst: 50})
		require.True(t, all[0].use(t.Context(), 1, time.Now()).allowed) // which has drawn some more
		all[0].owe(t.Context(), 1000, time.Now())
		for _, a := range all {
			require.True(t, a.use(t.Context(), 1, time.Now()).owes)
		}
		time.Sleep(9 * time.Second)
		require.False(t, all[1].use(t.Context(), 1, time.Now()).allowed)
		time.Sleep(time.Second)
		require.True(t, all[1].use(t.Context(), 1, time.Now()).allowed)
	})
}

// A wrong clock does not refuse clients for long.
func TestClocksThatDisagree(t *testing.T) {
	c := Class{PerSecond: 10, Burst: 20}
	now := time.Unix(1_700_000_000, 0)
	ahead, d := c.draw(store.Cursor{}, 1, 20, now.Add(time.Hour))
	require.Equal(t, 20, d.granted)
	_, d = c.draw(ahead, 1, 1, now)
	require.Zero(t, d.granted)
	require.LessOrEqual(t, d.reset, debtTime+2*time.Second)
}

// broken is a store that fails.
type broken struct {
	store.Store
	asked atomic.Int32
}

func (b *broken) Get(context.Context, store.Family, []store.PK) ([][]byte, error) {
	b.asked.Add(1)
	return nil, errors.New("no connection")
}

// hanging is a store that does not answer to commits.
type hanging struct{ store.Store }

func (hanging) Commit(context.Context, *store.Batch) error {
	time.Sleep(30 * time.Second)
	return store.ErrUnavailable
}

func TestStoreOfAllowancesHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := three(hanging{store.NewMemory()}, Class{PerSecond: 5, Burst: 5})[0]
		begun := time.Now()
		for range 3 {
			require.True(t, one.use(t.Context(), 1, time.Now()).allowed)
		}
		require.Equal(t, drawTime, time.Since(begun))
		time.Sleep(time.Minute) // the commit ends
	})
}

func TestStoreOfAllowancesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broken{Store: store.NewMemory()}
		one := three(b, Class{PerSecond: 5, Burst: 5})[0]
		allowed := 0
		for range 100 {
			if one.use(t.Context(), 1, time.Now()).allowed {
				allowed++
			}
		}
		require.Equal(t, 5, allowed, "as one process alone would")
		require.EqualValues(t, 1, b.asked.Load(), "not for each request")
	})
}
