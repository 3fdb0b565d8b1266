package aggregator

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/p2p"
	"quorate/validators"
)

// run gives test a bubble of simulated time, an aggregator over n, and checks
// that closing it leaves nothing behind (synctest fails if goroutines remain).
func run(t *testing.T, n *fakeNetwork, test func(t *testing.T, ctx context.Context, a *Aggregator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newTestAggregator(t, n)
		defer a.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		test(t, ctx, a)
	})
}

// One validator of four that is silent, refuses, or answers at once neither stops nor delays the quorum.
func TestOneUnwillingValidatorDoesNotStopTheQuorum(t *testing.T) {
	for name, fault := range map[string]behave{
		"silent":           mute,
		"refuses for good": refuse(-2, "unregistered handler", 0),
		"not accepted yet": refuse(3, "unknown *payload.AddressedCall message", 0),
		"answers at once":  honest(0),
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			n.validators[0].do = fault
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				for i := range 3 {
					r, err := a.Sign(ctx, Request{Message: testMessage(t, string(rune('a'+i)))})
					require.NoError(t, err)
					requireValid(t, n, r, 67)
				}
				require.Less(t, time.Since(start), time.Second)
			})
		})
	}
}

// Later rounds leave out validators that refuse what others sign, whether or not the refusal may change.
func TestRefusersAreAskedLess(t *testing.T) {
	for name, do := range map[string]behave{
		"for good": refuse(-2, "unregistered handler", time.Millisecond),
		"for now":  refuse(3, "unknown *payload.AddressedCall message", time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, sameWeights(100, 10)...)
			for i, v := range n.validators {
				v.do = honest(20 * time.Millisecond)
				if i < 20 {
					v.do = do
				}
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				asked := func() (requests int) {
					for _, v := range n.validators[:20] {
						requests += v.requests
					}
					return requests
				}
				for i := range 20 {
					before := asked()
					_, err := a.Sign(ctx, Request{Message: testMessage(t, strconv.Itoa(i))})
					require.NoError(t, err)
					if i == 0 {
						require.Equal(t, 20, asked(), "all are asked at first")
					}
					if i >= 15 {
						require.Equal(t, before, asked())
					}
				}
				for _, v := range n.validators[:20] {
					v.do = honest(20 * time.Millisecond)
				}
				for _, v := range n.validators[20:50] {
					v.do = do
				}
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "needs them")})
				require.NoError(t, err)
			})
		})
	}
}

// A message that is requested before its block is accepted says nothing about the validators.
func TestEarlyRequestsDoNotCountAsRefusals(t *testing.T) {
	n := newFakeNetwork(t, sameWeights(100, 10)...)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		accepted := time.Now().Add(time.Second)
		for i, v := range n.validators {
			after := 10 * time.Millisecond
			if i < 20 {
				after = 200 * time.Millisecond
			}
			v.do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
				if time.Now().Before(accepted) {
					return refuse(3, "unknown *payload.AddressedCall message", time.Millisecond)(v, m)
				}
				return honest(after)(v, m)
			}
		}
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "early")})
		require.NoError(t, err)
		settle()
		for one, answers := range a.history.answers {
			require.GreaterOrEqual(t, answers.success, priorSuccess, "%s", one.node)
		}
	})
}

func TestRefusedByBlockingWeightFailsAtOnce(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	for _, v := range n.validators[:2] {
		v.do = refuse(-3, "not a validator", 5*time.Millisecond)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeRefused)
		require.Equal(t, uint64(50), failed.Account.RefusedWeight)
		require.Equal(t, []Refusal{{Code: -3, Message: "not a validator", Weight: 50, Count: 2}}, failed.Account.Refusals)
		require.Contains(t, failed.Message, "not a validator")
		require.Less(t, time.Since(start), 100*time.Millisecond)
	})
}

func TestSilenceFailsAfterTheAnswerTimeout(t *testing.T) {
	n := newFakeNetwork(t, 20, 20, 20, 20, 20)
	n.validators[0].do = mute
	n.validators[1].offline = true
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(20), failed.Account.SilentWeight)
		require.Equal(t, uint64(20), failed.Account.DisconnectedWeight)
		require.Equal(t, uint64(60), failed.Account.SignedWeight)
		require.Equal(t, uint64(67), failed.Account.TargetWeight)
		require.Len(t, failed.Account.SilentNodes, 2)
		require.LessOrEqual(t, time.Since(start), 6*time.Second)

		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 55})
		require.NoError(t, err)
		requireValid(t, n, r, 55)
	})
}

func TestUnconnectedValidatorThatConnectsIsAsked(t *testing.T) {
	n := newFakeNetwork(t, 40, 60)
	n.validators[1].offline = true
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		time.AfterFunc(200*time.Millisecond, func() { n.connect(1) })
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.InDelta(t, 0.21, time.Since(start).Seconds(), 0.02)
	})
}

// A request may wait until its deadline for a message that validators have not seen.
func TestUnseenMessageIsPolledUntilTheDeadline(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	for _, v := range n.validators {
		v.do = refuse(3, "unknown *payload.AddressedCall message", 5*time.Millisecond)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Wait: time.Minute})
		failed := requireFailure(t, err, CodeNotSeen)
		require.Contains(t, failed.Message, "unknown *payload.AddressedCall message")
		require.Equal(t, 4*time.Second, time.Since(start))
		require.Less(t, n.requests, 4*12, "polls must back off")
	})
}

func TestCallersWithDifferentQuorumShareARound(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.validators[3].do = honest(300 * time.Millisecond)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		var waiters sync.WaitGroup
		start := time.Now()
		waiters.Go(func() {
			r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 67})
			if err != nil || r.Weight != 75 || time.Since(start) > 100*time.Millisecond {
				t.Errorf("quorum 67: got %v, %v after %s", r, err, time.Since(start))
			}
		})
		waiters.Go(func() {
			r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
			if err != nil || r.Weight != 100 {
				t.Errorf("quorum 100: got %v, %v", r, err)
			}
		})
		waiters.Wait()
		for _, v := range n.validators {
			require.Equal(t, 1, v.requests)
		}
	})
}

func TestRepeatIsServedFromMemory(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		_, err := a.Sign(ctx, Request{Message: message})
		require.NoError(t, err)
		asked := n.requests
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: message})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, asked, n.requests)
		require.Zero(t, time.Since(start))

		// A higher quorum reuses what is verified and asks only the one whose
		// signature was not needed before.
		settle()
		r, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		require.LessOrEqual(t, n.requests-asked, 1)
	})
}

// With a random mix of validators, every returned message verifies, every account adds up, and the
// history of a validator has only its own answers.
func TestRandomFaultsNeverYieldAnInvalidMessage(t *testing.T) {
	var odd []behave
	for _, kinds := range []map[string]behave{oddLengths(), oddPoints(), oddBytes()} {
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			odd = append(odd, kinds[name])
		}
	}
	signed, failures := 0, make(map[Code]int)
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := newFakeNetwork(t, randomWeights(rng, 5+rng.IntN(40))...)
		n.keyless = rng.Uint64N(500)
		// From nearly all honest to hardly any.
		faults := 1 + rng.IntN(12)
		for i, v := range slices.Backward(n.validators) { // so that two can agree
			misbehave(rng, n, i, rng.IntN(faults+6)-5, odd)
			if rng.IntN(6) == 0 { // a key run by several nodes
				v.nodeIDs = append(v.nodeIDs, ids.NodeID{byte(i), 2}, ids.NodeID{byte(i), 3})
				v.weight = 3 * (1 + v.weight/3)
			}
		}
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			for i := range 4 {
				message := testMessage(t, string(rune('a'+i%2)))
				quorum := 1 + rng.Uint64N(100)
				ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
				r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: quorum, QuorumPercentageBuffer: rng.Uint64N(101 - quorum)})
				cancel()
				if err == nil {
					requireValid(t, n, r, quorum)
					signed++
				} else {
					var failed *Error
					require.ErrorAs(t, err, &failed)
					require.NotEqual(t, CodeInternal, failed.Code, "%v", err)
					failures[failed.Code]++
					if failed.Account != nil {
						requireAddsUp(t, *failed.Account)
						require.Less(t, failed.Account.SignedWeight, failed.Account.TargetWeight, "seed %d: it should have been signed", seed)
					}
				}
				synctest.Wait()
				for _, v := range n.set().Validators {
					if b, kept := a.verified.get(message.ID(), v); kept {
						s, err := bls.SignatureFromBytes(b[:])
						require.NoError(t, err)
						require.True(t, bls.Verify(v.PublicKey, s, message.Bytes()), "seed %d: a signature is kept that is not its owner's", seed)
					}
				}
			}
		})
	}
	t.Logf("signed %d, failed %v", signed, failures)
	require.Greater(t, signed, 25, "too few rounds succeed to say anything")
	require.Greater(t, failures[CodeQuorumNotReached]+failures[CodeRefused], 20, "too few fail")
}

// misbehave gives validator i one of the ways to answer wrongly; below 0, none.
func misbehave(rng *rand.Rand, n *fakeNetwork, i, kind int, odd []behave) {
	v, other := n.validators[i], n.validators[(i+1)%len(n.validators)]
	delay := time.Duration(rng.IntN(400)) * time.Millisecond
	v.do = honest(delay)
	switch kind {
	case 0:
		v.do = mute
	case 1:
		v.do = forge
	case 2:
		v.do = refuse(int32(rng.IntN(20)-4), "no", delay)
	case 3:
		v.do = answer(respond(make([]byte, rng.IntN(200))))
	case 4:
		v.do = replay(other)
	case 5: // two that cancel out, if both are needed
		v.do, other.do = colludeUp(), colludeDown()
	case 6, 7:
		v.do = odd[rng.IntN(len(odd))]
	case 8: // an error, then a response, or the reverse, many times over
		errorFirst := rng.IntN(2) == 0
		code := int32(rng.IntN(8) - 4)
		v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
			good := p2p.Answer{NodeID: nodeID, Bytes: respond(sign(v, m.Bytes())), Elapsed: delay}
			bad := p2p.Answer{NodeID: nodeID, Err: &common.AppError{Code: code, Message: "no"}, Elapsed: delay}
			time.AfterFunc(delay, func() {
				for range 10 {
					if errorFirst {
						deliver(bad)
					}
					deliver(good)
					deliver(bad)
				}
			})
		}
	case 9: // nodes of one key differ
		v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
			b := respond(sign(v, m.Bytes()))
			if nodeID == v.nodeIDs[0] {
				b = respond(sign(v, []byte("another message")))
			}
			time.AfterFunc(delay, func() { deliver(p2p.Answer{NodeID: nodeID, Bytes: b, Elapsed: delay}) })
		}
	case 10:
		v.offline = true
	case 11: // honest at times
		v.do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
			return []behave{honest(delay), forge, mute, refuse(4, "not yet", delay)}[v.requests%4](v, m)
		}
	}
}

func TestProgressIsReported(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	for i, v := range n.validators {
		v.do = honest(time.Duration(i+1) * 100 * time.Millisecond)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		var reports []Account
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 100, Progress: func(account Account) {
			requireAddsUp(t, account)
			reports = append(reports, account)
		}})
		require.NoError(t, err)
		require.Len(t, reports, 4, "one report of each change")
		for i, report := range reports {
			require.Equal(t, uint64(25*i), report.UnprovenWeight)
		}
	})
}

// Waiters that share a round get the same reports with their own quorums, at most one in 20 ms, and one in a second while
// nothing changes.
func TestProgressIsSharedByWaiters(t *testing.T) {
	n := unseenNetwork(t, sameWeights(100, 1)...)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		quorums := []uint64{67, 67, 80, 100}
		reports := make([][]Account, len(quorums))
		var last time.Time
		var waiters sync.WaitGroup
		for i, quorum := range quorums {
			waiters.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: quorum, Wait: 10 * time.Second, Progress: func(account Account) {
					requireAddsUp(t, account)
					require.Equal(t, quorum, account.TargetWeight)
					if i == 0 {
						require.GreaterOrEqual(t, time.Since(last), ProgressInterval)
						last = time.Now()
					}
					reports[i] = append(reports[i], account)
				}})
				requireFailure(t, err, CodeNotSeen)
			})
		}
		waiters.Wait()
		for i := range quorums {
			require.InDelta(t, 10, len(reports[i]), 3)
		}
	})
}

func TestVerifyGivesVerdicts(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		v, err := a.Verify(ctx, VerifyRequest{Message: r.Message})
		require.NoError(t, err)
		require.True(t, v.Valid, v.Reason)
		require.Len(t, v.Signers, 3)
		require.Equal(t, uint64(75), v.Weight)

		v, err = a.Verify(ctx, VerifyRequest{Message: r.Message, QuorumPercentage: 80})
		require.NoError(t, err)
		require.False(t, v.Valid)
		require.Contains(t, v.Reason, "weight is insufficient")

		signature := *r.Message.Signature.(*warp.BitSetSignature)
		signature.Signers = []byte{0x0f}
		tampered, err := warp.NewMessage(&r.Message.UnsignedMessage, &signature)
		require.NoError(t, err)
		v, err = a.Verify(ctx, VerifyRequest{Message: tampered})
		require.NoError(t, err)
		require.False(t, v.Valid)
		require.Contains(t, v.Reason, "signature is invalid")
	})
}

func TestVerifyingBlockchainPicksItsEpochsSet(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.epoch = 7
	var heights []uint64
	n.sets = func(height uint64) (*validators.Set, error) {
		heights = append(heights, height)
		return n.set(), nil
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), VerifyingBlockchainID: &ids.ID{1}})
		require.NoError(t, err)
		require.Equal(t, []uint64{7, 7}, heights)
	})
}

// onceSets is a Sets whose upstream node answers only the first request.
type onceSets struct {
	*fakeNetwork
	resolved int
}

func (s *onceSets) wait(ctx context.Context) error {
	if s.resolved++; s.resolved == 1 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *onceSets) Set(ctx context.Context, subnetID ids.ID, height uint64) (*validators.Set, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.fakeNetwork.Set(ctx, subnetID, height)
}

func (s *onceSets) EpochSet(ctx context.Context, subnetID, blockchainID ids.ID) (*validators.Set, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.fakeNetwork.EpochSet(ctx, subnetID, blockchainID)
}

// A signed message does not wait for an upstream node that no longer answers whether the validator set has changed.
func TestSignedMessageDoesNotWaitForUpstreamNode(t *testing.T) {
	for name, verifying := range map[string]*ids.ID{"the proposed height": nil, "an epoch's height": {1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNetwork(t, 25, 25, 25, 25)
				s := &onceSets{fakeNetwork: n}
				a, err := New(Options{Transport: n, Sets: s, Log: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				defer a.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				start := time.Now()
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), VerifyingBlockchainID: verifying})
				require.NoError(t, err)
				require.Less(t, time.Since(start), time.Second)
				requireValid(t, n, r, 67)
				require.Equal(t, 2, s.resolved)
			})
		})
	}
}

// A round starts with mu held, after a check that the aggregator is open. Close must not return between the check and
// the end of the round.
func TestCloseWaitsForStartingRounds(t *testing.T) {
	n := newFakeNetwork(t, 1)
	a := newTestAggregator(t, n)
	a.mu.Lock()
	var closing sync.WaitGroup
	closing.Go(a.Close)
	for range 1000 {
		runtime.Gosched()
	}
	require.NoError(t, a.life.Err(), "the life of a round that is being started")
	a.mu.Unlock()
	closing.Wait()
	require.Error(t, a.life.Err())
}

// Equal sets of several heights share rounds and messages; each waiter gets the height that it
// requested.
func TestSharedMessagesNameTheCallersHeight(t *testing.T) {
	n := newFakeNetwork(t, 50, 50)
	n.sets = func(height uint64) (*validators.Set, error) {
		return validators.NewSet(n.subnetID, height, n.set().WarpSet), nil
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		for _, height := range []uint64{7, 8} {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), PChainHeight: height})
			require.NoError(t, err)
			require.Equal(t, height, r.PChainHeight)
			require.Equal(t, height, r.Account.PChainHeight)
		}
		require.Equal(t, 2, n.requests, "one round")
		n.validators[0].do = refuse(-2, "no", time.Second)
		var waiters sync.WaitGroup
		for _, height := range []uint64{7, 8} {
			waiters.Go(func() {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "refused"), PChainHeight: height})
				failed := requireFailure(t, err, CodeRefused)
				require.Equal(t, height, failed.Account.PChainHeight)
			})
		}
		waiters.Wait()
		require.Equal(t, 4, n.requests, "one more round")
	})
}

// A validator whose key has moved to another node is asked there, although a round with
// its former node is under way.
func TestRoundsAskTheNodesOfTheirSet(t *testing.T) {
	n := newFakeNetwork(t, 50, 50)
	now := n.validators[0].nodeIDs[0]
	n.sets = func(height uint64) (*validators.Set, error) {
		flat := n.set().WarpSet
		for i, v := range flat.Validators {
			if height == 7 && v.NodeIDs[0] == now {
				former := *v
				former.NodeIDs = []ids.NodeID{{200}}
				flat.Validators[i] = &former
			}
		}
		return validators.NewSet(n.subnetID, height, flat), nil
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		var waiters sync.WaitGroup
		waiters.Go(func() {
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), PChainHeight: 7})
			requireFailure(t, err, CodeQuorumNotReached)
		})
		time.Sleep(time.Millisecond)
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), PChainHeight: 8})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		waiters.Wait()
	})
}

// A waiter that missed the cache before a round ended, and joins afterwards, gets the message from the
// cache.
func TestRequestAfterARoundFindsItsMessage(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		req := Request{Message: testMessage(t, "m")}
		set := n.set()
		id := finishedID{message: req.Message.ID(), set: set.Fingerprint(), need: set.MinWeight(67), want: set.MinWeight(67)}
		first, err := a.runRound(ctx, req, set, id)
		require.NoError(t, err)
		settle()
		again, err := a.runRound(ctx, req, set, id)
		require.NoError(t, err)
		require.Same(t, first, again)
		for _, v := range n.validators {
			require.LessOrEqual(t, v.requests, 1)
		}
	})
}

// A buffer that is out of reach still collects all who sign within its time.
func TestPartOfTheBuffer(t *testing.T) {
	const all = 60 * time.Millisecond // until the ninth has signed
	for name, test := range map[string]struct {
		change func(n *fakeNetwork, v *fakeValidator)
		most   time.Duration
	}{
		"keyless": {func(n *fakeNetwork, _ *fakeValidator) {
			n.validators = n.validators[:9]
			n.keyless = 10
		}, all},
		"refuses": {func(_ *fakeNetwork, v *fakeValidator) { v.do = refuse(-2, "unregistered handler", time.Millisecond) }, all},
		"forges":  {func(_ *fakeNetwork, v *fakeValidator) { v.do = forge }, all},
		"offline": {func(_ *fakeNetwork, v *fakeValidator) { v.offline = true }, all},
		"silent":  {func(_ *fakeNetwork, v *fakeValidator) { v.do = mute }, all + 500*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, sameWeights(10, 10)...)
			for i, v := range n.validators {
				v.do = honest(time.Duration(10+i*5) * time.Millisecond)
			}
			test.change(n, n.validators[9])
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				for _, content := range []string{"first", "second"} {
					start := time.Now()
					r, err := a.Sign(ctx, Request{Message: testMessage(t, content), QuorumPercentage: 50, QuorumPercentageBuffer: 50})
					require.NoError(t, err)
					requireValid(t, n, r, 50)
					require.EqualValues(t, 90, r.Weight)
					require.LessOrEqual(t, time.Since(start), test.most)
				}
			})
		})
	}
}

// Of several nodes of a key, the one that answers is asked first once the others have not answered.
func TestNodeOfKeyThatAnswers(t *testing.T) {
	n := newFakeNetwork(t, 60, 20, 20)
	v := n.validators[0]
	v.nodeIDs = []ids.NodeID{{1, 0, 1}, {1, 0, 2}, {1, 0, 3}}
	v.takeOver = func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer)) {
		if nodeID == v.nodeIDs[2] {
			deliver(p2p.Answer{NodeID: nodeID, Bytes: respond(sign(v, m.Bytes())), Elapsed: time.Millisecond})
		}
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "first")})
		require.NoError(t, err)
		start := time.Now()
		_, err = a.Sign(ctx, Request{Message: testMessage(t, "second")})
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
	})
}

// The requests of one client that wait at a time are bounded.
func TestWaitingRequestsAreBounded(t *testing.T) {
	n := newFakeNetwork(t, 1)
	n.everyone(mute)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		ctx, leave := context.WithCancel(WithClient(ctx, "client"))
		var waiting sync.WaitGroup
		for range maxWaiters {
			waiting.Go(func() {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		requireFailure(t, err, CodeTooManyRounds)
		leave()
		waiting.Wait()
		require.Empty(t, a.admitted.waiters)
	})
}

// A message without its buffer is requested again once validators had time to return, and not before.
func TestMessageShortOfItsBufferIsNotKeptForLong(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.validators[3].do = refuse(-3, "not now", 0)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		req := Request{Message: testMessage(t, "m"), QuorumPercentage: 67, QuorumPercentageBuffer: 20}
		for range 2 {
			r, err := a.Sign(ctx, req)
			require.NoError(t, err)
			require.EqualValues(t, 75, r.Weight)
		}
		require.Equal(t, 1, n.validators[3].requests)
		n.validators[3].do = honest(0)
		time.Sleep(shortLife)
		r, err := a.Sign(ctx, req)
		require.NoError(t, err)
		require.EqualValues(t, 100, r.Weight)
	})
}

// A quorum that is out of reach ends the round early. Validators that still had time to answer count
// as unanswered, not as timed out.
func TestEarlyEndCountsUnanswered(t *testing.T) {
	n := newFakeNetwork(t, 10, 30, 60)
	n.validators[0].do = refuse(-2, "unregistered handler", 10*time.Millisecond)
	n.validators[1].do, n.validators[2].do = mute, mute
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 99})
		failed := requireFailure(t, err, CodeRefused)
		require.Less(t, time.Since(start), 100*time.Millisecond)
		require.Equal(t, uint64(90), failed.Account.UnansweredWeight)
		require.Zero(t, failed.Account.SilentWeight)
		require.Empty(t, failed.Account.SilentNodes)
	})
	n.validators[0].do = answer(respond(nil))
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 99})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(90), failed.Account.UnansweredWeight)
		require.Contains(t, failed.Message, "90.00% had not answered when the round ended")
	})
}
