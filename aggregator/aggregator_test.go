package aggregator

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	blst "github.com/supranational/blst/bindings/go"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/node"
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

func TestSignsWithQuorum(t *testing.T) {
	n := newFakeNetwork(t, 10, 20, 30, 40)
	for _, v := range n.validators[:2] {
		v.do = honest(15 * time.Millisecond)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, 2, r.Signers, "the two heaviest carry 70 of 100")
	})
}

// The outcome of one faulty third, for every fault.
func TestOneFaultyValidatorDoesNotStopTheQuorum(t *testing.T) {
	infinity := make([]byte, 96)
	infinity[0] = 0xc0
	valid := func(n *fakeNetwork) []byte {
		return sign(n.validators[1], []byte("x"))
	}
	for name, fault := range map[string]func(n *fakeNetwork) behave{
		"silent":                  func(*fakeNetwork) behave { return mute },
		"forger":                  func(*fakeNetwork) behave { return forge },
		"empty answer":            func(*fakeNetwork) behave { return answer(nil) },
		"no signature":            func(*fakeNetwork) behave { return answer(respond(nil)) },
		"1 byte":                  func(*fakeNetwork) behave { return answer(respond([]byte{1})) },
		"95 bytes":                func(n *fakeNetwork) behave { return answer(respond(valid(n)[:95])) },
		"97 bytes":                func(n *fakeNetwork) behave { return answer(respond(append(valid(n), 0))) },
		"infinity":                func(*fakeNetwork) behave { return answer(respond(infinity)) },
		"off the curve":           func(*fakeNetwork) behave { return answer(respond(bytes.Repeat([]byte{0x85}, 96))) },
		"off the subgroup":        func(*fakeNetwork) behave { return answer(respond(offSubgroup())) },
		"garbage protobuf":        func(*fakeNetwork) behave { return answer(bytes.Repeat([]byte{0xff}, 100)) },
		"2 MiB":                   func(*fakeNetwork) behave { return answer(make([]byte, 2<<20)) },
		"refuses for good":        func(*fakeNetwork) behave { return refuse(-2, "unregistered handler", 0) },
		"not accepted yet":        func(*fakeNetwork) behave { return refuse(3, "unknown message", 0) },
		"another's signature":     func(n *fakeNetwork) behave { return replay(n.validators[2]) },
		"answers at once":         func(*fakeNetwork) behave { return honest(0) },
		"uncompressed flag unset": func(n *fakeNetwork) behave { b := valid(n); b[0] &= 0x7f; return answer(respond(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t, 25, 25, 25, 25)
			n.validators[0].do = fault(n)
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

func replay(other *fakeValidator) behave {
	return func(_ *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return respond(sign(other, m.Bytes())), nil, 0, true
	}
}

// offSubgroup finds a point on the curve of G2 outside the subgroup.
func offSubgroup() []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	for {
		b := make([]byte, 96)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = 0x80 | b[0]&0x0f
		b[48] &= 0x0f
		if p := new(blst.P2Affine).Uncompress(b); p != nil && !p.SigValidate(true) {
			return b
		}
	}
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

func TestNotAcceptedYetThenAccepted(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		accepted := time.Now().Add(time.Second)
		for _, v := range n.validators {
			v.do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
				if time.Now().Before(accepted) {
					return refuse(4, "block not accepted", 5*time.Millisecond)(v, m)
				}
				return honest(5*time.Millisecond)(v, m)
			}
		}
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Less(t, time.Since(start), 2100*time.Millisecond)
	})
}

func TestNeverAcceptedIsPolledUntilTheDeadline(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	for _, v := range n.validators {
		v.do = refuse(3, "unknown message", 5*time.Millisecond)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeRefused)
		require.Contains(t, failed.Message, "unknown message")
		require.Equal(t, 4*time.Second, time.Since(start))
		require.Less(t, n.requests, 4*12, "polls must back off")
	})
}

func TestBufferIsBestEffort(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "all"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		require.Equal(t, uint64(100), r.Weight, "buffer within reach")

		n.validators[3].do = refuse(-2, "unregistered", 0)
		start := time.Now()
		r, err = a.Sign(ctx, Request{Message: testMessage(t, "refused"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, uint64(75), r.Weight)
		require.Less(t, time.Since(start), 100*time.Millisecond, "out of reach is known at once")

		n.validators[3].do = mute
		start = time.Now()
		r, err = a.Sign(ctx, Request{Message: testMessage(t, "silent"), QuorumPercentageBuffer: 20})
		require.NoError(t, err)
		require.Equal(t, uint64(75), r.Weight)
		require.Less(t, time.Since(start), time.Second, "patience for the buffer is bounded")
	})
}

func TestKeylessWeightMakesQuorumImpossible(t *testing.T) {
	n := newFakeNetwork(t, 30, 30)
	n.keyless = 40
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		requireFailure(t, err, CodeQuorumImpossible)
		require.Zero(t, n.requests)
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 60})
		require.NoError(t, err)
		requireValid(t, n, r, 60)
	})
}

func TestQuorumEdges(t *testing.T) {
	for _, test := range []struct {
		name    string
		weights []uint64
		quorum  uint64
		weight  uint64
	}{
		{"total 7 quorum 67 needs 5", []uint64{1, 1, 1, 1, 1, 1, 1}, 67, 5},
		{"quorum 100", []uint64{1, 2, 3}, 100, 6},
		{"quorum 1", []uint64{1, 1, 1}, 1, 1},
		{"default", []uint64{50, 50}, 0, 100},
		{"near 2^64", []uint64{math.MaxUint64 / 2, math.MaxUint64 / 2}, 67, math.MaxUint64 - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, test.weights...)
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: test.quorum})
				require.NoError(t, err)
				require.Equal(t, test.weight, r.Weight)
				requireValid(t, n, r, max(test.quorum, 1))
			})
		})
	}
}

func TestDuplicatesShareOneFanOut(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				r, err := a.Sign(ctx, Request{Message: message})
				if err != nil {
					t.Errorf("a shared round failed: %v", err)
					return
				}
				requireValid(t, n, r, 67)
			})
		}
		callers.Wait()
		for _, v := range n.validators {
			require.LessOrEqual(t, v.requests, 1)
		}
	})
}

func TestCallersWithDifferentQuorumShareARound(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.validators[3].do = honest(300 * time.Millisecond)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		var callers sync.WaitGroup
		start := time.Now()
		callers.Go(func() {
			r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 67})
			if err != nil || r.Weight != 75 || time.Since(start) > 100*time.Millisecond {
				t.Errorf("quorum 67: got %v, %v after %s", r, err, time.Since(start))
			}
		})
		callers.Go(func() {
			r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
			if err != nil || r.Weight != 100 {
				t.Errorf("quorum 100: got %v, %v", r, err)
			}
		})
		callers.Wait()
		for _, v := range n.validators {
			require.Equal(t, 1, v.requests)
		}
	})
}

func TestCancelledCallerDoesNotHurtOthers(t *testing.T) {
	n := newFakeNetwork(t, 50, 50)
	for _, v := range n.validators {
		v.do = honest(time.Second)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		first, cancel := context.WithCancel(ctx)
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := a.Sign(first, Request{Message: message})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled caller: got %v", err)
			}
		})
		callers.Go(func() {
			r, err := a.Sign(ctx, Request{Message: message})
			if err != nil {
				t.Errorf("remaining caller: %v", err)
				return
			}
			requireValid(t, n, r, 67)
		})
		time.Sleep(500 * time.Millisecond)
		cancel()
		callers.Wait()
	})
}

func TestCloseWithRoundsInFlight(t *testing.T) {
	n := newFakeNetwork(t, 50, 50)
	for _, v := range n.validators {
		v.do = mute
	}
	synctest.Test(t, func(t *testing.T) {
		a := newTestAggregator(t, n)
		var callers sync.WaitGroup
		for i := range 10 {
			callers.Go(func() {
				_, err := a.Sign(t.Context(), Request{Message: testMessage(t, string(rune('a'+i)))})
				requireFailure(t, err, CodeShutdown)
			})
		}
		synctest.Wait()
		a.Close()
		callers.Wait()
		_, err := a.Sign(t.Context(), Request{Message: testMessage(t, "late")})
		requireFailure(t, err, CodeShutdown)
	})
}

// Two owners whose shares cancel out make a valid aggregate of invalid parts.
// The message may leave; neither part may be remembered as its owner's.
func TestColludingSharesNeverEnterTheSignatureCache(t *testing.T) {
	n := newFakeNetwork(t, 40, 40, 20)
	x := new(blst.P2Affine)
	*x = *blst.HashToG2([]byte("x"), []byte("collusion")).ToAffine()
	shift := func(sign func(p, x *blst.P2) *blst.P2) behave {
		return func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
			s, err := v.signer.Sign(m.Bytes())
			if err != nil {
				panic(err)
			}
			var p, q blst.P2
			p.FromAffine(s)
			q.FromAffine(x)
			return respond(sign(&p, &q).ToAffine().Compress()), nil, time.Millisecond, true
		}
	}
	n.validators[0].do = shift(func(p, x *blst.P2) *blst.P2 { return p.Add(x) })
	n.validators[1].do = shift(func(p, x *blst.P2) *blst.P2 { return p.Sub(x) })
	n.validators[2].do = mute
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		r, err := a.Sign(ctx, Request{Message: message})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		synctest.Wait()
		for _, v := range n.set().Validators {
			_, ok := a.proven.get(message.ID(), v)
			require.False(t, ok, "an unproven signature was kept")
		}
	})
}

// One owner of a key and its negation: both halves of the uncompressed key but
// the sign are equal, so their signatures must not be confused.
func TestNegatedKeysAreTwoValidators(t *testing.T) {
	n := newFakeNetwork(t, 30, 40, 30)
	other := *n.validators[0]
	other.nodeIDs = []ids.NodeID{{9, 9}}
	flat := n.set().WarpSet
	id := ids.ID{1}
	v := flat.Validators[0]
	negated := *v
	p := new(blst.P1)
	p.FromAffine(v.PublicKey)
	zero := new(blst.P1)
	negated.PublicKey = zero.Sub(p).ToAffine()
	negated.PublicKeyBytes = bls.PublicKeyToUncompressedBytes(negated.PublicKey)
	require.Equal(t, v.PublicKeyBytes[:48], negated.PublicKeyBytes[:48])
	cache, err := newSignatures(1 << 20)
	require.NoError(t, err)
	cache.put(id, keyOf(v), [96]byte{})
	_, ok := cache.get(id, &negated)
	require.False(t, ok)
	_, ok = cache.get(id, v)
	require.True(t, ok)
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

		// A higher quorum reuses what is proven and asks only the one whose
		// signature was not needed before.
		synctest.Wait()
		r, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		require.LessOrEqual(t, n.requests-asked, 1)
	})
}

func TestSetThatChangesDuringTheRoundIsFollowed(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		time.AfterFunc(5*time.Millisecond, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.height = 11
			n.validators[0].weight = 1000
		})
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		require.Equal(t, uint64(11), r.PChainHeight)
		requireValid(t, n, r, 67)
	})
}

func TestNodesSharingAKeyStandInForEachOther(t *testing.T) {
	n := newFakeNetwork(t, 60, 40)
	v := n.validators[0]
	v.nodeIDs = []ids.NodeID{{7, 1}, {7, 2}}
	asked := 0
	v.do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		asked++
		if asked == 1 {
			return respond([]byte{1}), nil, time.Millisecond, true
		}
		return honest(time.Millisecond)(v, m)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, 2, asked)
	})
}

func TestResolverFailures(t *testing.T) {
	for _, test := range []struct {
		err  error
		code Code
	}{
		{validators.ErrUnknownSubnet, CodeUnknownSubnet},
		{validators.ErrHeightUnavailable, CodeHeightUnavailable},
		{node.ErrUnavailable, CodeNodeUnavailable},
		{node.ErrMalformed, CodeNodeFaulty},
		{&node.RPCError{Method: "m", Code: -32000, Message: "secret"}, CodeNodeFaulty},
	} {
		n := newFakeNetwork(t, 1)
		n.sets = func(uint64) (*validators.Set, error) { return nil, test.err }
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), PChainHeight: 99})
			failed := requireFailure(t, err, test.code)
			require.NotContains(t, failed.Message, "secret")
		})
	}
}

// Whatever a random mix of validators does, every message that leaves verifies,
// and every account adds up.
func TestRandomFaultsNeverYieldAnInvalidMessage(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := newFakeNetwork(t, randomWeights(rng, 5+rng.IntN(40))...)
		n.keyless = rng.Uint64N(500)
		for i, v := range n.validators {
			delay := time.Duration(rng.IntN(400)) * time.Millisecond
			switch rng.IntN(8) {
			case 0:
				v.do = mute
			case 1:
				v.do = forge
			case 2:
				v.do = refuse(int32(rng.IntN(20)-4), "no", delay)
			case 3:
				v.do = answer(respond(make([]byte, rng.IntN(200))))
			case 4:
				v.do = replay(n.validators[(i+1)%len(n.validators)])
			default:
				v.do = honest(delay)
			}
		}
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			for i := range 4 {
				quorum := 1 + rng.Uint64N(100)
				r, err := a.Sign(ctx, Request{Message: testMessage(t, string(rune('a'+i%2))), QuorumPercentage: quorum, QuorumPercentageBuffer: rng.Uint64N(101 - quorum)})
				if err == nil {
					requireValid(t, n, r, quorum)
					continue
				}
				var failed *Error
				require.ErrorAs(t, err, &failed)
				if failed.Account != nil {
					requireAddsUp(t, *failed.Account)
				}
			}
		})
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
		require.InDelta(t, 20, len(reports), 3, "one report in 20 ms")
		require.Equal(t, uint64(75), reports[len(reports)-1].UnprovenWeight)
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
