package node

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gated is a client of a node that answers each call after a second.
func gated(t *testing.T) (c *Client, calls, most *atomic.Int64) {
	var now atomic.Int64
	calls, most = new(atomic.Int64), new(atomic.Int64)
	c, err := New(Options{Endpoints: []string{"http://a"}, HTTP: &http.Client{Transport: hosts{"a": func(r *http.Request) (*http.Response, error) {
		calls.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return answer(200, height7)(r)
	}}}})
	require.NoError(t, err)
	return c, calls, most
}

// A client that makes 1,000 calls at a time has a bounded number in progress. Neither another client nor the service
// waits for it, and what waits too long is refused.
func TestAttackManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, calls, most := gated(t)
		greedy, honest := WithClient(t.Context(), named("greedy")), WithClient(t.Context(), named("honest"))
		var refused atomic.Int64
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if _, err := c.Height(greedy); err != nil {
					assert.ErrorIs(t, err, ErrBusy)
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, gateSize*share/(share+1), most.Load())
		for name, ctx := range map[string]context.Context{"another client": honest, "the service": t.Context()} {
			began := time.Now()
			_, err := c.Height(ctx)
			require.NoError(t, err)
			require.Equal(t, time.Second, time.Since(began), name)
		}
		all.Wait()
		require.Positive(t, refused.Load())
		require.EqualValues(t, 1002, calls.Load()+refused.Load(), "what is refused does not reach the node")
		require.LessOrEqual(t, most.Load(), int64(gateSize+1))
		whole(t, c.gate)
	})
}

// However many clients there are, the service's own calls do not wait, and a waiting call ends with its deadline.
func TestGateNeverDelaysTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, most := gated(t)
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() { _, _ = c.Height(WithClient(t.Context(), named(fmt.Sprint(i)))) })
		}
		synctest.Wait()
		require.EqualValues(t, gateSize-1, most.Load(), "some room is always left")
		began := time.Now()
		ctx, cancel := context.WithTimeout(WithClient(t.Context(), named("late")), time.Second/2)
		defer cancel()
		_, _, err := c.Enter(ctx, setLike)
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, time.Second/2, time.Since(began))
		began = time.Now()
		_, err = c.Height(WithoutClient(WithClient(t.Context(), named("late"))))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		all.Wait()
		whole(t, c.gate)
	})
}

// setLike is the cost of an expensive query.
const setLike = 4

// A query enters the gate once, whatever calls it makes.
func TestGateIsEnteredOnce(t *testing.T) {
	c, _, _ := gated(t)
	ctx, leave, err := c.Enter(WithClient(t.Context(), named("one")), setLike)
	require.NoError(t, err)
	inner, again, err := c.Enter(ctx, gateSize)
	require.NoError(t, err)
	require.Equal(t, ctx, inner)
	again()
	require.EqualValues(t, setLike, c.gate.Usage().Bytes)
	leave()
	whole(t, c.gate)
	_, leave, err = c.Enter(t.Context(), gateSize)
	require.NoError(t, err)
	leave()
}
