package measure

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"

	"quorate/p2p"
	"quorate/validators"
)

// curveStep is the step of Subnet.Curve, in percent.
const curveStep = 5

// tally adds up the rounds of a run.
type tally struct {
	rounds []Round
	times  map[uint64][]uint32 // to each percentage, in µs, of the rounds that reached it
	nodes  map[ids.NodeID]*node
	set    *validators.Set         // of the last round
	last   []member                // of the last round
	known  map[ids.NodeID]p2p.Peer // version and ping that connected nodes had last
}

// node adds up the answers of one node.
type node struct {
	Validator
	counts [outcomes]int
	times  []uint32 // of valid signatures, in µs
}

func newTally() *tally {
	return &tally{times: make(map[uint64][]uint32), nodes: make(map[ids.NodeID]*node), known: make(map[ids.NodeID]p2p.Peer)}
}

// peers notes the versions of the connected nodes.
func (t *tally) peers(connected []p2p.Peer) {
	for _, p := range connected {
		if p.RoundTrip == 0 {
			p.RoundTrip = t.known[p.NodeID].RoundTrip
		}
		t.known[p.NodeID] = p2p.Peer{Version: p.Version, RoundTrip: p.RoundTrip}
	}
}

// add adds a complete round and returns its part of the report.
func (t *tally) add(o *round) *Round {
	t.set, t.last = o.set, o.members
	for i := range o.members {
		t.nodeOf(o, &o.members[i]).add(&o.members[i])
	}
	r := Round{
		At: o.at.UTC(), Height: o.block.height, BlockHash: o.block.hash, MessageID: o.message.ID(), Repeated: o.block.repeated,
		PChainHeight: o.set.Height, TotalWeight: o.set.TotalWeight,
	}
	reached := o.curve()
	if len(reached) > 0 {
		r.SignedWeight = reached[len(reached)-1].weight
	}
	for _, percent := range percentages {
		r.TimesMS = append(r.TimesMS, t.reach(percent, o.set, reached))
	}
	for percent := uint64(curveStep); percent <= 100; percent += curveStep {
		if !slices.Contains(percentages[:], percent) {
			t.reach(percent, o.set, reached)
		}
	}
	t.rounds = append(t.rounds, r)
	return &r
}

// point is the weight that had signed after a time.
type point struct {
	after  time.Duration
	weight uint64
}

// curve returns the weight that had signed after each valid signature of a key that had not
// signed yet, in order of time.
func (o *round) curve() []point {
	var valid []*member
	for i := range o.members {
		if o.members[i].outcome == signed {
			valid = append(valid, &o.members[i])
		}
	}
	slices.SortFunc(valid, func(a, b *member) int { return cmp.Compare(a.elapsed, b.elapsed) })
	var points []point
	var weight uint64
	counted := make(map[int]struct{}, len(valid))
	for _, m := range valid {
		if _, ok := counted[m.validator]; ok {
			continue
		}
		counted[m.validator] = struct{}{}
		weight += o.set.Validators[m.validator].Weight
		points = append(points, point{m.elapsed, weight})
	}
	return points
}

// reach notes when the points reached a percentage of the set's weight. It returns the time
// in ms, or nil if they did not.
func (t *tally) reach(percent uint64, set *validators.Set, points []point) *float64 {
	least := set.MinWeight(percent)
	for _, p := range points {
		if p.weight >= least {
			us := micros(p.after)
			t.times[percent] = append(t.times[percent], us)
			ms := float64(us) / 1000
			return &ms
		}
	}
	return nil
}

func micros(d time.Duration) uint32 { return uint32(min(d.Microseconds(), math.MaxUint32)) }

func (t *tally) nodeOf(o *round, m *member) *node {
	n := t.nodes[m.nodeID]
	if n == nil {
		n = &node{Validator: Validator{NodeID: m.nodeID}}
		t.nodes[m.nodeID] = n
	}
	v := o.set.Validators[m.validator]
	n.Weight, n.SharedBy = v.Weight, len(v.NodeIDs)
	if n.PublicKey == "" {
		n.PublicKey = "0x" + hex.EncodeToString(ava.PublicKeyToCompressedBytes(v.PublicKey))
	}
	return n
}

func (n *node) add(m *member) {
	n.counts[m.outcome]++
	switch m.outcome {
	case signed:
		n.times = append(n.times, micros(m.elapsed))
	case refused, notYet:
		n.refuse(m.refusal.Code, printable(m.refusal.Message), m.outcome)
	}
	n.Connected, n.Reason, n.Detail = m.outcome != notConnected, m.reason, m.detail
}

// refuse counts a refusal. Those for blocks that are not accepted differ only in the block.
func (n *node) refuse(code int32, text string, o outcome) {
	if o == notYet {
		return
	}
	i := slices.IndexFunc(n.Refusals, func(r Refusal) bool { return r.Code == code && r.Text == text })
	switch {
	case i >= 0:
		n.Refusals[i].Count++
	case len(n.Refusals) < maxRefusals:
		n.Refusals = append(n.Refusals, Refusal{code, text, 1})
	}
}

// report summarises the rounds, at least one.
func (t *tally) report(o Options) *Report {
	r := &Report{
		Format: Format, NetworkID: o.NetworkID, BlockchainID: o.BlockchainID, Rounds: t.rounds,
		Settings: Recorded{o.Rounds, millis(o.Interval), millis(o.Timeout), millis(o.Settle), o.Behind},
	}
	s := &r.Subnet
	*s = Subnet{
		ID: o.SubnetID, Validators: len(t.set.Validators), Nodes: len(t.last),
		TotalWeight: t.set.TotalWeight, KeylessWeight: t.set.TotalWeight - t.set.KeyedWeight(),
	}
	for _, round := range t.rounds {
		if round.Repeated {
			s.RepeatedBlocks++
		}
	}
	connected := make(map[int]struct{})
	for _, m := range t.last {
		t.nodes[m.nodeID].Member = true
		if m.outcome != notConnected {
			connected[m.validator] = struct{}{}
		}
	}
	for i := range connected {
		s.ConnectedWeight += t.set.Validators[i].Weight
	}
	for _, percent := range percentages {
		s.Quorums = append(s.Quorums, t.quorum(percent))
	}
	for percent := uint64(curveStep); percent <= 100; percent += curveStep {
		s.Curve = append(s.Curve, t.quorum(percent))
	}
	for _, n := range t.nodes {
		r.Validators = append(r.Validators, t.validator(n))
	}
	slices.SortFunc(r.Validators, func(a, b Validator) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), bytes.Compare(a.NodeID[:], b.NodeID[:]))
	})
	return r
}

func (t *tally) quorum(percent uint64) Quorum {
	times := t.times[percent]
	return Quorum{Percent: percent, Reached: len(times), Rounds: len(t.rounds), Times: quantiles(times)}
}

func (t *tally) validator(n *node) Validator {
	v := n.Validator
	v.Signed, v.Invalid, v.Refused, v.NotYet = n.counts[signed], n.counts[invalid], n.counts[refused], n.counts[notYet]
	v.TimedOut, v.Lost, v.NotConnected = n.counts[timedOut], n.counts[lost], n.counts[notConnected]
	for _, count := range n.counts {
		v.Rounds += count
	}
	v.Times = quantiles(n.times)
	peer := t.known[v.NodeID]
	v.Version, v.PingMS = printable(peer.Version), millis(peer.RoundTrip)
	return v
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantiles returns quantiles of times in µs.
func quantiles(times []uint32) Times {
	if len(times) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) *float64 {
		rank := (len(sorted)*percent + 99) / 100
		ms := float64(sorted[rank-1]) / 1000
		return &ms
	}
	return Times{Median: at(50), P90: at(90), P99: at(99)}
}
