package network

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
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
	reasons := aggregator.Unconnected(set, connected, failure)
	var texts []string
	for _, s := range reasons[:min(len(reasons), maxObstacles)] {
		texts = append(texts, fmt.Sprintf("%.1f%% of the weight: validators %s. %s", 100*float64(s.Weight)/float64(max(set.TotalWeight, 1)), s.String(), s.Remedy))
	}
	return texts
}

// ready returns nil if enough of a set's weight is connected, else the share and the reasons.
func (n *Network) ready(set *validators.Set, of string) error {
	err := Enough(n.Coverage.Of(set), of)
	if err == nil {
		return nil
	}
	if reasons := obstacles(set, n.Peers.Connected, n.Peers.Failure); len(reasons) > 0 {
		return fmt.Errorf("%w: %s", err, strings.Join(reasons, " "))
	}
	return err
}

// Reach returns the share, 0 to 1, of the weight of a subnet's newest validators that is connected, and why the rest is
// not. ok is false if the subnet has no validators, or none are known yet.
func (n *Network) Reach(subnet ids.ID) (share float64, reasons []string, ok bool) {
	for _, s := range *n.Coverage.sets.Load() {
		if s.SubnetID == subnet {
			return n.Coverage.Of(s), obstacles(s, n.Peers.Connected, n.Peers.Failure), true
		}
	}
	return 0, nil, false
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
