package network

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/p2p"
	"quorate/validators"
)

const (
	// warnInterval is the time between two warnings that too few validators are connected.
	warnInterval = time.Minute
	// maxObstacles is the number of reasons that a warning gives.
	maxObstacles = 3
)

// obstacles returns why validators of set are not connected, and what to do, the reasons of most weight first.
// failure returns the reason of one node. The texts are public.
func obstacles(set *validators.Set, connected func(ids.NodeID) bool, failure func(ids.NodeID) p2p.Failure) []string {
	type reason struct {
		p2p.Failure
		weight, heaviest uint64
	}
	reasons := make(map[p2p.Obstacle]*reason)
	for _, v := range set.Validators {
		if slices.ContainsFunc(v.NodeIDs, connected) || len(v.NodeIDs) == 0 {
			continue
		}
		f := failure(v.NodeIDs[0])
		r := reasons[f.Obstacle]
		if r == nil {
			r = new(reason)
			reasons[f.Obstacle] = r
		}
		r.weight += v.Weight
		if v.Weight > r.heaviest {
			r.Failure, r.heaviest = f, v.Weight
		}
	}
	var sorted []*reason
	for _, r := range reasons {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *reason) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Obstacle, b.Obstacle))
	})
	var texts []string
	for _, r := range sorted[:min(len(sorted), maxObstacles)] {
		texts = append(texts, fmt.Sprintf("%.1f%% of the weight: %s", 100*float64(r.weight)/float64(max(set.TotalWeight, 1)), remedy(r.Failure)))
	}
	return texts
}

// remedy says what a failure means and what to do.
func remedy(f p2p.Failure) string {
	switch f.Obstacle {
	case p2p.ObstacleClock:
		return fmt.Sprintf("the clocks of the nodes and of this machine differ by %s, at most 60 s are allowed; set this machine's clock", f.Detail)
	case p2p.ObstacleVersion:
		return fmt.Sprintf("the nodes run %s, which is not compatible; update this service or the nodes", f.Detail)
	case p2p.ObstacleNetwork:
		return fmt.Sprintf("the nodes belong to the network with ID %s; check the configured nodes", f.Detail)
	case p2p.ObstacleClosed:
		return "the nodes close the connection; is this service's identity in use elsewhere? If the nodes of an L1 are validatorOnly, give them this service's node ID (ourNodeID in the log)"
	case p2p.ObstaclePrivateAddress:
		return "only private addresses are known; set allow_private_ips"
	case p2p.ObstacleNoAddress:
		return "no address is known; nodes report them within minutes"
	case p2p.ObstacleUnreachable:
		return "the known addresses accept no connection; does a firewall allow outgoing connections to the validators' ports?"
	case p2p.ObstacleOtherNode:
		return "other nodes answer at the known addresses; new addresses arrive from peers"
	case p2p.ObstacleHandshake:
		return "the nodes' handshakes are invalid or incomplete"
	}
	return "not dialled yet"
}

// ready returns nil if enough of a set's weight is connected, else the share and the reasons.
func (n *Network) ready(set *validators.Set, of string) error {
	err := Enough(n.Coverage.Of(set), of)
	if err == nil {
		return nil
	}
	if reasons := obstacles(set, n.Peers.Connected, n.Peers.Failure); len(reasons) > 0 {
		return fmt.Errorf("%w: %s", err, strings.Join(reasons, "; "))
	}
	return err
}

// SubnetReady is Ready for the newest validators of one subnet. It returns false if the subnet has none.
func (n *Network) SubnetReady(subnet ids.ID) (error, bool) {
	for _, s := range *n.Coverage.sets.Load() {
		if s.SubnetID == subnet {
			return n.ready(s, "subnet"), true
		}
	}
	return nil, false
}

// warn logs once in a while why requests cannot be signed, until ctx ends.
func warn(ctx context.Context, ready func() error, log *slog.Logger) {
	ticker := time.NewTicker(warnInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := ready(); err != nil {
				log.Warn("messages cannot be signed", slog.Any("error", err))
			}
		}
	}
}
