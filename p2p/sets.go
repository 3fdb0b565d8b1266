package p2p

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/set"
)

// sets holds the nodes worth a connection: the validators of all subnets, also those that left
// a short time ago. It is safe for concurrent use.
type sets struct {
	changing sync.Mutex // held by apply
	// current is nil until the first sets are known. What it points to is never modified.
	current atomic.Pointer[members]
}

type members struct {
	all     set.Set[ids.NodeID]      // of any subnet
	primary set.Set[ids.NodeID]      // of the primary network
	left    map[ids.NodeID]time.Time // when the validators of earlier heights left
}

// formerFor is how long a former validator stays worth a connection. Blockchains verify
// against the set of their epoch (ACP-181), which is older than the newest one: an epoch
// lasts 5 min, and longer on a blockchain without blocks.
const formerFor = 10 * time.Minute

// wants reports whether nodeID is worth a connection. It returns true before the first sets
// are known.
func (s *sets) wants(nodeID ids.NodeID) bool {
	m := s.current.Load()
	if m == nil || m.all.Contains(nodeID) {
		return true
	}
	left, former := m.left[nodeID]
	return former && time.Since(left) < formerFor
}

// knows reports whether nodeID is known to validate a subnet now.
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
// height, by subnet ID. Those of earlier heights stay connected for some minutes, because
// they are in the sets of current epochs. An empty map has no effect, since the primary
// network always has validators. Network requests the addresses of new ones from peers at once.
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
	s.changing.Lock()
	defer s.changing.Unlock()
	m := &members{all: set.Of[ids.NodeID](), primary: set.Of[ids.NodeID]()}
	for subnetID, warpSet := range all {
		for _, v := range warpSet.Validators {
			m.all.Add(v.NodeIDs...)
			if subnetID == constants.PrimaryNetworkID {
				m.primary.Add(v.NodeIDs...)
			}
		}
	}
	before := s.current.Load()
	if before != nil {
		m.left = before.former(m.all, time.Now())
	}
	s.current.Store(m)
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

// former returns the validators that m has and those that left before, without those in all,
// at most as many as there are candidates.
func (m *members) former(all set.Set[ids.NodeID], now time.Time) map[ids.NodeID]time.Time {
	left := maps.Clone(m.left)
	maps.DeleteFunc(left, func(nodeID ids.NodeID, at time.Time) bool { return all.Contains(nodeID) || now.Sub(at) >= formerFor })
	for nodeID := range m.all {
		if all.Contains(nodeID) || len(left) >= maxCandidates {
			continue
		}
		if left == nil {
			left = make(map[ids.NodeID]time.Time)
		}
		left[nodeID] = now
	}
	return left
}
