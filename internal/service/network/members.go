package network

import (
	"cmp"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"

	"quorate/aggregator"
	"quorate/handlers/console"
	"quorate/p2p"
	"quorate/validators"
)

// Validators returns the newest validators of a subnet, the heaviest first, and their total weight. It returns false if
// the subnet has none.
func (n *Network) Validators(subnet ids.ID) (members []console.Validator, total uint64, ok bool) {
	for _, s := range *n.Coverage.sets.Load() {
		if s.SubnetID == subnet {
			return n.connections().members(s), s.TotalWeight, true
		}
	}
	return nil, 0, false
}

// Memberships returns the subnets that a node is a validator of by the newest sets.
func (n *Network) Memberships(node ids.NodeID) []console.Membership {
	var found []console.Membership
	c := n.connections()
	for _, s := range *n.Coverage.sets.Load() {
		if i, ok := s.Index(node); ok {
			found = append(found, console.Membership{SubnetID: s.SubnetID, TotalWeight: s.TotalWeight, Validator: c.member(s.Validators[i])})
		}
	}
	return found
}

// connections describes the connections to validators.
type connections struct {
	peers      map[ids.NodeID]p2p.Peer
	failure    func(ids.NodeID) p2p.Failure
	lost       func(ids.NodeID) time.Time
	answerTime func(ids.NodeID, *snow.Warp) (time.Duration, bool)
}

func (n *Network) connections() connections {
	all := n.Peers.Peers()
	c := connections{make(map[ids.NodeID]p2p.Peer, len(all)), n.Peers.Failure, n.Peers.Lost, n.Signer.AnswerTime}
	for _, p := range all {
		c.peers[p.NodeID] = p
	}
	return c
}

// members describes the validators of a set, the heaviest first.
func (c connections) members(s *validators.Set) []console.Validator {
	list := make([]console.Validator, len(s.Validators))
	for i, v := range s.Validators {
		list[i] = c.member(v)
	}
	slices.SortStableFunc(list, func(a, b console.Validator) int { return cmp.Compare(b.Weight, a.Weight) })
	return list
}

// member describes a validator by the first of its nodes that is connected, else by the first.
func (c connections) member(of *snow.Warp) console.Validator {
	nodes := of.NodeIDs
	v := console.Validator{NodeIDs: nodes, Weight: of.Weight}
	if len(nodes) == 0 {
		return v
	}
	for _, id := range nodes {
		if p, ok := c.peers[id]; ok {
			v.Connected, v.Version, v.Since = true, p.Version, p.Since
			v.AnswerTime, _ = c.answerTime(id, of)
			return v
		}
	}
	v.Reason, v.Detail = aggregator.ReasonOf(c.failure(nodes[0]))
	for _, id := range nodes {
		if lost := c.lost(id); lost.After(v.Lost) {
			v.Lost = lost
		}
	}
	v.AnswerTime, _ = c.answerTime(nodes[0], of)
	return v
}
