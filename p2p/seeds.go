package p2p

import (
	"context"
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
			n.want(n.places.booked(a))
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

// trackSeeds requests the seeds once and returns their number.
func (n *Network) trackSeeds(ctx context.Context) int {
	seeds := n.genesisSeeds()
	if n.config.Seeds != nil {
		asking, cancel := context.WithTimeout(ctx, seedTimeout)
		more, err := n.config.Seeds(asking)
		cancel()
		if err != nil && ctx.Err() == nil {
			n.log.Warn("cannot get addresses of nodes to start from; retrying", "error", err, "connected", n.ConnectedCount())
		}
		seeds = append(more, seeds...)
	}
	seeds = seeds[:min(len(seeds), maxSeeds)]
	for _, a := range seeds {
		if a.NodeID == n.nodeID || !dialable(a.Addr) {
			continue
		}
		n.want(n.places.seeded(a))
	}
	return len(seeds)
}

func (n *Network) genesisSeeds() []Address {
	if !n.config.Bootstrappers {
		return nil
	}
	var list []Address
	for _, b := range genesis.GetBootstrappers(n.config.NetworkID) {
		list = append(list, Address{NodeID: b.ID, Addr: b.IP})
	}
	return list
}
