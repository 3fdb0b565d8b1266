package aggregator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Validators without weight are neither needed nor counted; a set of only such validators signs
// nothing, whatever the quorum.
func TestAttackZeroWeights(t *testing.T) {
	for _, quorum := range []uint64{0, 1, 67, 100} {
		n := newFakeNetwork(t, 0, 0, 0)
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: quorum})
			failed, ok := errors.AsType[*Error](err)
			require.True(t, ok, "got %v, want a refusal", err)
			require.Equal(t, CodeQuorumImpossible, failed.Code)
			require.Nil(t, r)
			require.NoError(t, ctx.Err(), "it is said at once")
			require.Zero(t, n.requests, "requests to validators")
		})
	}
	n := newFakeNetwork(t, 0, 60, 40, 0)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		n.validators[1].do = mute
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 50})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.EqualValues(t, 40, failed.Account.SignedWeight)
		n.validators[1].do = honest(time.Millisecond)
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		require.Equal(t, 2, r.Signers)
	})
}

// A request that arrives while a round fails is served once validators sign.
func TestRequestDuringAFailingRound(t *testing.T) {
	timeout := DefaultLimits().AnswerTimeout
	for _, after := range []time.Duration{timeout/2 + 1, timeout - 1, timeout, timeout + 1} {
		for name, fault := range map[string]behave{"mute": mute, "invalid": answer(respond(nil))} {
			t.Run(fmt.Sprint(name, " ", after), func(t *testing.T) {
				n := newFakeNetwork(t, 60, 30, 10)
				n.validators[0].do = fault
				n.validators[1].do = mute // which keeps the round going
				run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
					message := testMessage(t, "m")
					failed := make(chan error, 1)
					go func() {
						_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 30})
						failed <- err
					}()
					time.Sleep(after)
					n.mu.Lock()
					n.validators[0].do, n.validators[1].do = honest(time.Millisecond), honest(time.Millisecond)
					n.mu.Unlock()
					r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 90})
					require.NoError(t, err)
					requireValid(t, n, r, 90)
					<-failed
				})
			})
		}
	}
}
