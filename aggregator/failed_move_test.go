package aggregator

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
	"quorate/validators"
)

// TestSetChangesDuringFailedRound: the round fails, but the set that is to sign has changed meanwhile. The new set signs.
// Validators whose signatures were verified are not asked again.
func TestSetChangesDuringFailedRound(t *testing.T) {
	away := func(n *fakeNetwork) {
		n.validators[0].offline, n.validators[1].offline = true, true
	}
	leave := func(n *fakeNetwork) { n.validators = n.validators[2:] }
	for name, test := range map[string]struct {
		prepare, change func(n *fakeNetwork)
		request         Request
	}{
		"refused": {
			prepare: func(n *fakeNetwork) {
				n.validators[0].do = refuse(-2, "unregistered handler", 20*time.Millisecond)
				n.validators[1].do = n.validators[0].do
			},
			change: leave,
		},
		"not reached: no answer": {
			prepare: func(n *fakeNetwork) { n.validators[0].do, n.validators[1].do = mute, mute },
			change:  leave,
		},
		"not reached: no connection": {prepare: away, change: leave},
		"not reached: a validator uses another node": {
			prepare: away,
			change: func(n *fakeNetwork) {
				v := n.validators[0]
				v.nodeIDs, v.offline = []ids.NodeID{{99}}, false
			},
		},
		"the epoch moves": {prepare: away, change: leave, request: Request{VerifyingBlockchainID: &testChain}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			test.prepare(n)
			all := n.validators
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				n.soon(func() {
					n.height = 11
					test.change(n)
				})
				req := test.request
				req.Message = testMessage(t, "m")
				r, err := a.Sign(ctx, req)
				require.NoError(t, err)
				require.EqualValues(t, 11, r.PChainHeight)
				requireValid(t, n, r, 67)
				for _, v := range all[2:] {
					require.Equal(t, 1, v.requests, "its signature was verified already")
				}
			})
		})
	}
	t.Run("impossible", func(t *testing.T) {
		n := newFakeNetwork(t, 25, 25)
		n.keyless = 200
		resolved := 0
		n.sets = func(uint64) (*validators.Set, error) {
			if resolved++; resolved == 2 {
				n.keyless, n.height = 0, 11
			}
			return n.set(), nil
		}
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
		})
	})
}

// TestFailedRoundIsRepeatedOnlyForAnotherSet: without another set, a failure takes as long as the round. If the set
// changes in every round, the request fails after two of them.
func TestFailedRoundIsRepeatedOnlyForAnotherSet(t *testing.T) {
	const refusal = 20 * time.Millisecond
	for name, test := range map[string]struct {
		change  func(n *fakeNetwork, resolved int) error // with each resolution
		timeout time.Duration
		code    Code
		elapsed time.Duration
		rounds  int
		height  uint64
	}{
		"nothing changes": {code: CodeRefused, elapsed: refusal, rounds: 1, height: 10},
		"only the height changes": {
			change: func(n *fakeNetwork, resolved int) error { n.height = 10 + uint64(resolved); return nil },
			code:   CodeRefused, elapsed: refusal, rounds: 1, height: 11,
		},
		"no node answers": {
			change: func(_ *fakeNetwork, resolved int) error {
				if resolved > 1 {
					return node.ErrUnavailable
				}
				return nil
			},
			code: CodeRefused, elapsed: refusal, rounds: 1, height: 10,
		},
		"the request has ended": {
			change:  func(n *fakeNetwork, _ int) error { n.validators[2].weight++; return nil },
			timeout: refusal / 2,
			code:    CodeQuorumNotReached, elapsed: refusal / 2, rounds: 1, height: 10,
		},
		"the set changes in every round": {
			change: func(n *fakeNetwork, _ int) error { n.validators[2].weight++; return nil },
			code:   CodeRefused, elapsed: 2 * refusal, rounds: 2, height: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			n.validators[0].do = refuse(-2, "unregistered handler", refusal)
			n.validators[1].do = n.validators[0].do
			resolved := 0
			n.sets = func(uint64) (*validators.Set, error) {
				resolved++
				if test.change != nil {
					if err := test.change(n, resolved); err != nil {
						return nil, err
					}
				}
				return n.set(), nil
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				ctx, cancel := context.WithTimeout(ctx, cmp.Or(test.timeout, time.Minute))
				defer cancel()
				start := time.Now()
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				failed := requireFailure(t, err, test.code)
				require.Equal(t, test.elapsed, time.Since(start))
				require.Equal(t, test.rounds, n.validators[0].requests)
				require.Equal(t, test.height, failed.Account.PChainHeight)
			})
		})
	}
}
