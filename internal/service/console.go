package service

import "quorate/handlers/console"

// status returns the state of each network, for the console.
func (n *networks) status() []console.Network {
	all := make([]console.Network, 0, len(n.names))
	for _, name := range n.names {
		v := console.Network{Name: name}
		if o := n.entries[name].open(); o != nil {
			v.NetworkID, v.Peers = o.ID, o.Peers.ConnectedCount()
			err := o.Ready()
			if v.Ready = err == nil; err != nil {
				v.Reason = err.Error()
			}
			v.Height, v.HeightKnown = o.Resolver.ProposedHeight()
			v.Subnets, v.AllSubnets = o.Coverage.Subnets()
		}
		all = append(all, v)
	}
	return all
}
