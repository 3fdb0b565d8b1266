package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	platformnetwork "github.com/ava-labs/avalanchego/vms/platformvm/network"

	"quorate/p2p"
)

// refusals of a message that validators have not seen, as real nodes put them.
var unseenRefusals = []common.AppError{
	{Code: 1, Message: "unknown payload type: *payload.AddressedCall"},                                             // coreth
	{Code: 1, Message: "failed to parse addressed call message: couldn't unmarshal interface: unknown type ID 33"}, // subnet-evm
	{Code: 2, Message: "source address should be empty for offchain addressed messages"},                           // subnet-evm
	{Code: 2, Message: "failed to get block 2Z36RnQuk1hvsnFeGWzfZUfXNr7w1SjzmDQ78YxfTVNAkDq3nZ: not found"},        // both, of a block
	{Code: 3, Message: "unknown *payload.AddressedCall message"},                                                   // SAE
	{Code: 4, Message: "block not marked as accepted: not found"},                                                  // SAE
}

func unseenNetwork(t testing.TB, weights ...uint64) *fakeNetwork {
	n := newFakeNetwork(t, weights...)
	n.everyone(refuse(3, "unknown *payload.AddressedCall message", 5*time.Millisecond))
	return n
}

// soon changes the network while a round asks its validators.
func (n *fakeNetwork) soon(change func()) {
	time.AfterFunc(5*time.Millisecond, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		change()
	})
}

func (n *fakeNetwork) everyone(do behave) { n.let(n.validators, do) }

// let changes what some validators do.
func (n *fakeNetwork) let(some []*fakeValidator, do behave) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range some {
		v.do = do
	}
}

// A validator that has not seen a message does not refuse it for good: its block may be accepted a
// moment later.
func TestUnseenMessagesAreRecognized(t *testing.T) {
	for _, refusal := range unseenRefusals {
		require.True(t, unseen(testChain, &refusal), refusal.Message)
		require.False(t, definite(testChain, &refusal), refusal.Message)
	}
	for _, refusal := range []common.AppError{
		{Code: 1, Message: "failed to parse payload: bad"},
		{Code: 2, Message: "parsing payload: bad"},
		{Code: 1, Message: "loading message: disk"},
		{Code: 2, Message: "current uptime 5 is less than queried uptime 9 for validationID x"},
		{Code: -1, Message: "timed out"},
		{Code: -4, Message: "throttled"},
	} {
		require.False(t, unseen(testChain, &refusal), refusal.Message)
	}
	require.True(t, unseen(constants.PlatformChainID, &common.AppError{Code: 11, Message: "validation does not exist"}))
	require.False(t, unseen(constants.PlatformChainID, &common.AppError{Code: 5, Message: "failed to parse justification"}))
}

// TestRefusedRemovalFailsSoon: validators still have a validator whose removal they are to sign. A request that does not
// know of the removal for certain ends soon, and the next one asks them again.
func TestRefusedRemovalFailsSoon(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.everyone(refuse(platformnetwork.ErrValidationExists, "validation exists", 5*time.Millisecond))
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		req := Request{Message: testMessageFrom(t, testNetworkID, constants.PlatformChainID, "m"), Wait: time.Second}
		for range 2 {
			start, asked := time.Now(), n.requests
			_, err := a.Sign(ctx, req)
			requireFailure(t, err, CodeNotSeen)
			require.InDelta(t, 2.5, time.Since(start).Seconds(), 0.5)
			require.GreaterOrEqual(t, n.requests, asked+4)
		}
		n.everyone(honest(5 * time.Millisecond))
		_, err := a.Sign(ctx, req)
		require.NoError(t, err)
	})
}

// A message that was never sent fails after 2 to 3 s, with few requests to validators. A second
// request within two seconds fails at once.
func TestUnseenMessageFailsSoon(t *testing.T) {
	n := unseenNetwork(t, sameWeights(200, 1)...)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: message})
		failed := requireFailure(t, err, CodeNotSeen)
		require.InDelta(t, 2.5, time.Since(start).Seconds(), 0.5)
		require.Contains(t, failed.Message, "unknown *payload.AddressedCall message")
		require.Equal(t, unseenMemory, failed.RetryAfter)
		require.Less(t, n.requests, 200+10*probeSize)

		before, asked := time.Now(), n.requests
		time.Sleep(time.Second)
		_, err = a.Sign(ctx, Request{Message: message})
		failed = requireFailure(t, err, CodeNotSeen)
		require.Equal(t, time.Second, time.Since(before), "the failure is remembered")
		require.Equal(t, unseenMemory-time.Second, failed.RetryAfter)
		require.Equal(t, asked, n.requests)

		time.Sleep(unseenMemory)
		n.everyone(honest(time.Millisecond))
		r, err := a.Sign(ctx, Request{Message: message})
		require.NoError(t, err, "only for a moment")
		requireValid(t, n, r, 67)
	})
}

// A client that waits gets the message soon after its block is accepted, at a fraction of
// the requests.
func TestUnseenMessageIsProbed(t *testing.T) {
	for _, accepted := range []time.Duration{300 * time.Millisecond, 2 * time.Second, 9 * time.Second} {
		t.Run(accepted.String(), func(t *testing.T) {
			n := unseenNetwork(t, sameWeights(200, 1)...)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				time.AfterFunc(accepted, func() { n.everyone(honest(5 * time.Millisecond)) })
				start := time.Now()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Wait: time.Minute})
				require.NoError(t, err)
				requireValid(t, n, r, 67)
				require.Less(t, time.Since(start), accepted*3/2+200*time.Millisecond)
				require.Less(t, n.requests, 2*200+15*probeSize)
			})
		})
	}
}

// The node knows that the message was sent: validators will accept its block soon.
func TestSentMessageIsAwaited(t *testing.T) {
	for _, test := range []struct {
		name  string
		found bool
		err   error
		sent  bool
		code  Code // "" if it is signed
	}{
		{"found on its chain", true, nil, false, ""},
		{"not found", false, nil, false, CodeNotSeen},
		{"the node fails", false, errors.New("no node"), false, CodeNotSeen},
		{"known to its caller", false, nil, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := unseenNetwork(t, 25, 25, 25, 25)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				message := testMessage(t, "m")
				searches := 0
				a.find = func(_ context.Context, m *warp.UnsignedMessage) (bool, error) {
					require.Equal(t, message.ID(), m.ID())
					searches++
					return test.found, test.err
				}
				time.AfterFunc(6*time.Second, func() { n.everyone(honest(5 * time.Millisecond)) })
				r, err := a.Sign(ctx, Request{Message: message, Sent: test.sent})
				if test.code != "" {
					requireFailure(t, err, test.code)
					require.Equal(t, 1, searches)
					return
				}
				require.NoError(t, err)
				requireValid(t, n, r, 67)
			})
		})
	}
	t.Run("and not accepted in time", func(t *testing.T) {
		n := unseenNetwork(t, 25, 25, 25, 25)
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Sent: true})
			requireFailure(t, err, CodeRefused)
		})
	})
}

// While a request waits for a message that validators have not seen, they may restart, lose their connections or hang.
func TestUnseenMessageOutlastsFailures(t *testing.T) {
	lose := func(d time.Duration, lost ...int) func(n *fakeNetwork) {
		return func(n *fakeNetwork) {
			n.mu.Lock()
			for _, i := range lost {
				n.validators[i].offline = true
			}
			n.mu.Unlock()
			time.AfterFunc(d, func() {
				for _, i := range lost {
					n.connect(i)
				}
			})
		}
	}
	for _, test := range []struct {
		name     string
		weights  []uint64
		quorum   uint64
		fail     func(n *fakeNetwork) // from 10 s on
		accepted time.Duration
		signed   time.Duration // at the latest
	}{
		{"a connection is lost", []uint64{1, 1, 1}, 67, lose(2*time.Second, 0), 40 * time.Second, 46 * time.Second},
		{"a validator restarts", []uint64{1, 1, 1}, 67, lose(20*time.Second, 0), 40 * time.Second, 46 * time.Second},
		{"all validators restart", []uint64{1, 1, 1}, 67, lose(20*time.Second, 0, 1, 2), 40 * time.Second, 46 * time.Second},
		{"the only validator restarts", []uint64{1}, 67, lose(20*time.Second, 0), 40 * time.Second, 46 * time.Second},
		{"a heavy validator restarts", []uint64{60, 40}, 50, lose(20*time.Second, 0), 40 * time.Second, 46 * time.Second},
		{"a connection is lost when the others sign", []uint64{1, 1, 1}, 67, lose(3*time.Second, 0), 10 * time.Second, 18 * time.Second},
		{"requests fail although nodes are connected", []uint64{1, 1, 1}, 67, func(n *fakeNetwork) {
			n.everyone(func(*fakeValidator, *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
				return nil, p2p.ErrDisconnected, time.Second, true
			})
			time.AfterFunc(10*time.Second, func() { n.announce(n.validators[0].nodeIDs[0], n.validators[1].nodeIDs[0], n.validators[2].nodeIDs[0]) })
		}, 19 * time.Second, 26 * time.Second},
		{"a validator hangs", []uint64{1, 1, 1}, 67, func(n *fakeNetwork) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.validators[0].do = mute
		}, 40 * time.Second, 46 * time.Second},
		{"all validators hang", []uint64{1, 1, 1}, 67, func(n *fakeNetwork) { n.everyone(mute) }, 40 * time.Second, 46 * time.Second},
		{"many validators hang", sameWeights(100, 1), 67, func(n *fakeNetwork) {
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, v := range n.validators[:50] {
				v.do = mute
			}
		}, 40 * time.Second, 46 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, req := range map[string]Request{"waitSeconds": {Wait: time.Minute}, "sent": {Sent: true}} {
				t.Run(name, func(t *testing.T) {
					n := unseenNetwork(t, test.weights...)
					synctest.Test(t, func(t *testing.T) {
						a := newTestAggregator(t, n)
						defer a.Close()
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
						defer cancel()
						req := req
						req.Message, req.QuorumPercentage = testMessage(t, "m"), test.quorum
						start := time.Now()
						time.AfterFunc(10*time.Second, func() { test.fail(n) })
						time.AfterFunc(test.accepted, func() { n.everyone(honest(5 * time.Millisecond)) })
						r, err := a.Sign(ctx, req)
						require.NoError(t, err)
						requireValid(t, n, r, test.quorum)
						require.Less(t, time.Since(start), test.signed)
						require.Less(t, n.requests, 4*len(n.validators)+30*probeSize)
					})
				})
			}
		})
	}
	for _, test := range []struct {
		name   string
		fail   func(v *fakeValidator)
		wait   time.Duration
		reason Reason
		ends   time.Duration
	}{
		{"a connection", func(v *fakeValidator) { v.offline = true }, 0, ReasonNotConnected, 3 * time.Second},
		{"a connection, with waitSeconds", func(v *fakeValidator) { v.offline = true }, 20 * time.Second, ReasonNotConnected, 20 * time.Second},
		{"an answer", func(v *fakeValidator) { v.do = mute }, 0, ReasonNoAnswer, 5 * time.Second},
		{"an answer, with waitSeconds", func(v *fakeValidator) { v.do = mute }, 20 * time.Second, ReasonNoAnswer, 22 * time.Second},
	} {
		t.Run("but waits no longer for "+test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 40, 60)
			n.validators[0].do = refuse(-4, "throttled", 5*time.Millisecond)
			test.fail(n.validators[1])
			synctest.Test(t, func(t *testing.T) {
				a := newTestAggregator(t, n)
				defer a.Close()
				start := time.Now()
				_, err := a.Sign(t.Context(), Request{Message: testMessage(t, "m"), Wait: test.wait})
				failed := requireFailure(t, err, CodeQuorumNotReached)
				require.InDelta(t, test.ends.Seconds(), time.Since(start).Seconds(), 0.5)
				require.Equal(t, []Reason{test.reason, ReasonThrottled}, reasonsOf(failed))
			})
		})
	}
}

// A validator that connects again and again does not prolong a request that waits for no unseen message: others have signed.
func TestLostConnectionsOfSeenMessage(t *testing.T) {
	n := newFakeNetwork(t, 50, 10, 40)
	n.validators[1].do = func(*fakeValidator, *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return nil, p2p.ErrDisconnected, time.Millisecond, true
	}
	n.validators[2].offline = true
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		for i := range 10 {
			time.AfterFunc(time.Duration(i)*2*time.Second, func() { n.announce(n.validators[1].nodeIDs...) })
		}
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Wait: 30 * time.Second})
		requireFailure(t, err, CodeQuorumNotReached)
		require.Less(t, time.Since(start), 4*time.Second)
		time.Sleep(20 * time.Second)
	})
}

// Several nodes have the same key. One that lags does not hide another one that has seen the message.
func TestLaggingNodeDoesNotHideAnother(t *testing.T) {
	nodes := []ids.NodeID{{7, 1}, {7, 2}, {7, 3}}
	const seen = 5 * time.Second
	lag := refuse(3, "unknown *payload.AddressedCall message", 5*time.Millisecond)
	for _, test := range []struct {
		name   string
		others uint64 // weight of a validator that signs
		nodes  []behave
		down   []ids.NodeID  // nodes without a connection
		signed time.Duration // at the latest
	}{
		{"while the round sleeps", 0, []behave{lag, honest(time.Millisecond)}, nil, time.Second},
		{"while it is awake", 50, []behave{lag, honest(time.Millisecond)}, nil, time.Second},
		{"after two that lag", 50, []behave{lag, lag, honest(time.Millisecond)}, nil, time.Second},
		{"after one without a connection", 50, []behave{lag, nil, honest(time.Millisecond)}, nodes[1:2], time.Second},
		{"one node has no connection", 0, []behave{nil, nil}, nodes[1:2], seen + 3*time.Second},
		{"two nodes have no connection", 50, []behave{nil, nil, nil}, nodes[1:], seen + 4*time.Second},
		{"one node refuses for good", 50, []behave{refuse(-2, "no", 0), nil}, nil, seen + 4*time.Second},
		{"one node does not answer", 50, []behave{nil, mute}, nil, seen + 10*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 60)
			if test.others > 0 {
				n = newFakeNetwork(t, 60, test.others)
			}
			v := n.validators[0]
			v.nodeIDs = nodes[:len(test.nodes)]
			n.down = test.down
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
					do := test.nodes[slices.Index(v.nodeIDs, nodeID)]
					if do == nil {
						do = lag
						if time.Since(start) >= seen {
							do = honest(time.Millisecond)
						}
					}
					if b, err, after, ok := do(v, m); ok {
						time.AfterFunc(after, func() { deliver(p2p.Answer{NodeID: nodeID, Bytes: b, Err: err, Elapsed: after}) })
					}
				}
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Wait: time.Minute})
				require.NoError(t, err)
				requireValid(t, n, r, 67)
				require.Less(t, time.Since(start), test.signed)
			})
		})
	}
}

// Neither a round that sleeps nor one whose validators do not answer keeps signatures of other rounds from the cache.
func TestWaitingRoundsDoNotStopVerification(t *testing.T) {
	for name, test := range map[string]struct {
		do     behave
		within time.Duration
	}{
		"asleep":       {refuse(3, "unknown *payload.AddressedCall message", time.Millisecond), 2 * idleTime},
		"not answered": {mute, idleTimeout + 2*idleTime},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			n.everyone(test.do)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				ctx, cancel := context.WithCancel(ctx)
				var waiting sync.WaitGroup
				waiting.Go(func() {
					_, err := a.Sign(ctx, Request{Message: testMessage(t, "never sent"), Wait: time.Minute})
					require.ErrorIs(t, err, context.Canceled)
				})
				time.Sleep(time.Second)
				n.everyone(honest(time.Millisecond))
				message := testMessage(t, "m")
				_, err := a.Sign(ctx, Request{Message: message})
				require.NoError(t, err)
				n.everyone(test.do)
				time.Sleep(test.within)
				synctest.Wait()
				signatures := 0
				for _, v := range n.set().Validators {
					if _, ok := a.verified.get(message.ID(), v); ok {
						signatures++
					}
				}
				require.GreaterOrEqual(t, signatures, 3)
				cancel()
				waiting.Wait()
			})
		})
	}
}

func reasonsOf(failed *Error) (reasons []Reason) {
	for _, s := range failed.Account.Reasons {
		reasons = append(reasons, s.Reason)
	}
	return reasons
}

// One validator of four has seen the message: the others will follow.
func TestFirstSignatureWakesAll(t *testing.T) {
	n := unseenNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		time.AfterFunc(2*time.Second, func() { n.let(n.validators[3:], honest(time.Millisecond)) })
		time.AfterFunc(8*time.Second, func() { n.everyone(honest(time.Millisecond)) })
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
	})
	t.Run("but no invalid one", func(t *testing.T) {
		n := unseenNetwork(t, sameWeights(100, 1)...)
		n.validators[0].do, n.validators[1].do = forge, forge
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			start := time.Now()
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			requireFailure(t, err, CodeNotSeen)
			require.Less(t, time.Since(start), 3*time.Second)
			require.Less(t, n.requests, 100+10*probeSize)
		})
	})
}

// A validator that signs what was never sent wakes the round once. It does not make it ask all others all the time, nor a
// request that does not wait take until its deadline.
func TestSignatureOfUnsentMessage(t *testing.T) {
	weights := sameWeights(200, 1)
	weights[0] = 2 // it is asked first: the round may end without the last two
	for name, test := range map[string]struct{ wait, least, most time.Duration }{
		"no wait": {0, 2 * time.Second, 5 * time.Second},
		"wait":    {time.Minute, 14 * time.Second, 16 * time.Second}, // until the context of run ends
	} {
		t.Run(name, func(t *testing.T) {
			n := unseenNetwork(t, weights...)
			n.validators[0].do = honest(time.Millisecond)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Wait: test.wait})
				failed := requireFailure(t, err, CodeNotSeen)
				require.EqualValues(t, 2, failed.Account.SignedWeight)
				require.Contains(t, failed.Message, "few validators (1.00% of the weight) have seen")
				require.GreaterOrEqual(t, time.Since(start), test.least)
				require.LessOrEqual(t, time.Since(start), test.most)
				require.Less(t, n.requests, 4*200+15*probeSize)
			})
		})
	}
}

// A failure that is remembered does not keep a request from a round that collects signatures. Signatures of few validators
// do not show that there is such a round.
func TestSeenMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		few, others behave
		signed      bool
	}{
		"all sign":                    {honest(time.Millisecond), honest(1500 * time.Millisecond), true},
		"one signs what was not sent": {honest(time.Millisecond), nil, false},
		"one forges":                  {forge, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := unseenNetwork(t, append(sameWeights(8, 11), 4, 4, 4)...)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				req := Request{Message: testMessage(t, "m")}
				_, err := a.Sign(ctx, req)
				requireFailure(t, err, CodeNotSeen)
				n.let(n.validators[10:], test.few)
				if test.others != nil {
					n.let(n.validators[1:], test.others)
					n.let(n.validators[:1], test.few)
				}
				ended := make(chan error, 1)
				waits := req
				waits.Wait = time.Minute
				go func() {
					_, err := a.Sign(ctx, waits)
					ended <- err
				}()
				time.Sleep(time.Second)
				start := time.Now()
				_, err = a.Sign(ctx, req)
				if test.signed {
					require.NoError(t, err)
					require.NoError(t, <-ended)
					return
				}
				requireFailure(t, err, CodeNotSeen)
				require.Less(t, time.Since(start), 100*time.Millisecond)
				require.Error(t, <-ended)
			})
		})
	}
}

// Once many validators have signed, the round keeps asking all others.
func TestLateValidatorCompletesTheQuorum(t *testing.T) {
	n := unseenNetwork(t, sameWeights(1000, 1)...)
	n.let(n.validators[:669], honest(time.Millisecond))
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		time.AfterFunc(10*time.Second, func() { n.let(n.validators[999:], honest(time.Millisecond)) })
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		require.Less(t, time.Since(start), 15*time.Second)
	})
}

// A round that waits for a sent message outlasts validators that are away, also after the first has signed.
func TestFirstSignatureDoesNotEndTheWait(t *testing.T) {
	for name, req := range map[string]Request{"sent": {Sent: true}, "waitSeconds": {Wait: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			n := unseenNetwork(t, sameWeights(100, 1)...)
			n.let(n.validators[65:], mute)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				time.AfterFunc(time.Second, func() { n.let(n.validators[:20], honest(time.Millisecond)) })
				time.AfterFunc(9*time.Second, func() { n.everyone(honest(time.Millisecond)) })
				req.Message = testMessage(t, "m")
				start := time.Now()
				_, err := a.Sign(ctx, req)
				require.NoError(t, err, "after %s", time.Since(start))
			})
		})
	}
}

// A message that spreads slowly costs each validator that does not have it few requests.
func TestMessageSpreadsSlowly(t *testing.T) {
	n := unseenNetwork(t, sameWeights(200, 1)...)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		warm := testMessage(t, "earlier")
		n.everyone(honest(time.Millisecond))
		_, err := a.Sign(ctx, Request{Message: warm}) // so that validators are trusted
		require.NoError(t, err)
		settle()
		n.everyone(refuse(3, "unknown *payload.AddressedCall message", 5*time.Millisecond))
		n.requests = 0
		for i := range n.validators {
			time.AfterFunc(time.Duration(i)*20*time.Millisecond, func() { n.let(n.validators[i:i+1], honest(5*time.Millisecond)) })
		}
		_, err = a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		require.Less(t, n.requests, 10*200)
	})
}

// Requests of all kinds share the round of an unseen message, each with its own end.
func TestWaitersOfAnUnseenMessage(t *testing.T) {
	n := unseenNetwork(t, sameWeights(50, 1)...)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		var waiters sync.WaitGroup
		waiters.Go(func() {
			_, err := a.Sign(ctx, Request{Message: message, Wait: time.Minute})
			requireFailure(t, err, CodeNotSeen)
		})
		for i := range 3 {
			waiters.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Second)
				start := time.Now()
				_, err := a.Sign(ctx, Request{Message: message})
				requireFailure(t, err, CodeNotSeen)
				require.InDelta(t, 2.5, time.Since(start).Seconds(), 0.5, fmt.Sprint(i))
			})
		}
		start := time.Now()
		waiters.Wait()
		require.Equal(t, 15*time.Second, time.Since(start))
	})
}

// Probes reach validators of every weight.
func TestProbesRotate(t *testing.T) {
	r := roundOf(sameWeights(100, 10), quick)
	c := &waiter{need: 670, want: 670, wait: time.Hour}
	r.join(c, 0)
	for i := range r.members {
		r.members[i].state = waiting
		r.failed(r.nodeID(i), refused, &unseenRefusals[0], 0)
	}
	asked := make(map[int]int)
	var now time.Duration
	for probes := 0; probes < 40; {
		a := r.next(now)
		switch a.kind {
		case actSearch:
			r.searchDone(false)
		case actAsk:
			probes++
			require.Len(t, a.members, probeSize)
			for _, i := range a.members {
				asked[i]++
				r.failed(r.nodeID(i), refused, &unseenRefusals[0], now)
			}
		case actWait:
			require.Greater(t, a.until, now)
			require.LessOrEqual(t, a.until-now, r.limits.ProbeMax)
			now = a.until
		default:
			t.Fatalf("got action %d", a.kind)
		}
	}
	require.Greater(t, len(asked), 90)
}
