package aggregator

import (
	"maps"
	"math"
	"sync"
	"time"
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
	// maxStruck is how many signers with strikes are saved.
	maxStruck = 1000
	// struckSuccess bounds the expected success of a struck signer.
	struckSuccess = 0.05
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

// history remembers how validators answered, across rounds: their answer times, whether they
// answered, and whether their signatures were valid. It orders and sizes the fan-out, and says
// which signatures to verify first. It is safe for concurrent use and bounded to maxHistories
// signers.
//
// The estimate for a validator is its own average, shrunk towards the average of all. The
// shrinkage grows with the share of the variance that lies within validators, so that a
// lucky validator does not count as a fast one.
type history struct {
	mu      sync.Mutex
	answers map[signer]*answers
	signers map[signer]standing
	crowd   average // of the logarithm of all answer times
	within  average // of squared deviations from the signer's own average; only the mean is used
	margin  float64 // standard deviations by which a wave exceeds the target
	// version counts the changes of signers with strikes, saved is the version that was saved.
	version, saved uint64
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

// answers is what is known of the answers of a signer.
type answers struct {
	times   average // of the logarithm of their times
	success float64 // probability that it answers, whether with a valid signature or not
	seen    time.Time
}

func newHistory() *history {
	return &history{
		answers: make(map[signer]*answers),
		signers: make(map[signer]standing),
		// Worth a few answers, so that the first real ones soon outweigh it.
		crowd:  average{mean: math.Log(float64(priorMedian)), variance: priorSpread * priorSpread, n: 5},
		within: average{mean: priorSpread * priorSpread, n: 5},
		margin: 0.5,
	}
}

// expect returns what to expect of s now, and whether to ask it last. Knowledge of answer times
// fades towards the crowd's. h.mu is held.
func (h *history) expect(s signer, now time.Time) (e expectation, struck bool) {
	n, ok := h.answers[s]
	if !ok {
		n = &answers{success: priorSuccess, seen: now}
	}
	keep := math.Exp2(-float64(now.Sub(n.seen)) / float64(historyHalf))
	within := math.Min(h.within.mean, h.crowd.variance)
	between := h.crowd.variance - within
	belief := 0.0
	if count := n.times.n * keep; count > 0 && between > 0 {
		belief = between / (between + within/count)
	}
	e = expectation{
		mean:    h.crowd.mean + belief*(n.times.mean-h.crowd.mean),
		spread:  math.Max(math.Sqrt(within+(1-belief)*between), minSpread),
		success: keep*n.success + (1-keep)*priorSuccess,
	}
	if h.signers[s].at(now).struck() {
		e.success = math.Min(e.success, struckSuccess)
		return e, true
	}
	return e, false
}

func (h *history) of(s signer, now time.Time) *answers {
	n, ok := h.answers[s]
	if !ok {
		if len(h.answers) >= maxHistories {
			for victim := range h.answers { // any: the order is only a hint
				delete(h.answers, victim)
				break
			}
		}
		n = &answers{success: priorSuccess}
		h.answers[s] = n
	}
	n.seen = now
	return n
}

// answered records a signature that arrived after elapsed, and reports whether it counts before
// it is verified.
func (h *history) answered(s signer, elapsed time.Duration, now time.Time) (trusted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.of(s, now)
	x := math.Log(math.Max(float64(elapsed), 1))
	if count := n.times.n; count > 0 {
		d := x - n.times.mean
		h.within.add(d*d/(1+1/count), crowdMemory)
	}
	n.times.add(x, nodeMemory)
	h.crowd.add(x, crowdMemory)
	n.success += learnRate * (1 - n.success)
	return h.signers[s].at(now).trusted()
}

// failed records that a signer refused, did not answer in time or could not be asked.
func (h *history) failed(s signer, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.of(s, now)
	n.success -= learnRate * n.success
}

// judged records whether a signature was valid.
func (h *history) judged(s signer, valid bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, ok := h.signers[s]
	if !ok && len(h.signers) >= maxHistories {
		for victim := range h.signers { // any; an unknown signer is not trusted
			delete(h.signers, victim)
			break
		}
	}
	after := before.judged(valid, now)
	h.signers[s] = after
	if before.strikes > 0 || after.strikes > 0 {
		h.version++
	}
}

// strikes returns the signers with strikes and the version of this state.
// changed is false if that version was saved.
func (h *history) strikes(now time.Time) (all []Strikes, version uint64, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version == h.saved {
		return nil, h.version, false
	}
	all = make([]Strikes, 0)
	for s, before := range h.signers {
		if at := before.at(now); at.strikes > 0 {
			all = append(all, Strikes{NodeID: s.node, PublicKey: s.key[:], Count: at.strikes, Since: at.since, Verified: at.verified})
		}
	}
	return all, h.version, true
}

func (h *history) strikesSaved(version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saved = version
}

// restore adds strikes of an earlier run. It keeps what is known of this run.
func (h *history) restore(all []Strikes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	restored := make(map[signer]standing, len(all))
	for _, s := range all[:min(len(all), maxStruck)] {
		if len(s.PublicKey) == keyLen && s.Count > 0 {
			restored[signer{s.NodeID, publicKey(s.PublicKey)}] = standing{strikes: min(s.Count, maxStrikes), since: s.Since, verified: max(s.Verified, 0)}
		}
	}
	maps.Copy(restored, h.signers)
	h.signers = restored
}

// planSlipped raises the margin, because a round needed a further wave.
func (h *history) planSlipped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.margin = math.Min(h.margin+0.05, 2)
}

// planHeld lowers the margin a little, because a round needed no further wave.
func (h *history) planHeld() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.margin = math.Max(h.margin-0.01, 0.25)
}

// answerTime returns the median of a signer's answer times; false if it has not answered.
func (h *history) answerTime(s signer) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.answers[s]
	if !ok || n.times.n == 0 {
		return 0, false
	}
	return time.Duration(math.Exp(n.times.mean)), true // the median of a log-normal distribution
}
