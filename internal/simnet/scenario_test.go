package simnet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/simnet"
)

// serve starts a network and a service that is connected to all validators.
func serve(t *testing.T, o simnet.Options, limits aggregator.Limits) (*simnet.Network, *service) {
	t.Helper()
	n, err := simnet.Start(o)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	s := startService(t, n, limits)
	s.awaitConnections(t, len(n.Validators()))
	return n, s
}

func requireVerifies(t testing.TB, n *simnet.Network, r *aggregator.Result, quorum uint64) {
	t.Helper()
	signature, ok := r.Message.Signature.(*warp.BitSetSignature)
	require.True(t, ok)
	set := n.Set(constants.PrimaryNetworkID, r.PChainHeight)
	require.NoError(t, signature.Verify(&r.Message.UnsignedMessage, n.NetworkID(), set, quorum, 100))
	requireAddsUp(t, r.Account)
}

func requireCode(t testing.TB, err error, code aggregator.Code) *aggregator.Error {
	t.Helper()
	var failed *aggregator.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, code, failed.Code, "%v", err)
	if failed.Account != nil {
		requireAddsUp(t, *failed.Account)
	}
	return failed
}

// A validator with 34% of the weight sends its answer byte by byte. The round waits for it
// while it may still be in time, fails when it cannot be, and does not wait if the quorum
// is reached without it.
func TestScenario_7_2_12_SlowDrip(t *testing.T) {
	t.Parallel()
	limits := aggregator.DefaultLimits()
	n, s := serve(t, simnet.Options{Seed: 12, Validators: 3, ExplicitWeights: []uint64{34, 33, 33}}, limits)
	drip := func(pause time.Duration) {
		n.Validators()[0].SetHook(func(_ *warp.UnsignedMessage, _ []byte, honest simnet.Answer) simnet.Answer {
			honest.Drip = pause
			return honest
		})
	}
	const bytes = 150 // about, of an answer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	drip(time.Millisecond)
	start := time.Now()
	r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("late"))})
	require.NoError(t, err)
	requireVerifies(t, n, r, 67)
	require.Greater(t, time.Since(start), bytes*time.Millisecond/2, "there is no quorum before its last byte")

	drip(time.Second)
	start = time.Now()
	var others sync.WaitGroup
	others.Go(func() {
		r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("without")), QuorumPercentage: 66})
		if err != nil {
			t.Errorf("a quorum without it: %v", err)
			return
		}
		requireVerifies(t, n, r, 66)
		if took := time.Since(start); took > limits.AnswerTimeout {
			t.Errorf("a quorum without it took %s", took)
		}
	})
	_, err = s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("too late"))})
	failed := requireCode(t, err, aggregator.CodeQuorumNotReached)
	require.Equal(t, uint64(34), failed.Account.SilentWeight)
	require.Equal(t, uint64(66), failed.Account.SignedWeight)
	took := time.Since(start)
	require.GreaterOrEqual(t, took, limits.AnswerTimeout)
	require.Less(t, took, bytes*time.Second/2, "its last byte is not waited for")
	others.Wait()
}

// Two nodes use one key. The one that is asked first forges.
func TestScenario_7_2_14_NodesSharingAKey(t *testing.T) {
	t.Parallel()
	var forged uint64
	for _, forger := range []int{0, 1} {
		n, s := serve(t, simnet.Options{Seed: 14, Validators: 3, ExplicitWeights: []uint64{30, 30, 40}, SharedKeys: map[int]int{1: 0}}, patient())
		require.Len(t, n.Set(constants.PrimaryNetworkID, 1).Validators, 2)
		require.NoError(t, n.Validators()[forger].SetBehaviour(simnet.WrongSignature))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("m"))})
		require.NoError(t, err)
		requireVerifies(t, n, r, 67)
		require.Equal(t, uint64(1), n.Validators()[1-forger].Requests())
		forged += n.Validators()[forger].Requests()
	}
	require.Equal(t, uint64(1), forged, "one of the two is asked first")
}

// The node fails in every way before anything is cached. The client gets the reason, and
// once the node works again the message is signed.
func TestScenario_7_2_22_NodeFaults(t *testing.T) {
	t.Parallel()
	n, s := serve(t, simnet.Options{Seed: 22}, patient())
	unknown := n.Height() + 1 // a height that is not cached
	for i, test := range []struct {
		fault simnet.APIFault
		code  aggregator.Code
	}{
		{simnet.APIFault{Status: 503}, aggregator.CodeNodeUnavailable},
		{simnet.APIFault{Status: 429}, aggregator.CodeNodeUnavailable},
		{simnet.APIFault{Garbage: "<html>"}, aggregator.CodeNodeFaulty},
		{simnet.APIFault{Garbage: `{"jsonrpc":"2.0","id":1,"result":null}`}, aggregator.CodeNodeFaulty},
		{simnet.APIFault{Delay: time.Minute}, aggregator.CodeNodeUnavailable},
	} {
		n.SetAPIFault(&test.fault)
		timeout := 2 * time.Minute
		if test.fault.Delay > 0 {
			timeout = time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("m")), PChainHeight: unknown})
		requireCode(t, err, test.code)
		cancel()
		// Cached sets still suffice to sign.
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
		r, err := s.Sign(ctx, aggregator.Request{Message: n.Message(fmt.Append(nil, "warm ", i)), SigningSubnetID: &ids.ID{}, PChainHeight: n.Height()})
		require.NoError(t, err)
		requireVerifies(t, n, r, 67)
		cancel()
	}
	n.SetAPIFault(nil)
	n.Advance(constants.PrimaryNetworkID, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("m")), PChainHeight: unknown})
	require.NoError(t, err)
	require.Equal(t, unknown, r.PChainHeight)
	requireVerifies(t, n, r, 67)
}

func TestScenario_7_2_25_ThousandIdenticalRequests(t *testing.T) {
	t.Parallel()
	n, s := serve(t, simnet.Options{Seed: 25, Validators: 10, Latency: simnet.Latency{Median: 20 * time.Millisecond, P99: 100 * time.Millisecond}}, patient())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	message := n.Message([]byte("m"))
	results := make([]*aggregator.Result, 1000)
	var callers sync.WaitGroup
	for i := range results {
		callers.Go(func() {
			r, err := s.Sign(ctx, aggregator.Request{Message: message})
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			results[i] = r
		})
	}
	callers.Wait()
	require.False(t, t.Failed())
	require.NotContains(t, results, (*aggregator.Result)(nil))
	for _, r := range slices.Compact(results) { // most requests share one
		requireVerifies(t, n, r, 67)
	}
	require.Zero(t, n.Repeated(), "a validator was asked twice")
	require.LessOrEqual(t, n.Requests(), uint64(10))
}

func TestScenario_7_2_30_Shutdown(t *testing.T) {
	t.Parallel()
	limits := aggregator.DefaultLimits()
	limits.AnswerTimeout = 5 * time.Minute // longer than the test
	n, s := serve(t, simnet.Options{Seed: 30, Faults: simnet.Faults{Silent: 1}}, limits)
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			_, err := s.Sign(t.Context(), aggregator.Request{Message: n.Message([]byte{byte(i)})})
			requireCode(t, err, aggregator.CodeShutdown)
		})
	}
	require.Eventually(t, func() bool { return n.Requests() >= 50*5 }, 2*time.Minute, time.Millisecond, "requests: %d", n.Requests())
	start := time.Now()
	s.Close()
	callers.Wait()
	require.Less(t, time.Since(start), limits.AnswerTimeout/4, "the silent are not waited for")
	_, err := s.Sign(t.Context(), aggregator.Request{Message: n.Message([]byte("late"))})
	requireCode(t, err, aggregator.CodeShutdown)
}

// Many rounds whose callers leave at the same time: what was sent arrives, nothing follows.
func TestAttackCallersThatLeave(t *testing.T) {
	t.Parallel()
	const rounds, callers = 150, 2
	n, s := serve(t, simnet.Options{Seed: 31, Validators: 40, Faults: simnet.Faults{Refusing: 1}}, aggregator.DefaultLimits())
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var all sync.WaitGroup
	for i := range rounds * callers {
		message := n.Message(append(make([]byte, 16<<10), byte(i/callers)))
		all.Go(func() {
			if _, err := s.Sign(ctx, aggregator.Request{Message: message, Wait: time.Minute}); !errors.Is(err, context.Canceled) {
				t.Errorf("request %d: got %v, want it cancelled", i, err)
			}
		})
	}
	require.Eventually(t, func() bool { return n.Requests() >= 500 }, 2*time.Minute, time.Millisecond, "requests: %d", n.Requests())
	leave()
	all.Wait()
	sent := s.sent(t)
	require.Eventually(t, func() bool { return n.Requests() == sent }, 2*time.Minute, time.Millisecond, "%d of %d requests arrived", n.Requests(), sent)
	require.Never(t, func() bool { return s.sent(t) > sent || n.Requests() > sent }, time.Second, 50*time.Millisecond, "validators are asked for callers that have left")
}

func TestOptionsThatCannotBe(t *testing.T) {
	for name, o := range map[string]simnet.Options{
		"too few weights":        {Validators: 3, ExplicitWeights: []uint64{1, 2}},
		"weight 0":               {Validators: 2, ExplicitWeights: []uint64{1, 0}},
		"a key of no validator":  {Validators: 2, SharedKeys: map[int]int{0: 2}},
		"a key for no validator": {Validators: 2, SharedKeys: map[int]int{-1: 0}},
		"weights without number": {ExplicitWeights: []uint64{1, 2}},
	} {
		_, err := simnet.Start(o)
		require.ErrorContains(t, err, "simnet: ", name)
	}
}

// The proposed height is below the tip for a while. Without a height, the set of the proposed height signs; heights up to
// the tip are available, and heights above it are refused with the tip.
func TestProposedHeightBelowTheTip(t *testing.T) {
	t.Parallel()
	n, s := serve(t, simnet.Options{Seed: 33, Validators: 5, ProposedAfter: 20 * time.Second}, patient())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n.Advance(constants.PrimaryNetworkID, func(members map[ids.NodeID]simnet.Member) {
		delete(members, n.Validators()[0].NodeID)
	})
	began := time.Now()
	require.Equal(t, uint64(2), n.Height())
	r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("m")), QuorumPercentage: 100})
	require.NoError(t, err)
	if time.Since(began) < 10*time.Second {
		require.Equal(t, uint64(1), r.PChainHeight)
		require.Equal(t, 5, r.Signers)
	}
	requireVerifies(t, n, r, 100)

	r, err = s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("at the tip")), PChainHeight: 2, QuorumPercentage: 100})
	require.NoError(t, err)
	require.Equal(t, uint64(2), r.PChainHeight)
	require.Equal(t, 4, r.Signers)
	requireVerifies(t, n, r, 100)
	_, err = s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("above")), PChainHeight: 3})
	require.Contains(t, requireCode(t, err, aggregator.CodeHeightUnavailable).Message, "P-Chain height 3")

	require.Eventually(t, func() bool {
		r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte(time.Now().String()))})
		require.NoError(t, err)
		requireVerifies(t, n, r, 67)
		return r.PChainHeight == 2
	}, 2*time.Minute, 100*time.Millisecond, "the proposed height stays at 1")
	require.Greater(t, time.Since(began), 19*time.Second)
}

// A blockchain verifies against the set of its epoch, which has validators that left since. They still sign.
func TestEpochWithFormerValidators(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for pings")
	}
	t.Parallel()
	n, s := serve(t, simnet.Options{Seed: 34, Validators: 5, ProposedAfter: -1, EpochDuration: time.Hour}, patient())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n.Advance(constants.PrimaryNetworkID, func(members map[ids.NodeID]simnet.Member) {
		for _, v := range n.Validators()[:3] {
			delete(members, v.NodeID)
		}
	})
	require.Eventually(t, func() bool {
		height, ok := s.resolver.ProposedHeight()
		return ok && height == 2
	}, time.Minute, 10*time.Millisecond)
	time.Sleep(constants.DefaultPingFrequency + 2*time.Second) // the service looks at its connections when it pings
	chain := n.Blockchain()
	r, err := s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("m")), VerifyingBlockchainID: &chain, QuorumPercentage: 100})
	require.NoError(t, err)
	require.Equal(t, uint64(1), r.PChainHeight)
	require.Equal(t, 5, r.Signers)
	requireVerifies(t, n, r, 100)
	r, err = s.Sign(ctx, aggregator.Request{Message: n.Message([]byte("m")), QuorumPercentage: 100})
	require.NoError(t, err)
	require.Equal(t, uint64(2), r.PChainHeight)
	require.Equal(t, 2, r.Signers)
}
