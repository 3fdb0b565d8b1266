package service

import (
	"errors"
	"maps"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/console"
	"quorate/internal/node"
	"quorate/internal/service/network"
)

// status returns the state of each network, for the console.
func (n *networks) status() []console.Network {
	all := make([]console.Network, 0, len(n.names))
	for _, name := range n.names {
		v := console.Network{Name: name, Aliases: n.aliases(name)}
		e := n.entries[name]
		state := e.state.Load()
		if why := state.signing.Unavailable; why != nil {
			v.Reason = why.Message // fit for clients
		}
		if o := state.network; o != nil {
			v.NetworkID, v.Peers = o.ID, o.Peers.ConnectedCount()
			err := o.Ready()
			if v.Ready = err == nil; err != nil {
				v.Reason = publicReason(err)
			} else if err := e.degraded(); err != nil {
				v.Degraded = publicReason(err)
			}
			for _, found := range o.Verdicts() {
				if found.Standing == node.Lags || found.Standing == node.Lies {
					v.Nodes = append(v.Nodes, console.Node{Host: found.Host, Lies: found.Standing == node.Lies, Found: found.Text, Since: found.Since})
				}
			}
			v.Height, v.HeightKnown = o.Resolver.ProposedHeight()
			v.Subnets, v.AllSubnets = n.subnets(name, o.Coverage)
		}
		all = append(all, v)
	}
	return all
}

// publicReason returns why a network is not ready or what fails in it, without what only operators may see.
func publicReason(err error) string {
	if hidden, ok := errors.AsType[*network.CauseError](err); ok {
		return hidden.Public + "; its operator finds the reason at /readyz"
	}
	return err.Error()
}

// subnets returns the largest subnets of a network and those of health_subnets, and the number of all subnets.
func (n *networks) subnets(name string, c *network.Coverage) (shown []console.Subnet, all int) {
	shown, all = c.Subnets()
	if all == 0 {
		return shown, all // the sets are not known yet
	}
	required, _ := n.process.config.Networks[name].HealthSubnetIDs() // the configuration was checked
	for _, id := range required {
		i := slices.IndexFunc(shown, func(s console.Subnet) bool { return s.ID == id })
		if i < 0 {
			s, _ := c.Subnet(id)
			s.ID = id // it may have no validators
			shown, i = append(shown, s), len(shown)
		}
		shown[i].Required = true
	}
	return shown, all
}

// aliases returns the further names of a network in paths.
func (n *networks) aliases(name string) []string {
	var found []string
	directory := n.forSigning()
	for _, other := range append(slices.Sorted(maps.Keys(n.process.options.Aliases)), "fuji", "testnet") {
		if to, ok := directory.Resolve(other); ok && to == name && other != name && !slices.Contains(found, other) {
			found = append(found, other)
		}
	}
	return found
}

// archived returns the signed messages of an open network, for the console.
func (n *networks) archived(name string) console.Archive {
	if o := n.opened(name); o != nil {
		return n.process.kept.Archive.Stream(o.ID)
	}
	return nil
}

// failed returns the failed requests of an open network, for the console.
func (n *networks) failed(name string) console.Failures {
	if o := n.opened(name); o != nil {
		return n.process.kept.Archive.Failures(o.ID)
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
func (n *networks) memberships(name string, nodeID ids.NodeID) []console.Membership {
	if o := n.opened(name); o != nil {
		return o.Memberships(nodeID)
	}
	return nil
}
