package main

import (
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/handlers/console"
	"quorate/index"
)

// newConsole makes the web console of a service, whose reception it asks when it is
// asked itself: either needs the other.
func newConsole(c config, surface func() *reception, gatherer prometheus.Gatherer) (*console.Console, error) {
	return console.New(console.Options{
		Networks: func() []console.Network { return surface().networks() },
		Index:    func() map[string]map[string]index.Status { return surface().recorded() },
		Gatherer: gatherer,
		Example:  c.example,
	})
}

// networks are how the networks stand, as the console shows them.
func (r *reception) networks() []console.Network {
	all := make([]console.Network, 0, len(r.slots))
	for name, s := range r.slots {
		v := console.Network{Name: name}
		if n := s.open(); n != nil {
			v.NetworkID, v.Ready, v.Peers = n.id, n.ready() == nil, n.peers.ConnectedCount()
			v.Height, v.HeightKnown = n.resolver.ProposedHeight()
			v.Subnets, v.AllSubnets = n.coverage.Subnets()
		}
		all = append(all, v)
	}
	return all
}

// consoleURL is where a browser on this machine finds the console.
func consoleURL(scheme string, public net.Addr) string {
	host, port, err := net.SplitHostPort(public.String())
	if err != nil {
		return scheme + "://" + public.String() + "/console/"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/console/"
}
