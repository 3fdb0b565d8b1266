package peernode

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxVotes bounds the votes of a poll.
	maxVotes = 64
	// needed is the percentage of the votes that a block needs to be accepted.
	needed = 80
	// voteTimeout bounds one request.
	voteTimeout = 2 * time.Second
	// voteGrace is how long a poll waits for the other answers once its result is decided.
	voteGrace = 100 * time.Millisecond
)

// vote is the answer of one node.
type vote struct {
	nodeID   ids.NodeID
	weight   uint64 // see sampleOf
	frontier ids.ID
	accepted []ids.ID
}

// poll is the result of asking voters.
type poll struct {
	// accepted are the blocks that enough of the votes have accepted. holders are the nodes that have each.
	accepted []ids.ID
	holders  map[ids.ID][]ids.NodeID
	// behind says that at least half of the votes named none of accepted as the last block. accepted may then
	// have any ancestors of the tip, because all nodes have accepted those.
	behind bool

	sample []*vote
}

// ask asks voters for their last accepted block of a chain, and then all of them which of these blocks they have
// accepted. weights has the voters; who names them in errors. It returns an error if no block has enough votes.
// disputed counts blocks without enough votes.
func ask(ctx context.Context, peers Peers, chainID ids.ID, weights map[ids.NodeID]uint64, who string, disputed prometheus.Counter) (*poll, error) {
	sample, err := sampleOf(peers.ConnectedNodes(), weights, who)
	if err != nil {
		return nil, err
	}
	all := weightOf(sample, nil)
	requestAll(ctx, sample, func(ctx context.Context, v *vote) {
		v.frontier, _ = peers.AcceptedFrontier(ctx, v.nodeID, chainID) // a node that does not answer has no vote
	}, func(answered []*vote) bool {
		// A node that does not answer in time names no block.
		return enough(weightOf(answered, (*vote).named), all)
	})
	var tips []ids.ID
	for _, v := range sample {
		if v.named() && !slices.Contains(tips, v.frontier) {
			tips = append(tips, v.frontier)
		}
	}
	if len(tips) == 0 {
		return nil, fmt.Errorf("none of %d nodes reported its last accepted block", len(sample))
	}
	requestAll(ctx, sample, func(ctx context.Context, v *vote) {
		v.accepted, _ = peers.Accepted(ctx, v.nodeID, chainID, tips)
	}, func(answered []*vote) bool { return decided(answered, tips, all) })
	p := &poll{sample: sample, holders: make(map[ids.ID][]ids.NodeID)}
	most := 0.
	for _, tip := range tips {
		for _, v := range sample {
			if v.hasAccepted(tip) {
				p.holders[tip] = append(p.holders[tip], v.nodeID)
			}
		}
		weight := weightOf(sample, func(v *vote) bool { return v.hasAccepted(tip) })
		most = max(most, weight)
		if enough(weight, all) {
			p.accepted = append(p.accepted, tip)
		} else {
			disputed.Inc()
		}
	}
	p.behind = !p.majorityNames(p.accepted)
	if len(p.accepted) == 0 {
		return nil, fmt.Errorf("the nodes do not agree: at most %.0f%% of the votes are for one block, %d%% must be", math.Floor(100*most/all), needed)
	}
	return p, nil
}

// majorityNames reports whether more than half of the votes named some of these blocks as the last one.
func (p *poll) majorityNames(blocks []ids.ID) bool {
	naming := weightOf(p.sample, func(v *vote) bool { return slices.Contains(blocks, v.frontier) })
	return 2*naming > weightOf(p.sample, nil)
}

func (v *vote) named() bool { return v.frontier != ids.Empty }

func (v *vote) hasAccepted(id ids.ID) bool { return slices.Contains(v.accepted, id) }

// weightOf returns the weight of the votes that meet condition, or of all votes if it is nil.
func weightOf(votes []*vote, condition func(*vote) bool) (sum float64) {
	for _, v := range votes {
		if condition == nil || condition(v) {
			sum += float64(v.weight)
		}
	}
	return sum
}

func enough(weight, all float64) bool { return weight*100 >= needed*all }

// decided reports whether the other votes can no longer change which of some blocks are accepted.
func decided(answered []*vote, blocks []ids.ID, all float64) bool {
	missing := all - weightOf(answered, nil)
	return !slices.ContainsFunc(blocks, func(id ids.ID) bool {
		weight := weightOf(answered, func(v *vote) bool { return v.hasAccepted(id) })
		return !enough(weight, all) && enough(weight+missing, all)
	})
}

// requestAll calls request for all votes concurrently. It cancels them after voteTimeout, or voteGrace after done has
// returned true for the votes that are answered.
func requestAll(
	ctx context.Context, sample []*vote, request func(context.Context, *vote), done func(answered []*vote) bool,
) {
	ctx, cancel := context.WithTimeout(ctx, voteTimeout)
	answers := make(chan *vote, len(sample))
	var asking sync.WaitGroup
	defer asking.Wait() // a session has few exchanges, and the votes are read afterwards
	defer cancel()
	for _, v := range sample {
		asking.Go(func() {
			request(ctx, v)
			answers <- v
		})
	}
	var answered []*vote
	var late <-chan time.Time
	for len(answered) < len(sample) {
		select {
		case v := <-answers:
			answered = append(answered, v)
			if late == nil && done(answered) {
				late = time.After(voteGrace)
			}
		case <-late:
			return
		}
	}
}

// sampleOf returns the connected voters, each with its stake as the weight of its vote. If there are more than
// maxVotes, it draws one at random for each vote, with probability proportional to stake. A node may be drawn several
// times; the weight of its vote is the number of draws. Stake then counts only in the draw.
//
// The votes of nodes with a share s of the connected stake are thus binomially distributed, however many nodes share
// it. With 80% of 64 votes needed, a block that only they have accepted passes with a probability of 4e-15 for s = 1/3,
// and of 2e-11 for s = 2/5. Without a draw, s must be 4/5.
//
// sampleOf returns an error unless more than half of the stake is connected. Nothing is known about the rest: if little
// more than half is connected, s is up to twice the share of all stake.
func sampleOf(nodes []ids.NodeID, weights map[ids.NodeID]uint64, who string) ([]*vote, error) {
	var total, connected float64
	for _, w := range weights {
		total += float64(w)
	}
	if total == 0 {
		return nil, fmt.Errorf("none of the %s has weight", who)
	}
	var sample []*vote
	var sums []float64 // of the weights up to each vote
	for _, nodeID := range nodes {
		if w := weights[nodeID]; w > 0 {
			connected += float64(w)
			sample, sums = append(sample, &vote{nodeID: nodeID, weight: w}), append(sums, connected)
		}
	}
	if 2*connected <= total {
		return nil, fmt.Errorf("connected to %.0f%% of the weight of the %s; more than half must be connected", math.Floor(100*connected/total), who)
	}
	if len(sample) > maxVotes {
		drawn := make([]uint64, len(sample))
		for range maxVotes {
			i, _ := slices.BinarySearch(sums, rand.Float64()*connected)
			drawn[i]++
		}
		for i, v := range sample {
			v.weight = drawn[i]
		}
		sample = slices.DeleteFunc(sample, func(v *vote) bool { return v.weight == 0 })
	}
	// Blocks are requested from the first of their holders.
	rand.Shuffle(len(sample), func(i, j int) { sample[i], sample[j] = sample[j], sample[i] })
	return sample, nil
}
