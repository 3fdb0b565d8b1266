package aggregator

import (
	"math"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Assumptions about a validator without measurements, and how fast old measurements lose
// their weight.
const (
	priorMedian  = 60 * time.Millisecond
	priorSpread  = 1.0 // standard deviation of the logarithm of the answer time
	priorSuccess = 0.95
	minSpread    = 0.05
	learnRate    = 0.2
	historyHalf  = 10 * time.Minute
	maxHistories = 1 << 15
	// nodeMemory and crowdMemory are how many answers an average reaches back.
	nodeMemory  = 20
	crowdMemory = 2000
)

// expectation describes a validator's next answer. The answer time is log-normal with the
// given mean and spread of its logarithm (of nanoseconds). The answer is a valid signature
// with probability success.
type expectation struct {
	mean, spread, success float64
}

// by returns the probability that a valid signature arrives within t of the request.
func (e expectation) by(t time.Duration) float64 {
	if t <= 0 {
		return 0
	}
	return e.byLog(math.Log(float64(t)))
}

// byLog is by for the logarithm of a time in nanoseconds, for repeated calls.
func (e expectation) byLog(logT float64) float64 {
	return e.success * normal.below((logT-e.mean)/e.spread)
}

// history remembers how validators answered, across rounds: their answer times
// and whether they signed. It only orders and sizes the fan-out, it never
// decides what counts. Safe for concurrent use; bounded to maxHistories nodes.
//
// How far a validator's own average is believed depends on how much validators
// differ at all: the variance of all answer times is split into a part between
// validators and a part within each, and an average is drawn towards the crowd's
// accordingly. Where answer times are pure chance, a lucky validator is not taken for
// a fast one.
type history struct {
	mu     sync.Mutex
	nodes  map[ids.NodeID]*nodeHistory
	crowd  average // of the logarithm of all answer times
	within average // of squared deviations from the node's own average; only the mean is used
	margin float64 // standard deviations by which a wave exceeds the target
}

// average of a series that forgets.
type average struct {
	mean, variance float64
	n              float64 // values it reaches back, at most its memory
}

func (a *average) add(x, memory float64) {
	a.n = math.Min(a.n+1, memory)
	d := x - a.mean
	a.mean += d / a.n
	a.variance += (d*(x-a.mean) - a.variance) / a.n
}

type nodeHistory struct {
	times   average // of the logarithm of its answer times
	success float64
	// trusted: its latest signature was verified, so the next one is presumed
	// good until the finished message is verified.
	trusted bool
	seen    time.Time
}

func newHistory() *history {
	return &history{
		nodes: make(map[ids.NodeID]*nodeHistory),
		// Worth a few answers, so that the first real ones soon outweigh it.
		crowd:  average{mean: math.Log(float64(priorMedian)), variance: priorSpread * priorSpread, n: 5},
		within: average{mean: priorSpread * priorSpread, n: 5},
		margin: 0.5,
	}
}

// expect says what to expect of nodeID now; knowledge fades towards the crowd's.
// h.mu is held.
func (h *history) expect(nodeID ids.NodeID, now time.Time) (e expectation, trusted bool) {
	n, ok := h.nodes[nodeID]
	if !ok {
		n = &nodeHistory{success: priorSuccess, seen: now}
	}
	keep := math.Exp2(-float64(now.Sub(n.seen)) / float64(historyHalf))
	within := math.Min(h.within.mean, h.crowd.variance)
	between := h.crowd.variance - within
	belief := 0.0
	if count := n.times.n * keep; count > 0 && between > 0 {
		belief = between / (between + within/count)
	}
	return expectation{
		mean:    h.crowd.mean + belief*(n.times.mean-h.crowd.mean),
		spread:  math.Max(math.Sqrt(within+(1-belief)*between), minSpread),
		success: keep*n.success + (1-keep)*priorSuccess,
	}, n.trusted
}

func (h *history) node(nodeID ids.NodeID, now time.Time) *nodeHistory {
	n, ok := h.nodes[nodeID]
	if !ok {
		if len(h.nodes) >= maxHistories {
			for victim := range h.nodes { // any: the order is only a hint
				delete(h.nodes, victim)
				break
			}
		}
		n = &nodeHistory{success: priorSuccess}
		h.nodes[nodeID] = n
	}
	n.seen = now
	return n
}

// answered records a signature that arrived after elapsed.
func (h *history) answered(nodeID ids.NodeID, elapsed time.Duration, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.node(nodeID, now)
	x := math.Log(math.Max(float64(elapsed), 1))
	if count := n.times.n; count > 0 {
		d := x - n.times.mean
		h.within.add(d*d/(1+1/count), crowdMemory)
	}
	n.times.add(x, nodeMemory)
	h.crowd.add(x, crowdMemory)
	n.success += learnRate * (1 - n.success)
}

// failed records that a node refused, did not answer in time or could not be asked.
func (h *history) failed(nodeID ids.NodeID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.node(nodeID, now)
	n.success -= learnRate * n.success
}

// judged records the verdict on a signature: a forger goes to the end of the
// order and is checked at once next time; a verified signer is presumed good.
func (h *history) judged(nodeID ids.NodeID, good bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.node(nodeID, now)
	n.trusted = good
	if !good {
		n.success = math.Min(n.success, 0.05)
	}
}

// presumed records that nodeID's signature was part of a message that verified.
func (h *history) presumed(nodeID ids.NodeID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.node(nodeID, now).trusted = true
}

// slipped and kept teach the margin: a round that needed a further wave wants
// more next time, one that did not wants a little less.
func (h *history) slipped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.margin = math.Min(h.margin+0.05, 2)
}

func (h *history) kept() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.margin = math.Max(h.margin-0.01, 0.25)
}
