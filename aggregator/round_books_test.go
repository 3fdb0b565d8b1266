package aggregator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	snow "github.com/ava-labs/avalanchego/snow/validators"

	"quorate/bls"
	"quorate/validators"
)

// books is what a round keeps up to date beside its members.
type books struct {
	Weights                      weights
	Verified, Presumed, Untested uint64
	PendingN, UntestedN          int
}

// recount is what the books must say, from a look at every member.
func recount(r *round) (b books, due time.Duration) {
	due = never
	b.Weights.lateAt, b.Weights.judgedIn = never, math.MaxInt
	for i := range r.members {
		m := &r.members[i]
		if m.refusesNow() {
			b.Weights.notYet += m.weight
			if unseen(r.source, m.refusal) {
				b.Weights.unseen += m.weight
			}
		}
		switch m.state {
		case idle:
			if m.online {
				b.Weights.candidates = true
				b.Weights.possible += m.weight
				if m.struck {
					b.Weights.struck += m.weight
				}
			} else {
				b.Weights.offline += m.weight
			}
		case waiting:
			b.Weights.possible += m.weight
			due = min(due, m.askedAt+r.limits.AnswerTimeout)
		case notYet:
			b.Weights.possible += m.weight
			if !r.sleep.on {
				due = min(due, m.retryAt)
			}
		case pending:
			b.Weights.possible += m.weight
			b.PendingN++
			if m.trusted {
				b.Presumed += m.weight
			} else {
				b.Untested += m.weight
				b.UntestedN++
			}
		case signed:
			b.Weights.possible += m.weight
			b.Verified += m.weight
		case refused:
			b.Weights.blocked += m.weight
		case invalid:
			b.Weights.judgedIn = min(b.Weights.judgedIn, m.judgedIn)
		case timedOut:
			b.Weights.timedOut += m.weight
			b.Weights.lateAt = min(b.Weights.lateAt, m.askedAt)
		}
	}
	return b, due
}

func requireBooks(t *testing.T, r *round, now time.Duration, after string) {
	t.Helper()
	want, due := recount(r)
	got := books{r.weigh(), r.verified, r.presumed, r.untested, r.pendingN, r.untestedN}
	require.Equal(t, want, got, "after %s at %s", after, now)
	require.LessOrEqual(t, r.dueAt, due, "after %s at %s: a member is out of time before the round looks", after, now)
	var total, reported uint64
	for i := range r.members {
		total += r.members[i].weight
	}
	a := r.account(1)
	reported = a.SignedWeight + a.UnprovenWeight + a.RefusedWeight + a.InvalidWeight + a.SilentWeight + a.UnansweredWeight + a.UnaskedWeight + a.DisconnectedWeight
	require.Equal(t, total, reported, "after %s: the account adds up", after)
}

// Whatever nodes do, the round's counts equal a full recount after every event.
func TestBooksAreKeptWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			var flat snow.WarpSet
			for i := range 1 + rng.IntN(12) {
				v := &snow.Warp{Weight: 1 + rng.Uint64N(100)}
				for n := range 1 + rng.IntN(3) {
					v.NodeIDs = append(v.NodeIDs, ids.NodeID{byte(i), byte(n), 1})
				}
				flat.Validators = append(flat.Validators, v)
				flat.TotalWeight += v.Weight
			}
			flat.TotalWeight += rng.Uint64N(20)
			limits := DefaultLimits()
			limits.VerifyBatch = 1 + rng.IntN(4)
			limits.AnswerTimeout = 200 * time.Millisecond
			limits.ConnectGrace = time.Duration(rng.IntN(300)) * time.Millisecond
			r := newRound(validators.NewSet(ids.Empty, 1, flat), testChain, limits,
				planner{Margin: rng.Float64(), Price: requestCost},
				func(ids.NodeID) bool { return rng.IntN(4) > 0 })
			for i := range r.members {
				r.members[i].expect = quick(i)
				r.members[i].struck = rng.IntN(4) == 0
				if rng.IntN(8) == 0 {
					r.known(i, &bls.Signature{})
				}
			}
			requireBooks(t, r, 0, "the start")
			var now time.Duration
			for range 300 {
				if len(r.waiters) < 2 && rng.IntN(3) == 0 {
					need := 1 + rng.Uint64N(r.set.KeyedWeight())
					r.join(&waiter{need: need, want: min(need+rng.Uint64N(20), r.set.TotalWeight)}, now)
				}
				event := act(r, rng, now)
				requireBooks(t, r, now, event)
				if rng.IntN(2) == 0 {
					now += time.Duration(rng.IntN(60)) * time.Millisecond
				}
				decide(t, r, rng, now)
			}
		})
	}
}

// act lets something happen to a round from outside.
func act(r *round, rng *rand.Rand, now time.Duration) string {
	i := rng.IntN(len(r.members))
	nodes := r.set.Validators[i].NodeIDs
	nodeID := nodes[rng.IntN(len(nodes))]
	switch rng.IntN(8) {
	case 0:
		r.connected(nodeID)
		return "a connection"
	case 1, 2:
		r.answered(nodeID, &bls.Signature{}, rng.IntN(2) == 0)
		return "an answer"
	case 3:
		r.failed(nodeID, refused, &common.AppError{Code: -2}, now)
		return "a refusal"
	case 4:
		r.failed(nodeID, refused, &common.AppError{Code: 3, Message: "unknown *payload.AddressedCall message"}, now)
		return "not yet"
	case 5:
		r.failed(nodeID, invalid, nil, now)
		return "garbage"
	case 6:
		r.failed(nodeID, idle, nil, now)
		return "a lost connection"
	default:
		r.avoid(map[int]struct{}{i: {}})
		return "a warning"
	}
}

// decide carries out what a round decides until it waits, as a runner does.
func decide(t *testing.T, r *round, rng *rand.Rand, now time.Duration) {
	t.Helper()
	for range 1000 {
		a := r.next(now)
		requireBooks(t, r, now, fmt.Sprintf("deciding on action %d", a.kind))
		switch a.kind {
		case actWait:
			if len(r.waiters) > 0 {
				_, due := recount(r)
				require.LessOrEqual(t, a.until, due, "it would sleep too long")
			}
			return
		case actAsk:
			for _, i := range a.members {
				require.Equal(t, waiting, r.members[i].state)
				if rng.IntN(4) == 0 {
					for again := true; again; {
						again = r.unreachable(i, now) && rng.IntN(2) == 0
					}
					requireBooks(t, r, now, "a node out of reach")
				}
			}
		case actVerify:
			require.NotEmpty(t, a.members)
			r.markVerified(a.members, some(rng, a.members))
			requireBooks(t, r, now, "a verification")
		case actFinish:
			members, weight := r.signers(a.target)
			require.GreaterOrEqual(t, weight, a.target, "signers of the message")
			var unverified []int
			for _, i := range members {
				if m := &r.members[i]; m.state == pending {
					require.True(t, m.trusted, "an untrusted signature in a message")
					unverified = append(unverified, i)
				}
			}
			if len(unverified) > 0 && rng.IntN(2) == 0 { // it does not verify
				bad := some(rng, unverified)
				if len(bad) > 0 && rng.IntN(2) == 0 {
					unverified = bad // the others are not verified
				}
				r.markVerified(unverified, bad)
				requireBooks(t, r, now, "a verification")
				if len(bad) > 0 {
					continue
				}
			}
			for _, i := range members {
				r.members[i].included = true
			}
			r.leave(a.waiter)
		case actFail:
			require.Less(t, r.verified, a.waiter.need, "it fails what could be served")
			require.Zero(t, r.pendingN, "it fails what may be served")
			r.leave(a.waiter)
		}
	}
	t.Fatalf("the round does not come to rest at %s", now)
}

// some is a part of members, in their order.
func some(rng *rand.Rand, members []int) (part []int) {
	for _, i := range members {
		if rng.IntN(3) == 0 {
			part = append(part, i)
		}
	}
	return part
}
