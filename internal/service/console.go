package service

import (
	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/console"
	"quorate/internal/service/network"
)

// status returns the state of each network, for the console.
func (n *networks) status() []console.Network {
	all := make([]console.Network, 0, len(n.names))
	for _, name := range n.names {
		v := console.Network{Name: name}
		state := n.entries[name].state.Load()
		if why := state.signing.Unavailable; why != nil {
			v.Reason = why.Message // fit for clients
		}
		if o := state.network; o != nil {
			v.NetworkID, v.Peers = o.ID, o.Peers.ConnectedCount()
			err := o.Ready()
			if v.Ready = err == nil; err != nil {
				v.Reason = err.Error()
			} else if err := o.Degraded(); err != nil {
				v.Degraded = err.Error()
			}
			v.Height, v.HeightKnown = o.Resolver.ProposedHeight()
			v.Subnets, v.AllSubnets = o.Coverage.Subnets()
		}
		all = append(all, v)
	}
	return all
}

// archived returns the signed messages of an open network, for the console.
func (n *networks) archived(name string) console.Archive {
	if o := n.opened(name); o != nil {
		return n.process.kept.Archive.Stream(o.ID)
	}
	return nil
}

// opened returns an open network, nil if there is none of the name.
func (n *networks) opened(name string) *network.Network {
	e, ok := n.entries[name]
	if !ok {
		return nil
	}
	return e.open()
}

// validators returns the validators of a subnet, for the console.
func (n *networks) validators(name string, subnet ids.ID) (all []console.Validator, total uint64, ok bool) {
	if o := n.opened(name); o != nil {
		return o.Validators(subnet)
	}
	return nil, 0, false
}

// memberships returns the subnets that a node is a validator of, for the console.
func (n *networks) memberships(name string, node ids.NodeID) []console.Membership {
	if o := n.opened(name); o != nil {
		return o.Memberships(node)
	}
	return nil
}
