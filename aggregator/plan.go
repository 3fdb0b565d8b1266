package aggregator

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// planner chooses the validators to ask. It leaves out those whose requests cost more time than
// their answers save.
type planner struct {
	// Margin is the number of standard deviations by which the expected weight
	// at the horizon must exceed the goal.
	Margin float64
	// Price is the time that one request costs all rounds that are awake. A plan may end that much later
	// for each request that it saves.
	Price time.Duration
}

const (
	// requestCost is the processor time of one request and its answer; decompressing the signature
	// takes most of it. Meanwhile the other rounds wait for the processor.
	requestCost = 40 * time.Microsecond
	maxHorizon  = 10 * time.Second
	// precision is that of the earliest possible finish, as a ratio.
	precision = 1.01
	// A plan may always end later than the earliest possible finish by slack, a ratio, or slackMin:
	// expectations are not more exact, and each request is work for a validator.
	slack    = 0.03
	slackMin = time.Millisecond
)

// delays are the ends of further plans to compare, as ratios to the first plan's. Once one costs more
// than the one before it, later ones are not looked at. No plan ends later than the first by more than
// a round waits for the buffer.
var delays = [...]float64{1.03, 1.06, 1.1, 1.15, 1.25, 1.4, 1.6, 2, 2.5, 3}

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
	// tier orders options that were not asked: lower ones are asked first.
	tier int
}

// The tiers of options.
const (
	ordinary = iota
	leaving  // about to leave the set
	struck   // sent invalid signatures
	tiers
)

// overdue is the probability that an answer would have arrived by now from which on none is expected.
const overdue = 0.999

// by is the probability that the option has contributed within t from now, logT being
// the logarithm of t in nanoseconds.
func (o *option) by(t time.Duration, logT float64) float64 {
	if !o.inFlight {
		return o.expect.byLog(logT)
	}
	// Given that nothing came so far: the rest of the distribution, scaled.
	if o.early >= overdue {
		return 0
	}
	return (o.expect.by(o.elapsed+t) - o.early) / (1 - o.early)
}

// tiersOf returns the members that may still contribute, by tier, and the weight that counts
// as signed.
func (r *round) tiersOf(now time.Duration) (options [tiers][]option, have uint64) {
	have = r.have()
	for i := range r.members {
		m := &r.members[i]
		o := option{i: i, weight: float64(m.weight), expect: m.expect}
		switch {
		case m.state == pending && !m.trusted && !m.struck:
			have += m.weight // likely valid; verified before it counts
		case m.state == waiting:
			o.inFlight, o.elapsed = true, now-m.askedAt
			o.early = o.expect.by(o.elapsed)
			options[ordinary] = append(options[ordinary], o)
		case m.state == idle && m.online:
			switch {
			case m.struck:
				o.tier = struck
			case m.avoid:
				o.tier = leaving
			}
			options[o.tier] = append(options[o.tier], o)
		}
	}
	return options, have
}

// within reports whether options can still contribute a weight.
func within(options []option, weight float64) bool {
	for i := range options {
		if options[i].early < overdue {
			weight -= options[i].weight
		}
	}
	return weight <= 0
}

// pick returns the members to ask now and the time at which the goal is expected to be
// reached. It picks members that are about to leave the set if the others are not expected to
// suffice, and struck ones if the quorum cannot be reached without them.
func (p planner) pick(r *round, now time.Duration) (members []int, horizon time.Duration) {
	need, want := r.goals()
	all, have := r.tiersOf(now)
	if have >= want {
		return nil, now
	}
	// The difference of integers: next to large weights, a float64 has no room for small ones.
	goal := float64(want - have)
	options := all[ordinary]
	t, ok := p.earliest(options, goal)
	if !ok && len(all[leaving]) > 0 {
		options = append(options, all[leaving]...)
		t, ok = p.earliest(options, goal)
	}
	if !ok && len(all[struck]) > 0 && have < need && !within(options, float64(need-have)) {
		options = append(options, all[struck]...)
		t, ok = p.earliest(options, goal)
	}
	if !ok {
		t = maxHorizon
	}
	t = min(t+max(time.Duration(slack*float64(t)), slackMin), maxHorizon)
	if !ok { // all together are not expected to suffice
		for i := range options {
			if !options[i].inFlight {
				members = append(members, options[i].i)
			}
		}
		return members, now + t
	}
	members, horizon = p.fewest(options, goal, t), t
	cost := t + p.Price*time.Duration(len(members))
	latest := min(t+r.limits.BufferTimeout, maxHorizon)
	for _, delay := range delays {
		if len(members) == 0 || horizon == latest {
			break
		}
		later := min(time.Duration(delay*float64(t)), latest)
		fewer := p.fewest(options, goal, later)
		c := later + p.Price*time.Duration(len(fewer))
		if c > cost {
			break
		}
		members, horizon, cost = fewer, later, c
	}
	return members, now + horizon
}

// fewest returns the members to ask so that the goal is expected to be reached within t from now.
func (p planner) fewest(options []option, goal float64, t time.Duration) (members []int) {
	var mean, variance float64
	type share struct {
		i, tier        int
		mean, variance float64
	}
	shares := make([]share, 0, len(options))
	logT := math.Log(float64(t))
	for i := range options {
		o := &options[i]
		q := o.by(t, logT)
		c := share{i: o.i, tier: o.tier, mean: o.weight * q, variance: o.weight * o.weight * q * (1 - q)}
		if o.inFlight {
			mean += c.mean
			variance += c.variance
			continue
		}
		shares = append(shares, c)
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(b.mean, a.mean), cmp.Compare(a.i, b.i))
	})
	for _, c := range shares {
		if mean-p.Margin*math.Sqrt(variance) >= goal {
			break
		}
		members = append(members, c.i)
		mean += c.mean
		variance += c.variance
	}
	return members
}

// earliest is the time from now at which all options together are expected to
// contribute the goal with the margin; false if they never are.
func (p planner) earliest(options []option, goal float64) (time.Duration, bool) {
	reached := func(t time.Duration) bool {
		var mean, variance float64
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
