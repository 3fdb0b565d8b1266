package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// whole requires that nothing of a budget is taken.
func whole(t *testing.T, b *Budget) {
	t.Helper()
	require.True(t, b.free.TryAcquire(b.size), "something is not given back")
	b.free.Release(b.size)
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100, time.Second)
		first, end := b.Begin(t.Context())
		second, endSecond := b.Begin(t.Context())
		require.NoError(t, Take(first, 60))
		began := time.Now()
		require.ErrorIs(t, Take(second, 60), ErrNoRoom)
		require.Equal(t, time.Second, time.Since(began), "waiting is bounded")
		require.ErrorIs(t, Take(second, 101), ErrNoRoom)
		require.Equal(t, time.Second, time.Since(began), "what never fits is not waited for")

		time.AfterFunc(time.Second/2, func() { Give(first, 20) })
		require.NoError(t, Take(second, 60))
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

// What is read is counted by what it takes, however it arrives, and given back if it
// is of no use.
func TestReadAllCounts(t *testing.T) {
	b := NewBudget(64<<10, 0)
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

// Answers beyond the budget are refused, which no node is blamed for, and other nodes
// are not asked.
func TestForwardWithinBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		big := func(r *http.Request) (*http.Response, error) {
			asked++
			return answer(http.StatusOK, string(make([]byte, 40_000)))(r)
		}
		n := newForwarder(t, hosts{"a": big, "b": big, "c": big})
		b := NewBudget(100_000, time.Second)
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

// What a node says that was not waited for is given back, too.
func TestForwardGivesBackWhatLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// It does not look at the request's end.
		late := func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(http.StatusOK, "late")(r)
		}
		n := newForwarder(t, hosts{"a": late, "b": answer(http.StatusOK, "b"), "c": late})
		b := NewBudget(100_000, time.Second)
		ctx, end := b.Begin(t.Context())
		got, err := n.Forward(ctx, "/", nil, true)
		require.NoError(t, err)
		require.Equal(t, "b", string(got.Body))
		end()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		whole(t, b)
	})
}
