package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// whole requires that a budget is unused.
func whole(t *testing.T, b *Budget) {
	t.Helper()
	u := b.Usage()
	require.Zero(t, u.Bytes, "something is not given back")
	require.Zero(t, u.Clients)
	require.Zero(t, u.Waiting)
	require.Empty(t, b.clients, "a client is still in memory")
}

// named returns a function that returns a client's name.
func named(name string) func() string { return func() string { return name } }

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100, time.Second)
		first, end := b.Begin(WithClient(t.Context(), named("one")))
		second, endSecond := b.Begin(WithClient(t.Context(), named("two")))
		require.NoError(t, Take(first, 60))
		began := time.Now()
		require.ErrorIs(t, Take(second, 60), ErrNoRoom)
		require.Equal(t, time.Second, time.Since(began), "waiting is bounded")
		require.ErrorIs(t, Take(second, 76), ErrNoRoom)
		require.Equal(t, time.Second, time.Since(began), "what is never allowed is not waited for")
		require.Equal(t, Usage{Bytes: 60, Size: 100, Largest: 60, Clients: 1, Refused: Refused{Size: 1, All: 1}}, b.Usage())

		time.AfterFunc(time.Second/2, func() { Give(first, 40) })
		require.NoError(t, Take(second, 60))
		require.Equal(t, time.Second*3/2, time.Since(began))
		gone, cancel := context.WithCancel(first)
		cancel()
		require.ErrorIs(t, Take(gone, 60), context.Canceled)

		end()
		end()
		require.ErrorIs(t, Take(first, 1), context.Canceled, "it is over")
		Give(first, 40)
		endSecond()
		whole(t, b)

		var none *Budget
		ctx, done := none.Begin(t.Context())
		require.NoError(t, Take(ctx, 1<<40))
		done()
	})
}

// However many clients take all they can, some bytes are left for the next one. A client's
// bytes do not depend on its number of requests.
func TestBudgetIsShared(t *testing.T) {
	const size = 1 << 20
	for _, greedy := range []int{1, 2, 5, 20} {
		b := NewBudget(size, 0)
		got := make([]int, greedy)
		for again := true; again; {
			again = false
			for i := range greedy {
				ctx, end := b.Begin(WithClient(t.Context(), named(string(rune('a'+i)))))
				defer end()
				if Take(ctx, 1<<10) == nil {
					got[i]++
					again = true
				}
			}
		}
		fair := share * size / (1 + share*greedy) >> 10
		for i := range greedy {
			require.InDelta(t, fair, got[i], float64(greedy), "KiB of client %d of %d", i, greedy)
		}
		next, end := b.Begin(WithClient(t.Context(), named("next")))
		require.NoError(t, Take(next, size/int64(1+share*greedy)/2), "%d clients left nothing", greedy)
		end()
		u := b.Usage()
		require.Equal(t, greedy, u.Clients)
		require.Equal(t, int64(slices.Max(got))<<10, u.Largest)
		require.GreaterOrEqual(t, u.Refused.Client+u.Refused.All, uint64(greedy))
	}
}

// Released bytes go to waiters. A waiter that needs or holds much does not block the
// others.
func TestRoomGoesToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1000, time.Minute)
		greedy, end := b.Begin(WithClient(t.Context(), named("greedy")))
		require.NoError(t, Take(greedy, 700))
		other, endOther := b.Begin(WithClient(t.Context(), named("other")))
		require.NoError(t, Take(other, 200))
		var order []string
		var mu sync.Mutex
		var waiting sync.WaitGroup
		take := func(ctx context.Context, name string, n int64) {
			waiting.Go(func() {
				require.NoError(t, Take(ctx, n))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			})
			synctest.Wait()
		}
		third, endThird := b.Begin(WithClient(t.Context(), named("third")))
		take(greedy, "more", 100)
		take(third, "large", 500)
		take(third, "small", 120)
		require.Empty(t, order)
		require.Equal(t, 3, b.Usage().Waiting)
		Give(greedy, 100) // 200 are free
		synctest.Wait()
		require.Equal(t, []string{"small"}, order)
		endOther() // 280
		synctest.Wait()
		require.Equal(t, []string{"small"}, order)
		Give(greedy, 600) // 880
		waiting.Wait()
		require.ElementsMatch(t, []string{"small", "more", "large"}, order)
		end()
		endThird()
		whole(t, b)
	})
}

// The number of waiters is bounded and divided among clients.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100, time.Minute)
		holder, end := b.Begin(WithClient(t.Context(), named("holder")))
		require.NoError(t, Take(holder, 70))
		other, endOther := b.Begin(WithClient(t.Context(), named("other")))
		require.NoError(t, Take(other, 20))
		var waiting sync.WaitGroup
		for range 2 * mostWaiting {
			ctx, done := b.Begin(WithClient(t.Context(), named("many")))
			waiting.Go(func() {
				defer done()
				_ = Take(ctx, 50)
			})
		}
		synctest.Wait()
		require.Equal(t, mostWaiting*share/(1+share), b.Usage().Waiting)
		late, endLate := b.Begin(WithClient(t.Context(), named("late")))
		waiting.Go(func() { require.NoError(t, Take(late, 30)) })
		synctest.Wait()
		require.Equal(t, mostWaiting*share/(1+share)+1, b.Usage().Waiting)
		end()
		endOther()
		waiting.Wait()
		endLate()
		whole(t, b)
	})
}

// Concurrent calls of Take and Give keep the sum right.
func TestBudgetAtOnce(t *testing.T) {
	b := NewBudget(64<<10, time.Millisecond)
	var most atomic.Int64
	var running sync.WaitGroup
	for i := range 16 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				taking, end := b.Begin(WithClient(ctx, named(string(rune('a'+i%5)))))
				for range random.IntN(4) {
					if n := 1 + random.Int64N(20<<10); Take(taking, n) == nil && random.IntN(2) == 0 {
						Give(taking, n)
					}
					if u := b.Usage(); u.Bytes > u.Size || u.Bytes < 0 || u.Largest > u.Bytes {
						most.Store(u.Bytes)
					}
				}
				if random.IntN(2) == 0 {
					cancel()
				}
				end()
				cancel()
			}
		})
	}
	running.Wait()
	require.Zero(t, most.Load(), "bytes that were held at a time, of %d", b.size)
	whole(t, b)
}

// ReadAll charges what it allocates, however the bytes arrive, and returns it after a
// failure.
func TestReadAllCounts(t *testing.T) {
	b := NewBudget(96<<10, 0)
	content := bytes.Repeat([]byte("x"), 20_000)
	for name, r := range map[string]func() io.Reader{
		"at once":      func() io.Reader { return bytes.NewReader(content) },
		"bit by bit":   func() io.Reader { return iotest.OneByteReader(bytes.NewReader(content)) },
		"end with it":  func() io.Reader { return iotest.DataErrReader(bytes.NewReader(content)) },
		"half by half": func() io.Reader { return iotest.HalfReader(bytes.NewReader(content)) },
	} {
		for _, length := range []int64{-1, 20_000, 1 << 40} {
			ctx, end := b.Begin(t.Context())
			got, err := ReadAll(ctx, r(), length, 20_000)
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(content, got), name)
			require.Equal(t, int64(cap(got)), ctx.Value(heldKey{}).(*held).bytes, name)

			_, err = ReadAll(ctx, r(), length, 19_999)
			require.ErrorIs(t, err, ErrMalformed, name)
			require.Equal(t, int64(cap(got)), ctx.Value(heldKey{}).(*held).bytes, name)
			_, err = ReadAll(ctx, io.MultiReader(r(), iotest.ErrReader(errors.New("broken"))), length, 20_000)
			require.EqualError(t, err, "broken", name)
			end()
			whole(t, b)
		}
	}
	ctx, end := b.Begin(t.Context())
	defer end()
	_, err := ReadAll(ctx, bytes.NewReader(make([]byte, 50_000)), -1, 1<<20)
	require.ErrorIs(t, err, ErrNoRoom, "room for the copy is missing")
	whole(t, b)
}

// A response beyond the budget is refused. No node is marked as failing, and no other node
// is asked.
func TestForwardWithinBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		big := func(r *http.Request) (*http.Response, error) {
			asked++
			return answer(http.StatusOK, `"`+strings.Repeat("x", 39_998)+`"`)(r)
		}
		n := newForwarder(t, hosts{"a": big, "b": big, "c": big})
		b := NewBudget(140_000, time.Second)
		first, end := b.Begin(t.Context())
		got, err := n.Forward(first, "/", nil, true)
		require.NoError(t, err)
		require.Len(t, got.Body, 40_000)
		second, endSecond := b.Begin(t.Context())
		_, err = n.Forward(second, "/", nil, false)
		require.ErrorIs(t, err, ErrNoRoom)
		require.Equal(t, 2, asked)
		require.Zero(t, n.Load().Failing)
		end()
		_, err = n.Forward(second, "/", nil, false)
		require.NoError(t, err)
		endSecond()
		whole(t, b)
	})
}

// Bytes of a response that lost a hedged race are returned too.
func TestForwardGivesBackWhatLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// It ignores the end of the request.
		late := func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(http.StatusOK, `"late"`)(r)
		}
		n := newForwarder(t, hosts{"a": late, "b": answer(http.StatusOK, `"b"`), "c": late})
		b := NewBudget(100_000, time.Second)
		ctx, end := b.Begin(t.Context())
		got, err := n.Forward(ctx, "/", nil, true)
		require.NoError(t, err)
		require.Equal(t, `"b"`, string(got.Body))
		end()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		whole(t, b)
	})
}
