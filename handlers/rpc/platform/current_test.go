package platform

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
)

// upstream answers each call with a result that takes memory, after it was released.
type upstream struct {
	release chan struct{}
	fail    error
}

func (u upstream) Forward(ctx context.Context, _ string, _ []byte, _ bool) (*node.Forwarded, error) {
	<-u.release
	if u.fail != nil {
		return nil, u.fail
	}
	if err := node.Take(ctx, 100); err != nil {
		return nil, err
	}
	return &node.Forwarded{Status: 200, Body: []byte(`{"jsonrpc":"2.0","result":{},"id":1}`)}, nil
}

// TestCallerLeavesOthersTheirAnswer checks that the answer for several callers does not end with the request of the one
// that asked first, whose memory for answers it uses.
func TestCallerLeavesOthersTheirAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := upstream{release: make(chan struct{})}
		c := newCurrent(u, "/ext/bc/P", func() uint64 { return 1 }, slog.New(slog.DiscardHandler))
		budget := node.NewBudget(1<<20, 0)
		ask := func(ctx context.Context, client string) <-chan error {
			answered := make(chan error, 1)
			go func() {
				ctx, done := budget.Begin(node.WithClient(ctx, func() string { return client }))
				defer done()
				_, err := c.answer(ctx, "platform.getCurrentValidators", ids.Empty, nil, struct{}{})
				answered <- err
			}()
			synctest.Wait()
			return answered
		}
		first, leave := context.WithCancel(t.Context())
		gone, stays := ask(first, "first"), ask(t.Context(), "second")
		leave()
		require.ErrorIs(t, <-gone, context.Canceled)
		close(u.release)
		require.NoError(t, <-stays)
		synctest.Wait()
		require.Zero(t, budget.Usage().Bytes)
	})
}

// TestAnswerOfAnEarlierHeight checks that a caller does not get the answer to a request from before the current height.
func TestAnswerOfAnEarlierHeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := upstream{release: make(chan struct{})}
		var height atomic.Uint64
		c := newCurrent(u, "/ext/bc/P", height.Load, slog.New(slog.DiscardHandler))
		ask := func() <-chan *answer {
			answered := make(chan *answer, 1)
			go func() {
				a, err := c.answer(t.Context(), "platform.getCurrentSupply", ids.Empty, nil, struct{}{})
				assert.NoError(t, err)
				answered <- a
			}()
			synctest.Wait()
			return answered
		}
		height.Store(1)
		early, shares := ask(), ask()
		height.Store(2)
		late := ask()
		close(u.release)
		first := <-early
		require.Equal(t, uint64(1), first.height)
		require.Same(t, first, <-shares)
		require.Equal(t, uint64(2), (<-late).height)
		require.NotSame(t, first, <-ask())
	})
}

// TestLimitsAreNoFailureOfTheNode checks that clients whose calls are too many do not read that the node is away.
func TestLimitsAreNoFailureOfTheNode(t *testing.T) {
	for fail, want := range map[error]string{
		node.ErrBusy:   "too many calls to the upstream node are in progress; try again in a moment",
		node.ErrNoRoom: "the service has as many answers under way as it has room for; try again in a moment",
	} {
		u := upstream{release: make(chan struct{}), fail: fmt.Errorf("forwarding: %w", fail)}
		close(u.release)
		c := newCurrent(u, "/ext/bc/P", func() uint64 { return 1 }, slog.New(slog.DiscardHandler))
		_, err := c.answer(t.Context(), "platform.getCurrentSupply", ids.Empty, nil, struct{}{})
		require.EqualError(t, err, want)
	}
}
