package aggregator

import (
	"math"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// What is assumed of a validator nobody has measured yet, and how fast old
// knowledge loses its weight.
const (
	priorMedian  = 60 * time.Millisecond
	priorSpread  = 1.0 // standard deviation of the logarithm of the answer time
	priorSuccess = 0.95
	minSpread    = 0.05
	learnRate    = 0.2
	historyHalf  = 10 * time.Minute
	maxHistories = 1 << 15
)

// expectation is what the planner believes of one validator's next answer: the
// answer time is log-normal with the given mean and spread of its logarithm (of
// nanoseconds), and it is a good signature with probability success.
type expectation struct {
	mean, spread, success float64
}

// by is the probability that a good answer has arrived within t of being asked.
func (e expectation) by(t time.Duration) float64 {
	if t <= 0 {
		return 0
	}
	return e.success * 0.5 * math.Erfc((e.mean-math.Log(float64(t)))/(e.spread*math.Sqrt2))
}

// history remembers how validators answered, across rounds: their answer times
// and whether they signed. It only orders and sizes the fan-out, it never
// decides what counts. Safe for concurrent use; bounded to maxHistories nodes.
type history struct {
	mu     sync.Mutex
	nodes  map[ids.NodeID]*nodeHistory
	crowd  nodeHistory // everybody together: the prior of those not yet known
	margin float64     // standard deviations by which a wave exceeds the target
}

type nodeHistory struct {
	mean, variance float64
	success        float64
	timed          bool
	// trusted: its latest signature was proven, so the next one is presumed
	// good until the finished message is verified.
	trusted bool
	seen    time.Time
}

func newHistory() *history {
	return &history{
		nodes:  make(map[ids.NodeID]*nodeHistory),
		crowd:  nodeHistory{mean: math.Log(float64(priorMedian)), variance: priorSpread * priorSpread, success: priorSuccess, timed: true},
		margin: 1,
	}
}

// expect says what to expect of nodeID now; knowledge fades towards the crowd's.
func (h *history) expect(nodeID ids.NodeID, now time.Time) (e expectation, trusted bool) {
	n, ok := h.nodes[nodeID]
	if !ok {
		return h.crowd.expectation(), false
	}
	keep := math.Exp2(-float64(now.Sub(n.seen)) / float64(historyHalf))
	mean, variance := h.crowd.mean, h.crowd.variance
	if n.timed {
		mean, variance = n.mean, n.variance
	}
	mixed := nodeHistory{
		mean:     keep*mean + (1-keep)*h.crowd.mean,
		variance: keep*variance + (1-keep)*h.crowd.variance,
		success:  keep*n.success + (1-keep)*priorSuccess,
	}
	return mixed.expectation(), n.trusted
}

func (n *nodeHistory) expectation() expectation {
	return expectation{mean: n.mean, spread: math.Max(math.Sqrt(n.variance), minSpread), success: n.success}
}

func (n *nodeHistory) time(elapsed time.Duration, rate float64) {
	x := math.Log(math.Max(float64(elapsed), 1))
	if !n.timed {
		n.mean, n.timed = x, true
		return
	}
	d := x - n.mean
	n.mean += rate * d
	n.variance = (1 - rate) * (n.variance + rate*d*d)
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
		// A first measurement says little about the spread.
		n = &nodeHistory{success: priorSuccess, variance: h.crowd.variance / 4}
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
	n.time(elapsed, learnRate)
	n.success += learnRate * (1 - n.success)
	h.crowd.time(elapsed, 0.01)
}

// failed records a node that refused, stayed silent or could not be asked.
func (h *history) failed(nodeID ids.NodeID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.node(nodeID, now)
	n.success -= learnRate * n.success
}

// judged records the verdict on a signature: a forger goes to the end of the
// order and is checked at once next time; a proven signer is presumed good.
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
	h.margin = math.Min(h.margin+0.25, 3)
}

func (h *history) kept() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.margin = math.Max(h.margin-0.02, 0.5)
}
