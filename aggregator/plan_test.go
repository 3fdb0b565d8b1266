package aggregator

import (
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

// roundOf makes a round over members of the given weights, all connected and
// with the expectation that expect gives.
func roundOf(weights []uint64, expect func(i int) expectation) *round {
	var flat snow.WarpSet
	for i, w := range weights {
		flat.Validators = append(flat.Validators, &snow.Warp{Weight: w, NodeIDs: []ids.NodeID{{byte(i >> 8), byte(i)}}})
		flat.TotalWeight += w
	}
	r := newRound(validators.NewSet(ids.Empty, 1, flat), testChain, DefaultLimits(), planner{Margin: 1, Price: requestCost}, func(ids.NodeID) bool { return true })
	for i := range r.members {
		r.members[i].expect = expect(i)
	}
	return r
}

func lognormal(median time.Duration, spread, success float64) expectation {
	return expectation{mean: math.Log(float64(median)), spread: spread, success: success}
}

func sameWeights(n int, w uint64) []uint64 {
	weights := make([]uint64, n)
	for i := range weights {
		weights[i] = w
	}
	return weights
}

func (r *round) weightOf(members []int) (w uint64) {
	for _, i := range members {
		w += r.members[i].weight
	}
	return w
}

// nearAndFar makes a round over 80 near validators, which suffice, and 20 far ones, which would
// never be among the first.
func nearAndFar() *round {
	return roundOf(sameWeights(100, 10), func(i int) expectation {
		if i < 80 {
			return lognormal(20*time.Millisecond, 0.1, 0.99)
		}
		return lognormal(400*time.Millisecond, 0.1, 0.99)
	})
}

func TestPlanLeavesOutTheSlow(t *testing.T) {
	r := nearAndFar()
	r.join(&waiter{need: 670, want: 670}, 0)
	members, horizon := r.plan.pick(r, 0)
	for _, i := range members {
		require.Less(t, i, 80, "a far validator was asked")
	}
	require.GreaterOrEqual(t, r.weightOf(members), uint64(670))
	require.Less(t, horizon, 60*time.Millisecond)
}

func TestPlanPrefersTheHeavy(t *testing.T) {
	weights := sameWeights(1000, 1)
	for i := range 30 {
		weights[i] = 100
	}
	r := roundOf(weights, func(int) expectation { return lognormal(20*time.Millisecond, 0.1, 0.99) })
	r.join(&waiter{need: 2680, want: 2680}, 0)
	members, _ := r.plan.pick(r, 0)
	require.Less(t, len(members), 100, "the light tail cannot change the outcome")
}

// The more rounds wait for the processor, the fewer and heavier validators each asks.
func TestPlanAsksFewerAmongOthers(t *testing.T) {
	var total uint64
	weights := make([]uint64, 1000)
	for i := range weights {
		weights[i] = uint64(1_000_000 / (i + 1))
		total += weights[i]
	}
	before, end := len(weights)+1, time.Duration(0)
	for _, rounds := range []int{1, 8, 64} {
		r := roundOf(weights, func(int) expectation { return lognormal(40*time.Millisecond, 1, 0.99) })
		r.plan.Price = requestCost * time.Duration(rounds)
		r.join(&waiter{need: total / 2, want: total / 2}, 0)
		members, horizon := r.plan.pick(r, 0)
		require.Less(t, len(members), before)
		require.GreaterOrEqual(t, horizon, end)
		require.GreaterOrEqual(t, r.weightOf(members), total/2)
		before, end = len(members), horizon
	}
	require.Less(t, before, 200, "few of them have half the weight")
}

// Saving requests must not cost the buffer.
func TestPlanEndsBeforeTheBufferIsGivenUp(t *testing.T) {
	r := roundOf(sameWeights(1000, 1), func(int) expectation { return lognormal(time.Second, 1, 0.99) })
	r.join(&waiter{need: 670, want: 700}, 0)
	r.plan.Price = 0
	_, first := r.plan.pick(r, 0)
	r.plan.Price = 100 * time.Millisecond
	_, horizon := r.plan.pick(r, 0)
	require.Equal(t, first+r.limits.BufferTimeout, horizon)
}

func TestPlanAsksAllWhenItMust(t *testing.T) {
	r := roundOf(sameWeights(10, 10), func(int) expectation { return lognormal(20*time.Millisecond, 1, 0.5) })
	r.join(&waiter{need: 100, want: 100}, 0)
	members, _ := r.plan.pick(r, 0)
	require.Len(t, members, 10)
}

func TestPlanWidensOnlyWhenItSlips(t *testing.T) {
	r := roundOf(sameWeights(100, 10), func(i int) expectation { return lognormal(time.Duration(10+i)*time.Millisecond, 0.1, 0.97) })
	r.join(&waiter{need: 670, want: 670}, 0)
	a := r.next(0)
	require.Equal(t, actAsk, a.kind)
	first := len(a.members)
	require.Less(t, first, 100)
	require.Equal(t, actWait, r.next(time.Millisecond).kind)
	// No validator answers: the round asks the rest at the horizon.
	var asked int
	for now := 2 * time.Millisecond; now < 300*time.Millisecond; now += time.Millisecond {
		if a := r.next(now); a.kind == actAsk {
			asked += len(a.members)
		}
	}
	require.Equal(t, 100, first+asked)
	require.Positive(t, r.slips)
}

// A refusal leads to a new plan, but a thousand refusals do not lead to a thousand plans.
func TestPlanWaitsForFurtherRefusals(t *testing.T) {
	r := nearAndFar()
	r.join(&waiter{need: 670, want: 670}, 0)
	asked := r.next(0)
	require.Equal(t, actAsk, asked.kind)
	pause := 100 * planPause
	now := time.Millisecond
	for range 20 {
		r.failed(r.nodeID(asked.members[0]), refused, &common.AppError{Code: -2}, now)
		asked.members = asked.members[1:]
		a := r.next(now)
		require.Equal(t, actWait, a.kind)
		require.LessOrEqual(t, a.until, time.Millisecond+pause, "later refusals do not postpone the plan")
		now += pause / 30
	}
	a := r.next(time.Millisecond + pause)
	require.Equal(t, actAsk, a.kind)
	require.Zero(t, r.slips, "it did not slip: validators refused")
}

// Validators whose pauses end one after the other are asked together.
func TestPlanWaitsForFurtherPauses(t *testing.T) {
	r := roundOf(sameWeights(100, 10), func(int) expectation { return lognormal(20*time.Millisecond, 0.1, 0.99) })
	r.join(&waiter{need: 1000, want: 1000}, 0)
	require.Len(t, r.next(0).members, 100)
	r.answered(r.nodeID(0), &bls.Signature{}, true)
	r.markVerified([]int{0}, nil)
	for i := 1; i < 100; i++ {
		r.failed(r.nodeID(i), refused, &common.AppError{Code: common.ErrUndefined.Code}, time.Millisecond+time.Duration(i)*time.Microsecond)
	}
	plans, asked := 0, 0
	for now := r.members[1].retryAt; asked < 99; {
		a := r.next(now)
		if a.kind == actAsk {
			plans++
			asked += len(a.members)
			continue
		}
		require.Equal(t, actWait, a.kind)
		require.Greater(t, a.until, now)
		require.Less(t, a.until, time.Second)
		now = a.until
	}
	require.LessOrEqual(t, plans, 2, "the first plan was due to be looked at")
}

// A look at the plan during the pause finds refusals, not a plan that was too narrow.
func TestRefusalsDoNotWidenPlans(t *testing.T) {
	r := nearAndFar()
	r.join(&waiter{need: 670, want: 670}, 0)
	asked := r.next(0)
	require.Equal(t, actAsk, asked.kind)
	now := r.checkAt - time.Microsecond
	for _, i := range asked.members[:20] {
		r.failed(r.nodeID(i), refused, &common.AppError{Code: -2}, now)
	}
	require.Greater(t, r.planAt, r.checkAt, "the pause lasts longer")
	require.Equal(t, actAsk, r.next(r.checkAt).kind)
	require.Zero(t, r.slips)
}

// A weight of 1 is lost in the float64 of the others' sum, but the quorum needs it.
func TestPlanCountsTheLastUnit(t *testing.T) {
	const heavy = 1 << 60
	r := roundOf([]uint64{heavy, 1}, func(int) expectation { return lognormal(20*time.Millisecond, 0.1, 0.99) })
	r.join(&waiter{need: heavy + 1, want: heavy + 1}, 0)
	require.Equal(t, actAsk, r.next(0).kind)
	r.answered(r.nodeID(0), &bls.Signature{}, true)
	r.markVerified([]int{0}, nil)
	r.failed(r.nodeID(1), refused, &common.AppError{Code: common.ErrUndefined.Code}, time.Millisecond)
	require.Equal(t, notYet, r.members[1].state)
	a := r.next(time.Second)
	require.Equal(t, actAsk, a.kind, "the light validator is asked again")
	require.Equal(t, []int{1}, a.members)
}

// The expected weight at the horizon covers the goal, whatever the mix.
func TestPlanReachesTheGoalInExpectation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 1 + rng.IntN(300)
		r := roundOf(randomWeights(rng, n), func(int) expectation {
			return lognormal(time.Duration(1+rng.IntN(200))*time.Millisecond, 0.05+rng.Float64(), rng.Float64())
		})
		goal := r.set.MinWeight(1 + rng.Uint64N(100))
		r.join(&waiter{need: goal, want: goal}, 0)
		members, horizon := r.plan.pick(r, 0)
		var mean float64
		for _, i := range members {
			mean += float64(r.members[i].weight) * r.members[i].expect.by(horizon)
		}
		if len(members) < n {
			require.GreaterOrEqual(t, mean, float64(goal))
		}
	}
}

func TestHistoryLearnsAndForgets(t *testing.T) {
	h := newHistory()
	node, now := ids.NodeID{1}, time.Unix(1e9, 0)
	before, struck := h.expect(signer{node: node}, now)
	require.False(t, struck)
	for i := range 300 { // a crowd that differs, each constant in itself
		for n := range byte(20) {
			h.answered(signer{node: ids.NodeID{2, n}}, time.Duration(20+10*int(n)+i%2)*time.Millisecond, now)
		}
		if i < 30 {
			h.answered(signer{node: node}, 5*time.Millisecond, now)
		}
	}
	known, _ := h.expect(signer{node: node}, now)
	require.Greater(t, known.by(10*time.Millisecond), 0.9)
	require.Less(t, before.by(10*time.Millisecond), 0.2)

	for range 20 {
		h.failed(signer{node: node}, now)
	}
	failing, _ := h.expect(signer{node: node}, now)
	require.Less(t, failing.success, 0.1)
	regained, _ := h.expect(signer{node: node}, now.Add(time.Hour))
	require.Greater(t, regained.success, 0.8, "it regains its place in time")
	for range 20 {
		h.answered(signer{node: node}, 5*time.Millisecond, now)
	}
	again, _ := h.expect(signer{node: node}, now)
	require.Greater(t, again.success, 0.9, "and by answering")
}

// If answer times are random, no validator counts as faster than others.
func TestHistoryDoesNotTakeLuckForSpeed(t *testing.T) {
	h, rng, now := newHistory(), rand.New(rand.NewPCG(7, 8)), time.Unix(1e9, 0)
	for range 100 {
		for n := range byte(100) {
			h.answered(signer{node: ids.NodeID{n}}, time.Duration(40e6*math.Exp(rng.NormFloat64())), now)
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for n := range byte(100) {
		e, _ := h.expect(signer{node: ids.NodeID{n}}, now)
		low, high = math.Min(low, e.mean), math.Max(high, e.mean)
	}
	require.Less(t, high-low, 0.7, "own averages differ by about 1.1")
}

func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	for i := range maxHistories + 100 {
		h.failed(signer{node: ids.NodeID{byte(i), byte(i >> 8), byte(i >> 16)}}, time.Unix(1e9, 0))
	}
	require.Len(t, h.answers, maxHistories)
}

// The owner of an L1 may register the node IDs of other operators with keys of his own. What those nodes do not answer for him
// says nothing about what they answer for their own keys.
func TestHistoryKeepsKeysApart(t *testing.T) {
	h, now := newHistory(), time.Unix(1e9, 0)
	own, registered := signer{node: ids.NodeID{1}, key: publicKey{1}}, signer{node: ids.NodeID{1}, key: publicKey{2}}
	before, _ := h.expect(own, now)
	for range 20 {
		h.failed(registered, now)
	}
	after, _ := h.expect(own, now)
	require.Equal(t, before, after)
	failing, _ := h.expect(registered, now)
	require.Less(t, failing.success, 0.1)
}

func BenchmarkPlan(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	r := roundOf(randomWeights(rng, 1000), func(int) expectation {
		return lognormal(time.Duration(1+rng.IntN(200))*time.Millisecond, 0.3, 0.98)
	})
	goal := r.set.MinWeight(67)
	r.join(&waiter{need: goal, want: goal}, 0)
	for b.Loop() {
		r.plan.pick(r, 0)
	}
}

func TestAnswerTimeIsTheMedian(t *testing.T) {
	h, now := newHistory(), time.Unix(1e9, 0)
	one := signer{node: ids.NodeID{1}}
	h.failed(signer{node: ids.NodeID{2}}, now)
	for _, elapsed := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		h.answered(one, elapsed, now)
	}
	at, ok := h.answerTime(one)
	require.True(t, ok)
	require.InDelta(t, 100*time.Millisecond, at, float64(time.Microsecond))
	_, ok = h.answerTime(signer{node: ids.NodeID{2}})
	require.False(t, ok, "it has not answered")
}
