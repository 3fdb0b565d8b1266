package aggregator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

func TestStanding(t *testing.T) {
	now := time.Unix(1e9, 0)
	var s standing
	require.False(t, s.trusted(), "an unknown signer")
	require.False(t, s.struck(), "an unknown signer")
	s = s.judged(true, now)
	require.True(t, s.trusted(), "one verified signature, no strike")
	for strikes := 1; strikes <= maxStrikes+2; strikes++ {
		s = s.judged(false, now)
		require.True(t, s.struck(), "%d strikes", strikes)
		price := strikePrice << (min(strikes, maxStrikes) - 1)
		for n := range price {
			require.False(t, s.trusted(), "%d strikes, %d verified", strikes, n)
			s = s.judged(true, now)
		}
		require.True(t, s.trusted(), "%d strikes, %d verified", strikes, price)
		require.False(t, s.struck())
	}
	s = standing{strikes: 3, since: now}
	for faded := range 5 {
		at := s.at(now.Add(time.Duration(faded) * strikeFade))
		require.Equal(t, max(3-faded, 0), at.strikes)
		require.Equal(t, faded < 3, at.struck())
		require.Equal(t, at, at.at(at.since), "fading is done once")
	}
	require.Equal(t, s, s.at(now.Add(-time.Hour)), "a clock that was set back")
}

// lies are the patterns of liars: whether liar i of count lies at its answer-th answer, to the
// message-th message.
func lies() map[string]func(i, count, answer, message int) bool {
	return map[string]func(i, count, answer, message int) bool{
		"always":               func(int, int, int, int) bool { return true },
		"every second answer":  func(_, _, answer, _ int) bool { return answer%2 == 1 },
		"every second message": func(_, _, _, message int) bool { return message%2 == 1 },
		"one at a time":        func(i, count, _, message int) bool { return message%count == i },
		"after earning trust":  func(_, _, answer, _ int) bool { return answer%20 == 19 },
	}
}

// liarNetwork has the first validators lie in a pattern.
type liarNetwork struct {
	*fakeNetwork

	message int // number of messages so far; guarded by mu
}

// stakes are distributions of weight, the liars' 20% first: spread over validators of all sizes.
func stakes(validators, liars int) map[string][]uint64 {
	heavy := make([]uint64, validators)
	for i := range heavy {
		// Liars take every fifth rank, so that they hold about a fifth of the weight.
		rank := i*5 + 2
		if i >= liars {
			k := i - liars
			rank = k + k/4
			if k%4 >= 2 {
				rank++
			}
		}
		heavy[i] = uint64(1e6 * math.Pow(float64(rank+10), -1.1))
	}
	return map[string][]uint64{"uniform": sameWeights(validators, 1000), "heavy": heavy}
}

func newLiarNetwork(t *testing.T, weights []uint64, liars int, lie behave, pattern func(i, count, answer, message int) bool) *liarNetwork {
	n := &liarNetwork{fakeNetwork: newFakeNetwork(t, weights...)}
	for i := range weights {
		after := time.Duration(10+i*7%20) * time.Millisecond
		good := honest(after)
		n.validators[i].do = good
		if i >= liars || pattern == nil {
			continue
		}
		answers := -1
		n.validators[i].do = func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
			answers++ // under the network's mutex
			if pattern(i, liars, answers, n.message) {
				b, err, _, ok := lie(v, m)
				return b, err, after, ok
			}
			return good(v, m)
		}
	}
	return n
}

// cost is what a number of messages took.
type cost struct {
	requests      int
	invalid       float64 // signatures
	verifications float64 // of batches in rounds
}

// signAll has messages signed one after another and checks each.
func (n *liarNetwork) signAll(t *testing.T, ctx context.Context, a *Aggregator, count int) (c cost) {
	t.Helper()
	requests, invalid, verifications := n.requests, counted(t, a.metrics.invalid), counted(t, a.metrics.verifications)
	for range count {
		r, err := a.Sign(ctx, Request{Message: testMessage(t, fmt.Sprint("message ", n.message))})
		require.NoError(t, err)
		requireValid(t, n.fakeNetwork, r, 67)
		settle()
		n.mu.Lock()
		n.message++
		n.mu.Unlock()
	}
	return cost{n.requests - requests, counted(t, a.metrics.invalid) - invalid, counted(t, a.metrics.verifications) - verifications}
}

func counted(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	m := families[0].GetMetric()[0]
	return m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
}

// A liar costs only at first: after ten messages a round takes no more requests and verifications than
// among honest validators.
func TestLiarCostsOnce(t *testing.T) {
	const validators, liars, learning, measured = 25, 5, 10, 20
	var swap sync.Map // signer of the other liar of a pair, by signer
	for _, stake := range []string{"uniform", "heavy"} {
		weights := stakes(validators, liars)[stake]
		measure := func(t *testing.T, lie behave, pattern func(i, count, answer, message int) bool) (first, c cost) {
			n := newLiarNetwork(t, weights, liars, lie, pattern)
			for i := range liars {
				swap.Store(n.validators[i], n.validators[i^1])
			}
			run(t, n.fakeNetwork, func(t *testing.T, ctx context.Context, a *Aggregator) {
				first = n.signAll(t, ctx, a, learning)
				c = n.signAll(t, ctx, a, measured)
			})
			return first, c
		}
		t.Run(stake, func(t *testing.T) {
			_, fair := measure(t, nil, nil)
			require.Zero(t, fair.invalid)
			for how, lie := range map[string]behave{
				"another message": forge,
				"keys swapped": func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
					other, _ := swap.Load(v)
					return respond(sign(other.(*fakeValidator), m.Bytes())), nil, 0, true
				},
				"no signature": answer(respond([]byte{1})),
			} {
				for name, pattern := range lies() {
					if how != "another message" && name != "always" && name != "one at a time" {
						continue
					}
					t.Run(how+" "+name, func(t *testing.T) {
						first, c := measure(t, lie, pattern)
						t.Logf("honest %+v, first %+v, then %+v", fair, first, c)
						require.Positive(t, first.invalid+c.invalid, "the liars lie")
						require.LessOrEqual(t, float64(c.requests), 1.3*float64(fair.requests))
						require.LessOrEqual(t, c.verifications, 1.3*fair.verifications+c.invalid+liars, "batches")
						require.LessOrEqual(t, first.invalid+c.invalid, float64(2*liars), "invalid signatures in all")
					})
				}
			}
		})
	}
}

// Whatever the pattern, each returned message is valid, and messages that contain an invalid signature
// become rare.
func TestLiarsRunDry(t *testing.T) {
	const validators, liars, messages = 15, 3, 80
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 20))
			often := make([]float64, liars)
			for i := range often {
				often[i] = rng.Float64()
			}
			n := newLiarNetwork(t, stakes(validators, liars)["heavy"], liars, forge, func(i, _, _, _ int) bool { return rng.Float64() < often[i] })
			run(t, n.fakeNetwork, func(t *testing.T, ctx context.Context, a *Aggregator) {
				first := n.signAll(t, ctx, a, messages/2)
				c := n.signAll(t, ctx, a, messages/2)
				t.Logf("lies with probabilities %.2f: %v invalid signatures, then %v", often, first.invalid, c.invalid)
				require.LessOrEqual(t, first.invalid+c.invalid, float64(2*liars))
				require.LessOrEqual(t, c.invalid, float64(liars))
			})
		})
	}
}

// A round asks a liar only if the quorum needs it; otherwise only the first messages get its invalid
// signatures.
func TestLiarIsAskedWhereTheQuorumNeedsIt(t *testing.T) {
	n := newLiarNetwork(t, sameWeights(4, 25), 1, forge, func(_, _, _, message int) bool { return message == 0 })
	run(t, n.fakeNetwork, func(t *testing.T, ctx context.Context, a *Aggregator) {
		n.signAll(t, ctx, a, 3)
		before := n.validators[0].requests
		n.signAll(t, ctx, a, 3)
		require.Equal(t, before, n.validators[0].requests, "three others are a quorum")
		n.validators[1].do = refuse(-2, "no", time.Millisecond)
		n.signAll(t, ctx, a, 3)
		require.Equal(t, before+3, n.validators[0].requests, "a quorum needs it")
	})
}

// A strike for one key does not count for another: an L1 may list the nodes of others with keys that
// are not theirs.
func TestStrikesBelongToNodeAndKey(t *testing.T) {
	n := newFakeNetwork(t, 50, 30, 20)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		node := n.validators[0].nodeIDs[0]
		a.history.judged(signer{node, publicKey{1}}, false, time.Now())
		r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), QuorumPercentage: 50})
		require.NoError(t, err)
		requireValid(t, n, r, 50)
		require.Equal(t, 1, n.validators[0].requests)

		set := n.set()
		i, _ := set.Index(node)
		a.history.judged(signer{node, keyOf(set.Validators[i])}, false, time.Now())
		_, err = a.Sign(ctx, Request{Message: testMessage(t, "another"), QuorumPercentage: 50})
		require.NoError(t, err)
		require.Equal(t, 1, n.validators[0].requests, "the two others are a quorum")
	})
}

// fakeStrikes is a StrikeStore.
type fakeStrikes struct {
	mu   sync.Mutex
	err  error
	all  []Strikes
	puts int
}

func (f *fakeStrikes) Load(context.Context) ([]Strikes, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all), f.err
}

func (f *fakeStrikes) Save(_ context.Context, all []Strikes) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts++
	if f.err == nil {
		f.all = slices.Clone(all)
	}
	return f.err
}

func TestStrikesSurviveARestart(t *testing.T) {
	n := newLiarNetwork(t, sameWeights(10, 10), 2, forge, func(int, int, int, int) bool { return true })
	kept := &fakeStrikes{}
	serve := func(t *testing.T, test func(ctx context.Context, a *Aggregator)) {
		synctest.Test(t, func(t *testing.T) {
			a, err := New(Options{Transport: n, Sets: n, Strikes: kept, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			require.NoError(t, err)
			defer a.Close()
			synctest.Wait()
			test(t.Context(), a)
		})
	}
	serve(t, func(ctx context.Context, a *Aggregator) {
		n.signAll(t, ctx, a, 3)
		time.Sleep(2 * strikePeriod)
		synctest.Wait()
		require.Len(t, kept.all, 2, "saved while it runs")
		puts := kept.puts
		n.signAll(t, ctx, a, 3)
		time.Sleep(2 * strikePeriod)
		synctest.Wait()
		require.Equal(t, puts, kept.puts, "nothing new to save")
	})
	before := n.validators[0].requests + n.validators[1].requests
	serve(t, func(ctx context.Context, a *Aggregator) {
		c := n.signAll(t, ctx, a, 3)
		require.Zero(t, c.invalid)
	})
	require.Equal(t, before, n.validators[0].requests+n.validators[1].requests, "liars were asked again after the restart")

	// Another process adds its own.
	serve(t, func(_ context.Context, a *Aggregator) {
		a.history.signers = make(map[signer]standing) // as if it had begun before they were saved
		a.history.judged(signer{node: ids.NodeID{1}}, false, time.Now())
		time.Sleep(2 * strikePeriod)
		synctest.Wait()
		require.Len(t, kept.all, 3)
		require.True(t, slices.ContainsFunc(kept.all, func(s Strikes) bool { return s.NodeID == ids.NodeID{1} }))
		require.Len(t, latestStrikes(append(kept.all, kept.all...), time.Now()), 3, "one for each signer")
		require.Empty(t, latestStrikes(kept.all, time.Now().Add(24*time.Hour)), "faded")
	})

	// A row that cannot be read is not overwritten.
	kept.err = io.ErrUnexpectedEOF
	puts := kept.puts
	serve(t, func(_ context.Context, a *Aggregator) {
		a.history.judged(signer{node: ids.NodeID{1}}, false, time.Now())
		time.Sleep(2 * strikePeriod)
	})
	require.Equal(t, puts, kept.puts)
}
