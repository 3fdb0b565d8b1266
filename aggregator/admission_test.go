package aggregator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/p2p"
)

// busy has clients request messages that no validator signs for now, so that rounds last.
type busy struct {
	*fakeNetwork
	*Aggregator
}

// request starts a request and returns its outcome. It has begun when request returns.
func (b busy) request(t *testing.T, ctx context.Context, client, message string) <-chan error {
	t.Helper()
	outcome := make(chan error, 1)
	m := testMessage(t, message)
	go func() {
		_, err := b.Sign(WithClient(ctx, client), Request{Message: m})
		outcome <- err
	}()
	synctest.Wait()
	return outcome
}

func (b busy) rounds() int {
	b.Aggregator.mu.Lock()
	defer b.Aggregator.mu.Unlock()
	return len(b.runners)
}

func runBusy(t *testing.T, o Options, test func(t *testing.T, ctx context.Context, b busy)) {
	n := newFakeNetwork(t, 60, 30, 10)
	n.everyone(mute)
	synctest.Test(t, func(t *testing.T) {
		o.Transport, o.Sets, o.Log = n, n, slog.New(slog.NewTextHandler(io.Discard, nil))
		a, err := New(o)
		require.NoError(t, err)
		defer a.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		test(t, ctx, busy{n, a})
	})
}

func TestRoundsAreBounded(t *testing.T) {
	refused := func(t *testing.T, outcome <-chan error, code Code) {
		t.Helper()
		select {
		case err := <-outcome:
			require.Positive(t, requireFailure(t, err, code).RetryAfter)
		default:
			t.Fatal("the request is not refused at once")
		}
	}
	t.Run("of a client", func(t *testing.T) {
		runBusy(t, Options{Rounds: func() (int, int) { return 0, 2 }}, func(t *testing.T, ctx context.Context, b busy) {
			first := b.request(t, ctx, "a", "1")
			b.request(t, ctx, "a", "2")
			requests := b.fakeNetwork.requests
			refused(t, b.request(t, ctx, "a", "3"), CodeTooManyRounds)
			require.Equal(t, requests, b.fakeNetwork.requests, "no validator is asked")
			b.request(t, ctx, "a", "2") // joins
			b.request(t, ctx, "b", "3")
			b.request(t, ctx, "", "4")
			b.request(t, ctx, "", "5")
			b.request(t, ctx, "", "6")
			require.Equal(t, 6, b.rounds())
			requireFailure(t, <-first, CodeQuorumNotReached)
			synctest.Wait()
			require.Empty(t, b.admitted.clients)
			b.request(t, ctx, "a", "7")
			require.Equal(t, 1, b.rounds())
		})
	})
	t.Run("in all", func(t *testing.T) {
		runBusy(t, Options{Rounds: func() (int, int) { return 3, 2 }}, func(t *testing.T, ctx context.Context, b busy) {
			for i, client := range []string{"a", "a", "b"} {
				b.request(t, ctx, client, fmt.Sprint(i))
			}
			refused(t, b.request(t, ctx, "b", "3"), CodeBusy)
			refused(t, b.request(t, ctx, "", "4"), CodeBusy)
			b.request(t, ctx, "c", "0") // joins
			require.Equal(t, 3, b.rounds())
		})
	})
}

// One client's messages are at most half of what a node reads from the service, however soon their rounds end.
func TestRequestBytesAreBounded(t *testing.T) {
	runBusy(t, Options{Rounds: func() (int, int) { return 0, 1000 }}, func(t *testing.T, ctx context.Context, b busy) {
		b.everyone(refuse(-2, "no", time.Millisecond))
		message := func(i int) *warp.UnsignedMessage { return testMessage(t, fmt.Sprint(i, strings.Repeat("x", 16<<10))) }
		sign := func(client string, message *warp.UnsignedMessage) error {
			_, err := b.Sign(WithClient(ctx, client), Request{Message: message})
			return err
		}
		var sent int
		var failed *Error
		start := time.Now()
		for i := range 10_000 {
			requests := b.fakeNetwork.requests
			err := sign("a", message(i))
			require.ErrorAs(t, err, &failed)
			if failed.Code == CodeTooManyRounds {
				require.Equal(t, requests, b.fakeNetwork.requests, "no validator is asked")
				require.Less(t, failed.RetryAfter, time.Second)
				require.Contains(t, failed.Message, "256 KiB")
				requireFailure(t, sign("b", message(-1)), CodeRefused)
				requireFailure(t, sign("", message(-2)), CodeRefused)
				time.Sleep(failed.RetryAfter)
				continue
			}
			requireFailure(t, err, CodeRefused)
			sent += 16 << 10
			if time.Since(start) > time.Minute {
				break
			}
		}
		require.InDelta(t, clientBurst+60*clientRate, sent, clientBurst)
	})
}

// A round ends at once when its last caller leaves, whatever it is doing, and leaves no goroutine:
// otherwise the test's bubble would not end.
func TestRoundEndsWithItsLastCaller(t *testing.T) {
	const messages, callers = 100, 3
	var searching atomic.Int64
	o := Options{Find: func(ctx context.Context, _ *warp.UnsignedMessage) (bool, error) {
		searching.Add(1)
		defer searching.Add(-1)
		<-ctx.Done()
		return false, ctx.Err()
	}}
	runBusy(t, o, func(t *testing.T, ctx context.Context, b busy) {
		b.everyone(refuse(3, "unknown *payload.AddressedCall message", time.Millisecond))
		ctx, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		for message := range messages {
			for range callers {
				m := testMessage(t, fmt.Sprint(message))
				done.Go(func() {
					_, err := b.Sign(WithClient(ctx, "a"), Request{Message: m, Wait: time.Minute})
					require.ErrorIs(t, err, context.Canceled)
				})
			}
		}
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, messages, b.rounds())
		require.EqualValues(t, messages, searching.Load())
		require.Zero(t, b.requestPrice(), "rounds that sleep make no request dearer")
		cancelled := time.Now()
		cancel()
		done.Wait()
		synctest.Wait()
		require.Zero(t, time.Since(cancelled))
		require.Zero(t, b.rounds())
		require.Zero(t, searching.Load(), "searches that go on")
		require.Zero(t, b.awake.Load(), "rounds that count as awake")
		require.Empty(t, b.admitted.clients)
		requests := b.fakeNetwork.requests
		time.Sleep(time.Minute)
		require.Equal(t, requests, b.fakeNetwork.requests, "no request is sent after the last caller left")
	})
}

// congested is a transport that takes a second for each request that it sends.
type congested struct {
	*fakeNetwork
	sent atomic.Int64
}

func (c *congested) Request(ctx context.Context, _ ids.ID, nodes []ids.NodeID, _ []byte, _ func(p2p.Answer)) []ids.NodeID {
	for n := range nodes {
		select {
		case <-ctx.Done():
			return nodes[:n]
		case <-time.After(time.Second):
			c.sent.Add(1)
		}
	}
	return nodes
}

// A round that is sending stops when its last caller leaves. Validators that did not get the request
// do not count as timed out. A later request starts its own round.
func TestSendingEndsWithTheLastCaller(t *testing.T) {
	n := &congested{fakeNetwork: newFakeNetwork(t, sameWeights(20, 1)...)}
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits()
		limits.AnswerTimeout = time.Minute
		a, err := New(Options{Transport: n, Sets: n, Limits: limits, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer a.Close()
		b := busy{n.fakeNetwork, a}
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer leaveSecond()
		one, two := b.request(t, first, "a", "m"), b.request(t, second, "b", "m")
		time.Sleep(2500 * time.Millisecond)
		leaveFirst()
		synctest.Wait()
		require.EqualValues(t, 2, n.sent.Load())
		start := time.Now()
		failed := requireFailure(t, <-two, CodeQuorumNotReached)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.EqualValues(t, 4, n.sent.Load(), "sent for a caller that waits, and no longer")
		require.EqualValues(t, 4, failed.Account.UnansweredWeight)
		require.EqualValues(t, 16, failed.Account.UnaskedWeight)
		require.ErrorIs(t, <-one, context.Canceled)
		synctest.Wait()
		require.Zero(t, b.rounds())
		third, leaveThird := context.WithCancel(t.Context())
		three := b.request(t, third, "a", "m")
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 5, n.sent.Load())
		require.Equal(t, 1, b.rounds())
		leaveThird()
		require.ErrorIs(t, <-three, context.Canceled)
		time.Sleep(time.Minute)
		require.EqualValues(t, 5, n.sent.Load())
		require.Empty(t, a.history.answers, "validators that count as failed")
	})
}
