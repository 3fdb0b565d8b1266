package peernode

import (
	"cmp"
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
	// voters is how many nodes are asked for the tip at a time.
	voters = 32
	// needed is the share of the asked stake in percent that must have accepted a block.
	needed = 80
	// voteTimeout bounds one question.
	voteTimeout = 2 * time.Second
)

// vote is the answer of one node.
type vote struct {
	nodeID   ids.NodeID
	weight   uint64
	frontier ids.ID
	accepted []ids.ID
}

// poll is the result of asking voters.
type poll struct {
	// accepted are the blocks that enough of the stake has accepted. holders are the nodes that have each.
	accepted []ids.ID
	holders  map[ids.ID][]ids.NodeID
	// behind says that at least half of the asked stake named none of accepted as its last block. What is accepted can then
	// be any ancestor of the tip, because all nodes have accepted those.
	behind bool
}

// ask asks voters for their last accepted block of a chain, and then all of them which of these blocks they have accepted.
// weights has the voters; who names them in errors. It returns an error if no block has enough stake. disputed counts
// blocks without enough stake.
func ask(ctx context.Context, peers Peers, chainID ids.ID, weights map[ids.NodeID]uint64, who string, disputed prometheus.Counter) (*poll, error) {
	sample, err := sampleOf(peers.ConnectedNodes(), weights, who)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, voteTimeout)
	defer cancel()
	each(sample, func(v *vote) {
		v.frontier, _ = peers.AcceptedFrontier(limited, v.nodeID, chainID) // a node that does not answer has no vote
	})
	var tips []ids.ID
	for _, v := range sample {
		if v.frontier != ids.Empty && !slices.Contains(tips, v.frontier) {
			tips = append(tips, v.frontier)
		}
	}
	if len(tips) == 0 {
		return nil, fmt.Errorf("none of %d nodes reported its last accepted block", len(sample))
	}
	limited, cancel = context.WithTimeout(ctx, voteTimeout)
	defer cancel()
	each(sample, func(v *vote) {
		v.accepted, _ = peers.Accepted(limited, v.nodeID, chainID, tips)
	})
	p := &poll{holders: make(map[ids.ID][]ids.NodeID)}
	all, most := 0., 0.
	for _, v := range sample {
		all += float64(v.weight)
	}
	for _, tip := range tips {
		weight := 0.
		for _, v := range sample {
			if slices.Contains(v.accepted, tip) {
				weight += float64(v.weight)
				p.holders[tip] = append(p.holders[tip], v.nodeID)
			}
		}
		most = max(most, weight)
		if weight*100 >= needed*all {
			p.accepted = append(p.accepted, tip)
		} else {
			disputed.Inc()
		}
	}
	others := 0.
	for _, v := range sample {
		if !slices.Contains(p.accepted, v.frontier) {
			others += float64(v.weight)
		}
	}
	p.behind = 2*others >= all
	if len(p.accepted) == 0 {
		return nil, fmt.Errorf("the nodes asked do not agree: at most %.0f%% of their stake has accepted one block, %d%% must", math.Floor(100*most/all), needed)
	}
	return p, nil
}

// each calls f for each vote at the same time.
func each(sample []*vote, f func(*vote)) {
	var asking sync.WaitGroup
	for _, v := range sample {
		asking.Go(func() { f(v) })
	}
	asking.Wait()
}

// sampleOf picks connected voters at random, more likely those with more weight. It returns an error unless more than half
// of the weight is connected.
func sampleOf(nodes []ids.NodeID, weights map[ids.NodeID]uint64, who string) ([]*vote, error) {
	type drawn struct {
		*vote
		key float64
	}
	var list []drawn
	var total, connected float64
	for _, w := range weights {
		total += float64(w)
	}
	if total == 0 {
		return nil, fmt.Errorf("none of the %s has weight", who)
	}
	for _, nodeID := range nodes {
		if w := weights[nodeID]; w > 0 {
			connected += float64(w)
			// The smallest of exponentially distributed keys are a sample by weight without repetition.
			list = append(list, drawn{&vote{nodeID: nodeID, weight: w}, rand.ExpFloat64() / float64(w)})
		}
	}
	if 2*connected <= total {
		return nil, fmt.Errorf("connected to %.0f%% of the weight of the %s; more than half must be connected", math.Floor(100*connected/total), who)
	}
	slices.SortFunc(list, func(a, b drawn) int { return cmp.Compare(a.key, b.key) })
	sample := make([]*vote, min(len(list), voters))
	for i := range sample {
		sample[i] = list[i].vote
	}
	return sample, nil
}
