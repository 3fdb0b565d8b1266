package aggregator

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// planner chooses the validators to ask: as few as possible without finishing noticeably
// later than if it asked all of them.
type planner struct {
	// Margin is the number of standard deviations by which the expected weight
	// at the horizon must exceed the goal.
	Margin float64
	// Slack is how much later than the earliest possible finish the plan may
	// end, relative and absolute; it buys messages that need not be sent.
	Slack    float64
	SlackMin time.Duration
}

// A round that is alone may use the processor for answers that it will hardly need: its
// plan ends within 3 % of the network's own time. Among others the messages saved are
// worth more than a tenth of that time, because each answer delays another round's.
const (
	slackAlone    = 0.03
	slackMinAlone = time.Millisecond
	slackAmong    = 0.1
	slackMinAmong = 2 * time.Millisecond
	maxHorizon    = 10 * time.Second
	// precision is that of the earliest possible finish, as a ratio.
	precision = 1.01
)

// option is one validator that may still contribute.
type option struct {
	i      int
	weight float64
	expect expectation
	// inFlight since elapsed, or not asked yet.
	inFlight bool
	elapsed  time.Duration
	// early is the probability that an answer would have come within elapsed.
	early float64
}

// by is the probability that the option has contributed within t from now, logT being
// the logarithm of t in nanoseconds.
func (o *option) by(t time.Duration, logT float64) float64 {
	if !o.inFlight {
		return o.expect.byLog(logT)
	}
	// Given that nothing came so far: the rest of the distribution, scaled.
	if o.early >= 0.999 {
		return 0
	}
	return (o.expect.by(o.elapsed+t) - o.early) / (1 - o.early)
}

// pick returns the members to ask now and the time at which the goal is
// expected to be reached.
func (p planner) pick(r *round, now time.Duration) (members []int, horizon time.Duration) {
	goal := float64(r.goal())
	have := float64(r.verified + r.pending)
	options := make([]option, 0, len(r.members))
	var avoided []int
	for i := range r.members {
		m := &r.members[i]
		switch {
		case m.state == waiting:
			o := option{i: i, weight: float64(m.weight), expect: m.expect, inFlight: true, elapsed: now - m.askedAt}
			o.early = o.expect.by(o.elapsed)
			options = append(options, o)
		case m.state == idle && m.online:
			if m.avoid {
				avoided = append(avoided, i)
				continue
			}
			options = append(options, option{i: i, weight: float64(m.weight), expect: m.expect})
		}
	}
	if have >= goal {
		return nil, now
	}
	t, ok := p.earliest(options, have, goal)
	if !ok {
		// Even everybody is not expected to suffice: ask them all, and those
		// about to leave the set too.
		for _, i := range avoided {
			options = append(options, option{i: i, weight: float64(r.members[i].weight), expect: r.members[i].expect})
		}
		t, ok = p.earliest(options, have, goal)
		if !ok {
			t = maxHorizon
		}
	}
	t = min(t+max(time.Duration(p.Slack*float64(t)), p.SlackMin), maxHorizon)
	if !ok {
		for i := range options {
			if !options[i].inFlight {
				members = append(members, options[i].i)
			}
		}
		return members, now + t
	}
	mean, variance := have, 0.0
	type share struct {
		i              int
		mean, variance float64
	}
	shares := make([]share, 0, len(options))
	logT := math.Log(float64(t))
	for i := range options {
		o := &options[i]
		q := o.by(t, logT)
		c := share{i: o.i, mean: o.weight * q, variance: o.weight * o.weight * q * (1 - q)}
		if o.inFlight {
			mean += c.mean
			variance += c.variance
			continue
		}
		shares = append(shares, c)
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.mean, a.mean), cmp.Compare(a.i, b.i))
	})
	for _, c := range shares {
		if mean-p.Margin*math.Sqrt(variance) >= goal {
			break
		}
		members = append(members, c.i)
		mean += c.mean
		variance += c.variance
	}
	return members, now + t
}

// earliest is the time from now at which all options together are expected to
// reach the goal with the margin; false if they never are.
func (p planner) earliest(options []option, have, goal float64) (time.Duration, bool) {
	reached := func(t time.Duration) bool {
		mean, variance := have, 0.0
		logT := math.Log(float64(t))
		for i := range options {
			q := options[i].by(t, logT)
			w := options[i].weight
			mean += w * q
			variance += w * w * q * (1 - q)
		}
		return mean-p.Margin*math.Sqrt(variance) >= goal
	}
	if !reached(maxHorizon) {
		return 0, false
	}
	// Bisect on a logarithmic scale.
	low, high := float64(50*time.Microsecond), float64(maxHorizon)
	for high/low > precision {
		mid := math.Sqrt(low * high)
		if reached(time.Duration(mid)) {
			high = mid
		} else {
			low = mid
		}
	}
	return time.Duration(high), true
}
