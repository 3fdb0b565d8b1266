package aggregator

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each request to a validator is charged once, in equal parts to the clients that wait when it is
// sent, however their wait ends. Answers from a cache cost nothing.
func TestUsage(t *testing.T) {
	n := unseenNetwork(t, sameWeights(40, 1)...)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		var mu sync.Mutex
		used := make(map[string]float64)
		calls := 0
		charged := func(ctx context.Context, client string) context.Context {
			return WithUsage(ctx, func(u Usage) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				used[client] += u.Requests
				require.Equal(t, 40, u.Validators)
				require.Equal(t, client == "signed", u.Signed)
				require.Greater(t, u.Size, 50)
				require.Less(t, u.Size, 1000)
			})
		}
		of := func(clients ...string) (all float64) {
			mu.Lock()
			defer mu.Unlock()
			for _, client := range clients {
				all += used[client]
			}
			return all
		}
		message := testMessage(t, "m")
		var done sync.WaitGroup
		start := func(client string, wait time.Duration) (leave func()) {
			ctx, leave := context.WithCancel(charged(ctx, client))
			done.Go(func() {
				_, err := a.Sign(ctx, Request{Message: message, Wait: wait})
				require.Error(t, err)
			})
			synctest.Wait()
			return leave
		}
		start("first", 8*time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		alone := n.requests
		leave := start("leaves", 8*time.Second)
		start("shares", 8*time.Second)
		start("shares", 8*time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		shared := n.requests - alone
		require.Greater(t, shared, probeSize)
		leave()
		synctest.Wait()
		require.InDelta(t, float64(shared)/4, of("leaves"), 0.01)
		done.Wait()
		require.Equal(t, 4, calls)
		require.InDelta(t, n.requests, of("first", "leaves", "shares"), 0.01)
		require.Greater(t, of("first"), float64(alone))
		require.Greater(t, of("shares"), float64(shared)/2)

		_, err := a.Sign(charged(ctx, "late"), Request{Message: message})
		requireFailure(t, err, CodeNotSeen)
		require.Equal(t, 4, calls, "the failure is in memory")
		n.everyone(honest(time.Millisecond))
		before := n.requests
		for range 2 {
			_, err = a.Sign(charged(ctx, "signed"), Request{Message: testMessage(t, "signed")})
			require.NoError(t, err)
		}
		require.Equal(t, 5, calls, "the second one finds the message")
		require.InDelta(t, n.requests-before, of("signed"), 0.01)
		require.LessOrEqual(t, of("signed"), 40.0, "a message that is signed takes at most one request to each")
	})
}
