package p2p

import (
	"context"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/genesis"
)

const (
	// enough is the number of connections from which peer lists suffice to find the rest.
	enough = 8
	// maxSeeds bounds how many addresses of one result are used.
	maxSeeds = 10_000

	seedTimeout  = 15 * time.Second
	seedInterval = 30 * time.Second // with enough connections
	seedRetryMin = 500 * time.Millisecond
	seedRetryMax = 15 * time.Second
)

// followSeeds adds the address book at the start, and the seeds regularly, more often
// without connections. It ends with ctx.
func (n *Network) followSeeds(ctx context.Context) {
	for _, a := range n.book.addresses() {
		if a.NodeID != n.nodeID {
			n.want(n.candidates.booked(a))
		}
	}
	retry := seedRetryMin
	for {
		known := n.trackSeeds(ctx)
		wait := seedInterval
		if n.ConnectedCount() < min(enough, max(known, 1)) {
			wait = retry
			retry = min(2*retry, seedRetryMax)
		} else {
			retry = seedRetryMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// trackSeeds adds the configured nodes, requests the seeds once, adds them, and returns their
// number.
func (n *Network) trackSeeds(ctx context.Context) int {
	fixed := n.fixedSeeds()
	n.track(fixed)
	if n.config.Seeds == nil {
		return len(fixed)
	}
	asking, cancel := context.WithTimeout(ctx, seedTimeout)
	seeds, err := n.config.Seeds(asking)
	cancel()
	if err != nil && ctx.Err() == nil {
		n.log.Warn("cannot get addresses of nodes to start from; retrying", "error", err, "connected", n.ConnectedCount())
	}
	seeds = slices.DeleteFunc(seeds[:min(len(seeds), maxSeeds)], func(a Address) bool {
		return slices.ContainsFunc(fixed, func(f Address) bool { return f.NodeID == a.NodeID })
	})
	n.track(seeds)
	return len(fixed) + len(seeds)
}

// track adds addresses and connects to the nodes that are wanted.
func (n *Network) track(addresses []Address) {
	for _, a := range addresses {
		if a.NodeID != n.nodeID && dialable(a.Addr) {
			n.want(n.candidates.seeded(a))
		}
	}
}

// fixedSeeds returns the configured nodes and the library's bootstrappers.
func (n *Network) fixedSeeds() []Address {
	list := slices.Clone(n.config.Manual)
	if n.config.Bootstrappers {
		for _, b := range genesis.GetBootstrappers(n.config.NetworkID) {
			if !slices.ContainsFunc(n.config.Manual, func(a Address) bool { return a.NodeID == b.ID }) {
				list = append(list, Address{NodeID: b.ID, Addr: b.IP})
			}
		}
	}
	return list
}
