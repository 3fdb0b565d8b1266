package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"quorate/handlers/console"
	"quorate/internal/index"
)

// newConsole makes the web console of a service, whose reception it asks when it is
// asked itself: either needs the other.
func newConsole(example func(network string) ([]byte, bool), surface func() *reception, gatherer prometheus.Gatherer) (*console.Console, error) {
	return console.New(console.Options{
		Networks: func() []console.Network { return surface().networks() },
		Index:    func() map[string]map[string]index.Status { return surface().recorded() },
		Gatherer: gatherer,
		Example:  example,
	})
}

// networks are how the networks stand, as the console shows them.
func (r *reception) networks() []console.Network {
	all := make([]console.Network, 0, len(r.slots))
	for name, s := range r.slots {
		v := console.Network{Name: name}
		if n := s.open(); n != nil {
			v.NetworkID, v.Ready, v.Peers = n.ID, n.Ready() == nil, n.Peers.ConnectedCount()
			v.Height, v.HeightKnown = n.Resolver.ProposedHeight()
			v.Subnets, v.AllSubnets = n.Coverage.Subnets()
		}
		all = append(all, v)
	}
	return all
}
