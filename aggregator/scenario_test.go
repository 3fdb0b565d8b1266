package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/cache"
	"github.com/ava-labs/avalanchego/cache/lru"
	"github.com/ava-labs/avalanchego/ids"
	avap2p "github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/p2p"
)

// The scenarios of signing, and in which packages each has its tests, whose names
// begin with TestScenario and the number. List 7.1 is what aggregators are
// commonly tested for, list 7.2 what they should be. TestEveryScenarioHasATest
// holds the table against the tests.
//
//	7.1-01 no validators: aggregator
//	7.1-02 too little stake is connected: aggregator
//	7.1-03 no validator responds: aggregator
//	7.1-04 success: aggregator
//	7.1-05 the order by weight is stable: aggregator
//	7.1-06 whom to ask, not the tail, not who has signed, not who is unconnected: aggregator
//	7.1-07 boundaries of the percentage, rounded up: aggregator
//	7.1-08 high weight first: aggregator
//	7.1-09 a validator that is asked is silent, quorum all the same: aggregator
//	7.1-10 responses that are nil, empty, an empty protobuf, 96 random bytes: aggregator
//	7.1-11 exclusion of underfunded L1 validators: validators
//	7.1-12 choice of the signing subnet: aggregator
//	7.1-13 remembered signatures of the excluded: aggregator
//	7.1-14 pruning to the fewest signers: aggregator
//	7.1-15 a single heavy signer: aggregator
//	7.1-16 nothing to prune: aggregator
//	7.1-17 below the quorum there is no message: aggregator
//	7.1-18 connected weight, shared keys once, strangers not: aggregator
//	7.1-19 subnets followed for being asked for, the least recent goes first: validators
//	7.1-20 C-Chain and L1, epochs, validator churn: no test here, it takes real nodes, see TestWarpMessages of the module e2e (contract messages, verifying chain's epoch, nodes that stop and come back)
//	7.1-21 less, equal, greater than the threshold: aggregator
//	7.1-22 shared keys, alone and beside unique ones: aggregator
//	7.1-23 the context ends, with a part at hand: aggregator
//	7.1-24 going on from an existing signature: aggregator
//	7.1-25 a handler refuses: aggregator
//	7.1-26 a handler signs: aggregator
//	7.1-27 a handler signs from its cache: aggregator
//	7.1-28 a handler of another network: aggregator
//	7.1-29 a handler of another blockchain: aggregator
//	7.2-01 signatures of 0, 1, 95, 97 bytes: aggregator
//	7.2-02 infinity, off the subgroup, uncompressed: aggregator
//	7.2-03 a valid signature of another message: aggregator
//	7.2-04 another validator's signature: aggregator
//	7.2-05 two shares that cancel out: aggregator
//	7.2-06 one node answers a thousand times: aggregator, p2p
//	7.2-07 an answer of a node that was not asked: aggregator, p2p
//	7.2-08 an answer after the timeout: p2p
//	7.2-09 an answer before the request is sent: aggregator, p2p
//	7.2-10 an error and a response to one request: aggregator, p2p
//	7.2-11 2 MiB and odd protobufs: aggregator, p2p
//	7.2-12 34 % that drip, late or infeasible: aggregator, internal/simnet
//	7.2-13 a connection lost and made during a request: aggregator, p2p
//	7.2-14 nodes that share a key answer differently: aggregator, internal/simnet
//	7.2-15 keyless weight makes the quorum impossible: aggregator
//	7.2-16 weights near 2^64, and the ceiling: aggregator
//	7.2-17 quorum 100, quorum and buffer beyond 100, quorum 0: aggregator, handlers
//	7.2-18 the buffer is out of reach, the quorum is met: aggregator
//	7.2-19 the set changes between gathering and returning: aggregator
//	7.2-20 the epoch rolls during a request: aggregator, validators
//	7.2-21 heights of the future and the past: aggregator, validators
//	7.2-22 nodes that are slow, flap, lie, or are of another network: aggregator, internal/node, internal/simnet, validators
//	7.2-23 a message of another network: handlers
//	7.2-24 trailing bytes: handlers
//	7.2-25 a thousand identical requests: aggregator, internal/simnet
//	7.2-26 one of several waiters leaves: aggregator
//	7.2-27 not accepted yet, then accepted: aggregator
//	7.2-28 a legacy subnet becomes an L1 at run time: validators
//	7.2-29 messages of transactions that were dropped or superseded: aggregator/l1message
//	7.2-30 shutdown with requests in flight: aggregator, handlers, internal/simnet
//	7.2-31 two blockchains, one payload: aggregator
//	7.2-32 a restart with a stale address book: p2p
//	7.2-33 a validator changes certificate and address: p2p
//	7.2-34 request IDs wrap and stay odd: p2p
//	7.2-35 a flood of unique messages: aggregator
//	7.2-36 keys that are each other's negation: aggregator

// signersOf are the canonical indexes that a signed message names.
func signersOf(t testing.TB, r *Result) []int {
	t.Helper()
	signature, ok := r.Message.Signature.(*warp.BitSetSignature)
	require.True(t, ok)
	bits := set.BitsFromBytes(signature.Signers)
	var members []int
	for i := range bits.BitLen() {
		if bits.Contains(i) {
			members = append(members, i)
		}
	}
	return members
}

func TestScenario_7_1_01_NoValidators(t *testing.T) {
	for name, keyless := range map[string]uint64{"no validators": 0, "no validator with a key": 100} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNetwork(t)
			n.keyless = keyless
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				start := time.Now()
				_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
				failed := requireFailure(t, err, CodeNoValidators)
				require.Contains(t, failed.Message, "height 10")
				require.Zero(t, time.Since(start))
			})
		})
	}
}

// Connected validators get the request at once. The round waits for missing ones only as long as they
// may still connect.
func TestScenario_7_1_02_InsufficientConnectedStake(t *testing.T) {
	n := newFakeNetwork(t, 40, 30, 30)
	n.validators[1].offline, n.validators[2].offline = true, true
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, DefaultLimits().ConnectGrace, time.Since(start))
		require.Equal(t, uint64(40), failed.Account.ConnectedWeight)
		require.Equal(t, uint64(40), failed.Account.SignedWeight)
		require.Equal(t, uint64(60), failed.Account.DisconnectedWeight)
		require.Equal(t, uint64(67), failed.Account.TargetWeight)
		require.Len(t, n.asked, 1)
		require.Equal(t, start, n.asked[0].at, "no gate on connected stake")
	})
}

func TestScenario_7_1_03_NoResponses(t *testing.T) {
	n := newFakeNetwork(t, 40, 30, 30)
	for _, v := range n.validators {
		v.do = mute
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(100), failed.Account.SilentWeight)
		require.Len(t, failed.Account.SilentNodes, 3)
		require.Equal(t, n.validators[0].nodeIDs[0], failed.Account.SilentNodes[0], "the heaviest first")
		require.Equal(t, 3, n.requests, "the silent are asked once")
		require.LessOrEqual(t, time.Since(start), DefaultLimits().AnswerTimeout+time.Second)
	})
}

func TestScenario_7_1_04_Success(t *testing.T) {
	n := newFakeNetwork(t, 10, 20, 30, 40)
	for _, v := range n.validators[:2] {
		v.do = honest(15 * time.Millisecond)
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, 2, r.Signers, "the two heaviest carry 70 of 100")
		require.Equal(t, uint64(70), r.Weight)
		require.Equal(t, uint64(100), r.TotalWeight)
		require.Equal(t, uint64(10), r.PChainHeight)
	})
}

// Among validators of equal weight, the canonical order decides whom to ask and who signs.
func TestScenario_7_1_05_WeightSortIsStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for range 300 {
		weights := make([]uint64, 1+rng.IntN(40))
		for i := range weights {
			weights[i] = 1 + rng.Uint64N(3) // many ties
		}
		want := make([]int, len(weights))
		for i := range want {
			want[i] = i
		}
		slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })

		r := roundOf(weights, quick)
		goal := r.set.MinWeight(1 + rng.Uint64N(100))
		r.join(&waiter{need: goal, want: goal}, 0)
		picked, _ := r.plan.pick(r, 0)
		require.Equal(t, want[:len(picked)], inOrderOf(want, picked))

		for i := range weights {
			r.answered(r.nodeID(i), nil, true)
		}
		members, _ := r.signers(goal)
		require.Equal(t, want[:len(members)], inOrderOf(want, members))
	}
}

// inOrderOf lists members in the order in which they stand in all.
func inOrderOf(all, members []int) []int {
	ordered := []int{}
	for _, i := range all {
		if slices.Contains(members, i) {
			ordered = append(ordered, i)
		}
	}
	return ordered
}

func TestScenario_7_1_06_WhomToAsk(t *testing.T) {
	t.Run("not the light tail", func(t *testing.T) {
		weights := sameWeights(40, 1)
		for i := range 10 {
			weights[4*i] = 1000
		}
		n := newFakeNetwork(t, weights...)
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
			for _, v := range n.validators {
				if v.weight == 1 {
					require.Zero(t, v.requests, "30 validators of a thousandth each decide nothing")
				}
			}
		})
	})
	t.Run("not who is known to have signed", func(t *testing.T) {
		n := newFakeNetwork(t, 25, 25, 25, 25)
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			message := testMessage(t, "m")
			known := make(map[int]int) // signers so far, and how often they had been asked
			for _, quorum := range []uint64{25, 50, 75, 100} {
				r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: quorum})
				require.NoError(t, err)
				requireValid(t, n, r, quorum)
				settle() // until it is kept
				for i, before := range known {
					require.Equal(t, before, n.by(n.set().Validators[i].NodeIDs[0]).requests, "asked again at %d %%", quorum)
				}
				for _, i := range signersOf(t, r) {
					known[i] = n.by(n.set().Validators[i].NodeIDs[0]).requests
				}
			}
			require.Len(t, known, 4)
		})
	})
	t.Run("not who is unconnected", func(t *testing.T) {
		n := newFakeNetwork(t, 25, 25, 25, 25)
		n.validators[2].offline = true
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
			require.Zero(t, n.validators[2].requests)
			require.Equal(t, uint64(25), r.Account.DisconnectedWeight)
		})
	})
}

// One validator signs, the other refuses: there is a message exactly if the
// verifier's own rule, weight*100 >= total*quorum, is met.
func TestScenario_7_1_07_PercentBoundaries(t *testing.T) {
	for _, total := range []uint64{2, 3, 7, 99, 100, 101, 1_000_003, 1<<63 + 5} {
		for _, quorum := range []uint64{1, 33, 34, 50, 66, 67, 80, 99, 100} {
			need, rest := new(big.Int).DivMod(new(big.Int).Mul(new(big.Int).SetUint64(total), new(big.Int).SetUint64(quorum)), big.NewInt(100), new(big.Int))
			ceil := need.Uint64()
			if rest.Sign() > 0 {
				ceil++
			}
			for _, weight := range []uint64{ceil - 1, ceil, ceil + 1} {
				if weight == 0 || weight >= total {
					continue
				}
				n := newFakeNetwork(t, weight, total-weight)
				n.validators[1].do = refuse(-2, "unregistered handler", 0)
				run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
					r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: quorum})
					if weight < ceil {
						failed := requireFailure(t, err, CodeRefused)
						require.Equal(t, ceil, failed.Account.TargetWeight, "%d %% of %d", quorum, total)
						return
					}
					require.NoError(t, err, "%d of %d for %d %%", weight, total, quorum)
					requireValid(t, n, r, quorum)
					require.Equal(t, weight, r.Weight)
				})
			}
		}
	}
}

func TestScenario_7_1_08_HighWeightFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 8))
	for range 10 {
		weights := make([]uint64, 50)
		for i := range weights {
			weights[i] = uint64(1000 / (1 + i))
		}
		rng.Shuffle(len(weights), func(i, j int) { weights[i], weights[j] = weights[j], weights[i] })
		n := newFakeNetwork(t, weights...)
		run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 50})
			require.NoError(t, err)
			requireValid(t, n, r, 50)
			least, most := ^uint64(0), uint64(0)
			for _, v := range n.validators {
				if v.requests > 0 {
					least = min(least, v.weight)
				} else {
					most = max(most, v.weight)
				}
			}
			require.GreaterOrEqual(t, least, most, "the round asked a lighter validator than one it did not ask")
			require.Less(t, n.requests, 50)
		})
	}
}

func TestScenario_7_1_09_SilentValidatorButQuorum(t *testing.T) {
	n := newFakeNetwork(t, 33, 27, 20, 20)
	n.validators[0].do = mute
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		require.Equal(t, 1, n.validators[0].requests)
		require.Equal(t, uint64(33), r.Account.UnansweredWeight)
		require.Less(t, time.Since(start), time.Second, "the round does not wait for the silent validator")
	})
}

// An answer that is not a signature counts as malformed and does not affect the others.
func TestScenario_7_1_10_ResponsesThatAreNoSignature(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 10))
	random := make([]byte, 96)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for name, response := range map[string][]byte{
		"nil":             nil,
		"empty":           {},
		"empty protobuf":  respond(nil),
		"random 96 bytes": respond(random),
	} {
		t.Run(name, func(t *testing.T) { requireOneFaultHarmless(t, func(*fakeNetwork) behave { return answer(response) }) })
	}
}

// requireOneFaultHarmless has the first of four equal validators answer what is
// no valid signature of its own: a quorum of 67 is met without it, one of 100
// fails at once and says whose fault it is.
func requireOneFaultHarmless(t *testing.T, fault func(n *fakeNetwork) behave) {
	t.Helper()
	n := newFakeNetwork(t, 25, 25, 25, 25)
	n.validators[0].do = fault(n)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		start := time.Now()
		for i := range 3 {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, fmt.Sprint(i))})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
			require.Equal(t, uint64(75), r.Weight)
		}
		require.Less(t, time.Since(start), time.Second)
		start = time.Now()
		message := testMessage(t, "all")
		_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(25), failed.Account.InvalidWeight)
		require.Less(t, time.Since(start), 100*time.Millisecond, "what is invalid will not become valid")
		// The culprit is struck off, the others go on.
		r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 75})
		require.NoError(t, err)
		requireValid(t, n, r, 75)
		i, ok := n.set().Index(n.validators[0].nodeIDs[0])
		require.True(t, ok)
		require.NotContains(t, signersOf(t, r), i)
	})
}

func TestScenario_7_1_12_SigningSubnet(t *testing.T) {
	l1, other := ids.ID{1}, ids.ID{2}
	unknown := ids.ID{9}
	for _, test := range []struct {
		name     string
		chain    ids.ID
		explicit *ids.ID
		want     ids.ID
		code     Code
	}{
		{name: "that of the source blockchain", chain: testChain, want: l1},
		{name: "the one that is named", chain: testChain, explicit: &other, want: other},
		{name: "the primary network, named", chain: testChain, explicit: &ids.ID{}, want: constants.PrimaryNetworkID},
		{name: "the primary network for the P-Chain", chain: constants.PlatformChainID, want: constants.PrimaryNetworkID},
		{name: "an L1 for the P-Chain", chain: constants.PlatformChainID, explicit: &l1, want: l1},
		{name: "named for an unknown blockchain", chain: unknown, explicit: &l1, want: l1},
		{name: "none for an unknown blockchain", chain: unknown, code: CodeUnknownBlockchain},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, 60, 40)
			n.owners = map[ids.ID]ids.ID{testChain: l1}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				r, err := a.Sign(ctx, Request{Message: testMessageFrom(t, testNetworkID, test.chain, "m"), SigningSubnetID: test.explicit})
				if test.code != "" {
					failed := requireFailure(t, err, test.code)
					require.Contains(t, failed.Message, unknown.String())
					require.Zero(t, n.requests)
					return
				}
				require.NoError(t, err)
				requireValid(t, n, r, 67)
				for _, asked := range n.setsOf {
					require.Equal(t, test.want, asked)
				}
				for _, q := range n.asked {
					require.Equal(t, test.chain, q.chainID, "requests name the source blockchain, whatever the signing subnet")
				}
			})
		})
	}
}

// Cached signatures of validators that are about to leave are used only if the others do not suffice.
func TestScenario_7_1_13_CacheReuseWithExcluded(t *testing.T) {
	n := newFakeNetwork(t, 20, 20, 20, 20, 20)
	n.subnetID = ids.ID{7}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100, SigningSubnetID: &n.subnetID})
		require.NoError(t, err)
		settle()
		require.Equal(t, 5, n.requests)

		// All signatures are known: the round sends no request, and uses those of avoided validators where it must.
		n.avoid = map[int]struct{}{0: {}, 3: {}}
		for _, quorum := range []uint64{60, 80} {
			r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: quorum, SigningSubnetID: &n.subnetID})
			require.NoError(t, err)
			requireValid(t, n, r, quorum)
			require.Equal(t, quorum, r.Weight)
		}
		require.Equal(t, 5, n.requests, "what is remembered is not asked for")
	})

	// The signers, once the round knows whom to avoid.
	r := roundOf(sameWeights(5, 20), quick)
	for i := range 5 {
		r.known(i, nil)
	}
	r.avoid(map[int]struct{}{0: {}, 3: {}})
	members, _ := r.signers(60)
	require.Equal(t, []int{1, 2, 4}, members)
	members, weight := r.signers(80)
	require.Equal(t, []int{0, 1, 2, 4}, members)
	require.Equal(t, uint64(80), weight)
}

// Taking the heaviest first gives the smallest possible number of signers.
func TestScenario_7_1_14_PruningIsGreedy(t *testing.T) {
	r := startedRound(t, &waiter{need: 50, want: 50})
	for i := range r.members {
		r.answered(r.nodeID(i), nil, true)
	}
	members, weight := r.signers(50)
	require.Equal(t, []int{0, 1}, members)
	require.Equal(t, uint64(70), weight)
	r.avoid(map[int]struct{}{0: {}})
	members, weight = r.signers(50)
	require.Equal(t, []int{1, 2}, members, "those about to leave come last")
	require.Equal(t, uint64(50), weight)

	rng := rand.New(rand.NewPCG(1, 14))
	for range 200 {
		weights := randomWeights(rng, 1+rng.IntN(10))
		r := roundOf(weights, quick)
		for i := range weights {
			r.answered(r.nodeID(i), nil, true)
		}
		target := 1 + rng.Uint64N(r.set.TotalWeight)
		fewest := len(weights)
		for subset := range 1 << len(weights) {
			var sum uint64
			for i, w := range weights {
				if subset>>i&1 == 1 {
					sum += w
				}
			}
			if sum >= target {
				fewest = min(fewest, bits.OnesCount(uint(subset)))
			}
		}
		members, weight := r.signers(target)
		require.Len(t, members, fewest, "%v for %d", weights, target)
		require.GreaterOrEqual(t, weight, target)
		require.True(t, slices.IsSorted(members))
	}
}

func TestScenario_7_1_15_SingleHeavySigner(t *testing.T) {
	n := newFakeNetwork(t, 10, 10, 70, 10)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.NoError(t, err)
		requireValid(t, n, r, 67)
		heavy, _ := n.set().Index(n.validators[2].nodeIDs[0])
		require.Equal(t, []int{heavy}, signersOf(t, r))
		require.Equal(t, uint64(70), r.Weight)
	})
}

func TestScenario_7_1_16_NothingToPrune(t *testing.T) {
	n := newFakeNetwork(t, 10, 20, 30, 40)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		require.Equal(t, []int{0, 1, 2, 3}, signersOf(t, r))
	})
}

func TestScenario_7_1_17_BelowQuorumThereIsNoMessage(t *testing.T) {
	n := newFakeNetwork(t, 30, 30, 40)
	n.validators[2].do = refuse(-2, "unregistered handler", 20*time.Millisecond)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		require.Nil(t, r)
		failed := requireFailure(t, err, CodeRefused)
		require.Equal(t, uint64(60), failed.Account.SignedWeight)
		r, err = a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 61})
		require.Nil(t, r)
		requireFailure(t, err, CodeRefused)
		r, err = a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 60})
		require.NoError(t, err)
		requireValid(t, n, r, 60)
	})
}

func TestScenario_7_1_18_ConnectedWeight(t *testing.T) {
	n := newFakeNetwork(t, 50, 30, 20)
	n.validators[0].nodeIDs = []ids.NodeID{{7, 1}, {7, 2}}
	n.validators[1].offline = true
	for _, v := range n.validators {
		v.do = mute
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		time.AfterFunc(time.Second, func() { n.announce(ids.NodeID{99}, ids.NodeID{7, 2}) }) // a stranger, and one that counts already
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeQuorumNotReached)
		require.Equal(t, uint64(70), failed.Account.ConnectedWeight, "nodes of one key count once")
		require.Equal(t, uint64(30), failed.Account.DisconnectedWeight)
	})
}

// The signed weight is below, at and above the threshold: by one validator, by several of equal
// weight, and by several of different weight.
func TestScenario_7_1_21_Thresholds(t *testing.T) {
	for _, test := range []struct {
		name    string
		weights []uint64 // the first signers of these sign
		signers int
		quorum  uint64
		ok      bool
	}{
		{"single, below", []uint64{49, 51}, 1, 50, false},
		{"single, equal", []uint64{50, 50}, 1, 50, true},
		{"single, above", []uint64{51, 49}, 1, 50, true},
		{"several of equal weight, below", []uint64{20, 20, 20, 20, 20}, 2, 60, false},
		{"several of equal weight, equal", []uint64{20, 20, 20, 20, 20}, 3, 60, true},
		{"several of equal weight, above", []uint64{20, 20, 20, 20, 20}, 4, 60, true},
		{"several of different weight, below", []uint64{10, 20, 29, 41}, 3, 60, false},
		{"several of different weight, equal", []uint64{10, 20, 30, 40}, 3, 60, true},
		{"several of different weight, above", []uint64{10, 20, 31, 39}, 3, 60, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, test.weights...)
			for _, v := range n.validators[test.signers:] {
				v.do = refuse(-2, "unregistered handler", 0)
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: test.quorum})
				if !test.ok {
					requireFailure(t, err, CodeRefused)
					return
				}
				require.NoError(t, err)
				requireValid(t, n, r, test.quorum)
				require.GreaterOrEqual(t, r.Weight, test.quorum)
			})
		})
	}
}

func TestScenario_7_1_22_SharedKeys(t *testing.T) {
	for _, test := range []struct {
		name    string
		weights []uint64
		shared  []int // by three nodes each
		quorum  uint64
		signers int
	}{
		{"shared alone", []uint64{90}, []int{0}, 100, 1},
		{"shared suffices", []uint64{60, 40}, []int{0}, 60, 1},
		{"shared and unique", []uint64{60, 40}, []int{0}, 61, 2},
		{"two shared", []uint64{60, 39}, []int{0, 1}, 100, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newFakeNetwork(t, test.weights...)
			for _, i := range test.shared {
				n.validators[i].nodeIDs = []ids.NodeID{{7, byte(i), 1}, {7, byte(i), 2}, {7, byte(i), 3}}
			}
			run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
				r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: test.quorum})
				require.NoError(t, err)
				requireValid(t, n, r, test.quorum)
				require.Equal(t, test.signers, r.Signers)
				for _, v := range n.validators {
					require.LessOrEqual(t, v.requests, 1, "one signature of a key is enough")
				}
			})
		})
	}
}

// A waiter whose context ends gets an error; at a deadline with the weight that was reached.
func TestScenario_7_1_23_ContextEnds(t *testing.T) {
	for name, weights := range map[string][]uint64{"single": {100}, "several": {40, 30, 30}} {
		for _, deadline := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", deadline ", deadline), func(t *testing.T) {
				n := newFakeNetwork(t, weights...)
				last := n.validators[len(weights)-1]
				last.do = mute
				run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					if deadline {
						ctx, cancel = context.WithTimeout(ctx, time.Second)
						defer cancel()
					} else {
						time.AfterFunc(time.Second, cancel)
					}
					start := time.Now()
					r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 100})
					require.Nil(t, r)
					require.Equal(t, time.Second, time.Since(start))
					if !deadline {
						require.ErrorIs(t, err, context.Canceled)
						require.False(t, errors.As(err, new(*Error)), "got %v", err)
						return
					}
					failed := requireFailure(t, err, CodeQuorumNotReached)
					require.Equal(t, 100-last.weight, failed.Account.SignedWeight, "what had arrived was verified")
					require.Equal(t, last.weight, failed.Account.UnansweredWeight)
				})
			})
		}
	}
}

// A later request for a message uses the signatures at hand: no validator signs twice.
func TestScenario_7_1_24_ResumesFromWhatIsSigned(t *testing.T) {
	n := newFakeNetwork(t, 40, 30, 20, 10)
	for _, v := range n.validators[2:] {
		v.do = mute
	}
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		message := testMessage(t, "m")
		r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 70})
		require.NoError(t, err)
		require.Equal(t, 2, r.Signers)
		settle()
		for _, v := range n.validators[2:] {
			v.do, v.requests = honest(time.Millisecond), 0
		}
		r, err = a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n, r, 100)
		for i, v := range n.validators {
			require.Equal(t, 1, v.requests, "validator %d", i)
		}
	})
}

// handlers is a Transport whose validators are avalanchego's own ACP-118
// handlers.
type handlers struct {
	*fakeNetwork
	byNode map[ids.NodeID]*acp118.Handler
}

func (h *handlers) Request(ctx context.Context, _ ids.ID, nodes []ids.NodeID, request []byte, onAnswer func(p2p.Answer)) []ids.NodeID {
	for _, nodeID := range nodes {
		h.requests++
		handlerID, body, ok := avap2p.ParseMessage(request)
		if !ok || handlerID != acp118.HandlerID {
			panic(fmt.Sprintf("the request is for handler %d, want %d", handlerID, acp118.HandlerID))
		}
		response, refusal := h.byNode[nodeID].AppRequest(ctx, ids.NodeID{}, time.Time{}, body)
		a := p2p.Answer{NodeID: nodeID, Bytes: response, Elapsed: time.Millisecond}
		if refusal != nil {
			a.Err = refusal
		}
		time.AfterFunc(time.Millisecond, func() { onAnswer(a) })
	}
	return nodes
}

// verdict is what the verifiers of handlers say; it counts how often they are asked.
type verdict struct {
	refusal *common.AppError
	asked   int
}

func (v *verdict) Verify(context.Context, *warp.UnsignedMessage, []byte) *common.AppError {
	v.asked++
	return v.refusal
}

// runHandlers gives test an aggregator over four handlers that sign for
// testNetworkID and testChain.
func runHandlers(t *testing.T, cached bool, test func(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, v *verdict)) {
	n := &handlers{fakeNetwork: newFakeNetwork(t, 25, 25, 25, 25), byNode: make(map[ids.NodeID]*acp118.Handler)}
	v := new(verdict)
	for _, one := range n.validators {
		var signatures cache.Cacher[ids.ID, []byte] = &cache.Empty[ids.ID, []byte]{}
		if cached {
			signatures = lru.NewCache[ids.ID, []byte](10)
		}
		n.byNode[one.nodeIDs[0]] = acp118.NewCachedHandler(signatures, v, warp.NewSigner(one.signer, testNetworkID, testChain))
	}
	synctest.Test(t, func(t *testing.T) {
		a := newTestAggregator(t, n.fakeNetwork)
		a.transport = n
		defer a.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		test(t, ctx, n, a, v)
	})
}

func TestScenario_7_1_25_HandlerRefuses(t *testing.T) {
	runHandlers(t, false, func(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, v *verdict) {
		v.refusal = &common.AppError{Code: 2, Message: "failed to parse the payload"}
		start := time.Now()
		_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
		failed := requireFailure(t, err, CodeRefused)
		require.Equal(t, int32(2), failed.Account.Refusals[0].Code)
		require.Contains(t, failed.Message, "failed to parse the payload")
		require.Positive(t, v.asked)
		require.Less(t, time.Since(start), 100*time.Millisecond)
	})
}

func TestScenario_7_1_26_HandlerSigns(t *testing.T) {
	runHandlers(t, false, func(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, v *verdict) {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Justification: []byte("because"), QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n.fakeNetwork, r, 100)
		require.Equal(t, 4, v.asked)
	})
}

// A handler that caches its signature returns it although its verifier by now refuses. A second
// service, without a cache, benefits.
func TestScenario_7_1_27_HandlerSignsFromItsCache(t *testing.T) {
	runHandlers(t, true, func(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, v *verdict) {
		message := testMessage(t, "m")
		_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		require.NoError(t, err)
		require.Equal(t, 4, v.asked)
		v.refusal = &common.AppError{Code: -2}
		second := newTestAggregator(t, n.fakeNetwork)
		second.transport = n
		defer second.Close()
		r, err := second.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
		require.NoError(t, err)
		requireValid(t, n.fakeNetwork, r, 100)
		require.Equal(t, 4, v.asked, "the verifiers are not asked again")
		require.Equal(t, 8, n.requests)
	})
}

func TestScenario_7_1_28_HandlerOfAnotherNetwork(t *testing.T) {
	runHandlers(t, false, func(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, _ *verdict) {
		requireRefusedForGood(t, ctx, n, a, testMessageFrom(t, testNetworkID+1, testChain, "m"), warp.ErrWrongNetworkID)
	})
}

func TestScenario_7_1_29_HandlerOfAnotherBlockchain(t *testing.T) {
	runHandlers(t, false, func(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, _ *verdict) {
		requireRefusedForGood(t, ctx, n, a, testMessageFrom(t, testNetworkID, ids.ID{'o', 't', 'h', 'e', 'r'}, "m"), warp.ErrWrongSourceChainID)
	})
}

func requireRefusedForGood(t *testing.T, ctx context.Context, n *handlers, a *Aggregator, m *warp.UnsignedMessage, reason error) {
	t.Helper()
	start := time.Now()
	_, err := a.Sign(ctx, Request{Message: m})
	failed := requireFailure(t, err, CodeRefused)
	require.Contains(t, failed.Message, reason.Error())
	require.Less(t, time.Since(start), 100*time.Millisecond, "waiting does not cure it")
	require.LessOrEqual(t, n.requests, 4)
}
