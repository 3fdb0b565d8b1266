package aggregator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/bls"
	"quorate/validators"
)

func quick(int) expectation { return lognormal(10*time.Millisecond, 0.1, 0.99) }

func startedRound(t *testing.T, waiters ...*waiter) *round {
	r := roundOf([]uint64{40, 30, 20, 10}, quick)
	for _, c := range waiters {
		r.join(c, 0)
	}
	require.Equal(t, actAsk, r.next(0).kind)
	for i := range r.members { // ask all members, whatever the plan
		r.members[i].state = waiting
	}
	return r
}

func TestRoundIgnoresWhatItDidNotAskFor(t *testing.T) {
	c := &waiter{need: 67, want: 67}
	r := startedRound(t, c)
	r.answered(ids.NodeID{200}, &bls.Signature{}, true)
	r.failed(ids.NodeID{200}, refused, &common.AppError{Code: 1}, 0)
	require.Zero(t, r.have())
	r.answered(r.nodeID(0), &bls.Signature{}, true)
	r.answered(r.nodeID(0), &bls.Signature{}, true)
	require.Equal(t, uint64(40), r.have(), "a second answer must not count")
	r.failed(r.nodeID(0), refused, &common.AppError{Code: -2}, 0)
	require.Equal(t, uint64(40), r.have(), "an error after the answer is ignored")
	r.failed(r.nodeID(1), refused, &common.AppError{Code: -2}, 0)
	r.answered(r.nodeID(1), &bls.Signature{}, true)
	require.Equal(t, uint64(70), r.have(), "a signature after an error still is one")
	require.Equal(t, actFinish, r.next(0).kind)
}

// A member of two nodes stays a candidate when the second one is lost after the first one has connected again.
func TestRoundAsksTheNodeThatReconnected(t *testing.T) {
	first, second := ids.NodeID{1}, ids.NodeID{2}
	set := validators.NewSet(ids.Empty, 1, snow.WarpSet{
		Validators: []*snow.Warp{{Weight: 100, NodeIDs: []ids.NodeID{first, second}}}, TotalWeight: 100,
	})
	r := newRound(set, testChain, DefaultLimits(), planner{Margin: 1, Price: requestCost}, func(ids.NodeID) bool { return true })
	r.members[0].expect = quick(0)
	r.join(&waiter{need: 67, want: 67}, 0)
	var now time.Duration
	requireAsks := func(nodeID ids.NodeID) {
		t.Helper()
		now += 10 * time.Millisecond // plans pause after a lost connection
		require.Equal(t, actAsk, r.next(now).kind)
		require.Equal(t, nodeID, r.nodeID(0))
	}
	requireAsks(first)
	r.failed(first, idle, nil, now)
	requireAsks(second)
	r.connected(first)
	r.failed(second, idle, nil, now)
	requireAsks(first)

	r.failed(first, idle, nil, now)
	require.False(t, r.members[0].online, "both nodes are lost")
	r.connected(second)
	requireAsks(second)
}

func TestRoundStateOfCallers(t *testing.T) {
	low, high := &waiter{need: 50, want: 50}, &waiter{need: 90, want: 100}
	r := startedRound(t, low, high)
	r.answered(r.nodeID(0), &bls.Signature{}, true)
	r.answered(r.nodeID(1), &bls.Signature{}, true)
	a := r.next(time.Millisecond)
	require.Equal(t, actFinish, a.kind)
	require.Same(t, low, a.waiter)
	r.leave(low)
	require.Equal(t, actWait, r.next(time.Millisecond).kind)
	r.answered(r.nodeID(2), &bls.Signature{}, true)
	r.failed(r.nodeID(3), refused, &common.AppError{Code: -2}, time.Millisecond)
	a = r.next(time.Millisecond)
	require.Equal(t, actFinish, a.kind, "the buffer is out of reach")
	require.Same(t, high, a.waiter)
	require.Equal(t, uint64(90), a.target)
	r.leave(high)
	require.Equal(t, action{kind: actWait, until: never}, r.next(time.Millisecond))
}

func TestRoundProvesBeforeItFails(t *testing.T) {
	c := &waiter{need: 67, want: 67}
	r := startedRound(t, c)
	r.answered(r.nodeID(1), &bls.Signature{}, true)
	r.failed(r.nodeID(0), invalid, nil, 0)
	a := r.next(0)
	require.Equal(t, actVerify, a.kind)
	r.markVerified(a.members, []int{1})
	a = r.next(0)
	require.Equal(t, actFail, a.kind)
	require.Equal(t, CodeQuorumNotReached, a.code)
	account := r.account(67)
	require.Equal(t, uint64(70), account.InvalidWeight)
	requireAddsUp(t, account)
}

func TestRefusalsThatWaitingCannotCure(t *testing.T) {
	for _, test := range []struct {
		chain    ids.ID
		code     int32
		text     string
		definite bool
	}{
		{testChain, -1, "timed out", false},
		{testChain, -1, "failed to parse warp unsigned message: x", true},
		{testChain, -1, "failed to sign message: wrong networkID", true},
		{testChain, -1, "failed to sign message: wrong SourceChainID", true},
		{testChain, -2, "unregistered handler", true},
		{testChain, -3, "not a validator", true},
		{testChain, -4, "throttled", false},
		{testChain, 0, "undefined", false},
		{testChain, 1, "failed to parse message", true},
		{testChain, 1, "unknown payload type: *payload.AddressedCall", false},
		{testChain, 2, "failed to verify", false},
		{testChain, 3, "unknown *payload.AddressedCall message", false},
		{testChain, 4, "not accepted", false},
		{constants.PlatformChainID, 1, "bad", true},
		{constants.PlatformChainID, 2, "source address should be empty", true},
		{constants.PlatformChainID, 3, "bad payload", true},
		{constants.PlatformChainID, 4, "unsupported payload", true},
		{constants.PlatformChainID, 5, "failed to parse justification", true},
		{constants.PlatformChainID, 6, "subnet has not been converted", false},
		{constants.PlatformChainID, 7, "mismatch", true},
		{constants.PlatformChainID, 8, "wrong type of justification", true},
		{constants.PlatformChainID, 9, "bad subnet ID", true},
		{constants.PlatformChainID, 10, "mismatch", true},
		{constants.PlatformChainID, 11, "validation does not exist", false},
		{constants.PlatformChainID, 12, "validation exists", false},
		{constants.PlatformChainID, 13, "bad registration", true},
		{constants.PlatformChainID, 14, "can be registered until", false},
		{constants.PlatformChainID, 15, "impossible nonce", true},
		{constants.PlatformChainID, 16, "provided nonce 3 != expected nonce (5 - 1)", true},
		{constants.PlatformChainID, 16, "provided nonce 5 != expected nonce (5 - 1)", false},
		{constants.PlatformChainID, 17, "provided weight 1 != expected weight 2", true},
		{constants.PlatformChainID, 99, "unheard of", true},
	} {
		require.Equal(t, test.definite, definite(test.chain, &common.AppError{Code: test.code, Message: test.text}), "%d %q", test.code, test.text)
	}
}

// The outcome of a request that joins a failing round depends on what validators do after it joined.
func TestLateWaiterInheritsNoVerdict(t *testing.T) {
	first, late := &waiter{need: 67, want: 67}, &waiter{need: 67, want: 67}
	fail := func(r *round, state memberState) time.Duration {
		switch state {
		case timedOut:
			r.next(r.limits.AnswerTimeout)
			return r.limits.AnswerTimeout
		default:
			for i := range r.members {
				r.failed(r.nodeID(i), state, &common.AppError{Code: -2}, time.Second)
			}
			return time.Second
		}
	}
	for _, test := range []struct {
		name  string
		state memberState
		kind  actionKind // what the round does for the late waiter
	}{
		{"timed out", timedOut, actAsk},
		{"invalid", invalid, actAsk},
		{"refused for good", refused, actFail},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startedRound(t, first)
			now := fail(r, test.state)
			r.join(late, now)
			a := r.next(now)
			require.Equal(t, actFail, a.kind)
			require.Same(t, first, a.waiter)
			r.leave(first)
			require.Equal(t, test.kind, r.next(now).kind)
		})
	}

	t.Run("nor the time that others waited for a connection", func(t *testing.T) {
		r := newRound(roundOf([]uint64{40, 60}, quick).set, testChain, DefaultLimits(), planner{}, func(ids.NodeID) bool { return false })
		r.join(first, 0)
		grace := r.limits.ConnectGrace
		r.join(late, grace)
		a := r.next(grace)
		require.Equal(t, actFail, a.kind)
		require.Same(t, first, a.waiter)
		r.leave(first)
		require.Equal(t, action{kind: actWait, until: 2 * grace}, r.next(grace))
	})
}
