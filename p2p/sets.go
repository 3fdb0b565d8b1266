package p2p

import (
	"sync/atomic"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/set"
)

// sets holds the nodes worth a connection: the validators of all subnets. It is safe for
// concurrent use.
type sets struct {
	// current is nil until the first sets are known. What it points to is never modified.
	current atomic.Pointer[members]
}

type members struct {
	all     set.Set[ids.NodeID] // of any subnet
	primary set.Set[ids.NodeID] // of the primary network
}

// wants reports whether nodeID is worth a connection. It returns true before the first sets
// are known.
func (s *sets) wants(nodeID ids.NodeID) bool {
	m := s.current.Load()
	return m == nil || m.all.Contains(nodeID)
}

// knows reports whether nodeID is known to validate a subnet.
func (s *sets) knows(nodeID ids.NodeID) bool {
	m := s.current.Load()
	return m != nil && m.all.Contains(nodeID)
}

// primary reports whether nodeID is known to validate the primary network.
func (s *sets) primary(nodeID ids.NodeID) bool {
	m := s.current.Load()
	return m != nil && m.primary.Contains(nodeID)
}

// count returns the number of validators.
func (s *sets) count() int {
	if m := s.current.Load(); m != nil {
		return m.all.Len()
	}
	return 0
}

// SetValidators sets which nodes are worth a connection: all validator sets of the newest
// height, by subnet ID. An empty map has no effect, since the primary network always has
// validators. Network requests the addresses of new ones from peers at once.
func (n *Network) SetValidators(all map[ids.ID]snowvalidators.WarpSet) {
	if len(all) == 0 {
		return
	}
	added := n.sets.apply(all)
	n.wantAll()
	if added {
		select {
		case n.added <- struct{}{}:
		default:
		}
	}
}

// apply replaces the sets, and reports whether a node is new.
func (s *sets) apply(all map[ids.ID]snowvalidators.WarpSet) (added bool) {
	m := &members{all: set.Of[ids.NodeID](), primary: set.Of[ids.NodeID]()}
	for subnetID, warpSet := range all {
		for _, v := range warpSet.Validators {
			m.all.Add(v.NodeIDs...)
			if subnetID == constants.PrimaryNetworkID {
				m.primary.Add(v.NodeIDs...)
			}
		}
	}
	before := s.current.Swap(m)
	if before == nil {
		return true
	}
	for nodeID := range m.all {
		if !before.all.Contains(nodeID) {
			return true
		}
	}
	return false
}
