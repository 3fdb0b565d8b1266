package p2p

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/set"
)

// sets is who is worth a connection: the validators of all subnets. The library
// accepts addresses from peer lists for these only, and gives the primary
// network's validators a share of its memory by their weight.
type sets struct {
	manager snowvalidators.Manager
	// nodes is the union; nil until the first sets are known.
	nodes atomic.Pointer[set.Set[ids.NodeID]]

	mu      sync.Mutex
	applied map[ids.ID]map[ids.NodeID]uint64 // guarded by mu: what manager holds
}

func newSets() *sets {
	return &sets{
		manager: snowvalidators.NewManager(),
		applied: make(map[ids.ID]map[ids.NodeID]uint64),
	}
}

// wants reports whether nodeID is worth a connection. Before anything is known,
// everybody is.
func (s *sets) wants(nodeID ids.NodeID) bool {
	nodes := s.nodes.Load()
	return nodes == nil || nodes.Contains(nodeID)
}

// SetValidators says who is worth a connection: all validator sets of the newest
// height, by subnet ID. Only the difference to the last call is applied. An empty
// map says nothing, since the primary network always has validators.
func (n *Network) SetValidators(all map[ids.ID]snowvalidators.WarpSet) {
	if len(all) == 0 {
		return
	}
	if err := n.sets.apply(all); err != nil {
		n.log.Error("validators for connections were not all applied", "error", err)
	}
}

func (s *sets) apply(all map[ids.ID]snowvalidators.WarpSet) error {
	target := make(map[ids.ID]map[ids.NodeID]uint64, len(all))
	nodes := set.Of[ids.NodeID]()
	for subnetID, warpSet := range all {
		weights := nodeWeights(warpSet)
		target[subnetID] = weights
		for nodeID := range weights {
			nodes.Add(nodeID)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.Store(&nodes)
	var firstErr error
	check := func(what string, subnetID ids.ID, nodeID ids.NodeID, err error) {
		if err != nil && firstErr == nil {
			firstErr = fmt.Errorf("%s validator %s of subnet %s: %w", what, nodeID, subnetID, err)
		}
	}
	// Additions first: a node that moves from one subnet to another is wanted
	// all the time, so the library does not forget its address.
	for subnetID, weights := range target {
		for nodeID, weight := range weights {
			before := s.applied[subnetID][nodeID]
			switch {
			case before == 0:
				// Without its BLS key, because TLS already proves the node ID, and
				// with the key the library would check a signature for each
				// connection.
				check("adding", subnetID, nodeID, s.manager.AddStaker(subnetID, nodeID, nil, ids.Empty, weight))
			case before < weight:
				check("raising", subnetID, nodeID, s.manager.AddWeight(subnetID, nodeID, weight-before))
			}
		}
	}
	for subnetID, weights := range s.applied {
		for nodeID, before := range weights {
			if weight := target[subnetID][nodeID]; weight < before {
				check("lowering", subnetID, nodeID, s.manager.RemoveWeight(subnetID, nodeID, before-weight))
			}
		}
	}
	s.applied = target
	return firstErr
}

// nodeWeights gives each node of a set an equal part of its key's weight, at
// least 1. The sum fits into 64 bits.
func nodeWeights(warpSet snowvalidators.WarpSet) map[ids.NodeID]uint64 {
	weights := make(map[ids.NodeID]uint64, len(warpSet.Validators))
	for _, v := range warpSet.Validators {
		for _, nodeID := range v.NodeIDs {
			weights[nodeID] = max(v.Weight/uint64(len(v.NodeIDs)), 1)
		}
	}
	for overflows(weights) {
		for nodeID, weight := range weights {
			weights[nodeID] = max(weight/2, 1)
		}
	}
	return weights
}

func overflows(weights map[ids.NodeID]uint64) bool {
	var sum, carry uint64
	for _, weight := range weights {
		if sum, carry = bits.Add64(sum, weight, 0); carry != 0 {
			return true
		}
	}
	return false
}
