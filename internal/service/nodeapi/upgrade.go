package nodeapi

import (
	"context"
	"errors"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/service/network"
	"quorate/p2p"
	"quorate/validators"
)

// Errors of a service that lacks an upgrade that most of the stake supports, with a node's texts.
var (
	errUpgradeNeeded    = errors.New("unknown network upgrade detected")
	errUpgradeWithinDay = errors.New("unknown network upgrade detected - update as soon as possible")
	errUpgradeImminent  = errors.New("imminent network upgrade detected - update immediately")
	errNoStake          = errors.New("no validators in the current validator set")
)

// upgrade checks that the service supports the upgrade that validators support. From its activation they refuse
// connections from a service that does not.
func (c *checks) upgrade(ctx context.Context) (any, error) {
	n := c.api.network
	height, ok := n.Resolver.ProposedHeight()
	if !ok {
		return nil, network.ErrNoHeight
	}
	set, err := n.Resolver.Set(ctx, constants.PrimaryNetworkID, height)
	if err != nil {
		return nil, err
	}
	return coming(set, n.Peers.Peers(), n.Peers.UpgradeTime(), time.Now())
}

// upcoming describes the next upgrade as a node does.
type upcoming struct {
	Local  time.Time `json:"localUpgradeTime"`
	Mode   time.Time `json:"modeUpgradeTime"`
	Share  float64   `json:"modeUpgradeWeightPercentage"` // 0 to 100
	Number int       `json:"numUpgradeTimes"`
	Left   string    `json:"timeUntilUpgrade,omitempty"`
}

// coming returns the upgrade that most of the connected stake supports as the newest. As on a node (avalanchego,
// package node), it needs half of all stake, and fails from three days before the activation.
func coming(set *validators.Set, peers []p2p.Peer, local, now time.Time) (*upcoming, error) {
	const day = 24 * time.Hour
	if set.TotalWeight == 0 {
		return nil, errNoStake
	}
	reported := make(map[ids.NodeID]time.Time, len(peers))
	for i := range peers {
		reported[peers[i].NodeID] = peers[i].UpgradeTime
	}
	weights := make(map[int64]uint64)
	var mode int64
	for _, v := range set.Validators {
		for _, nodeID := range v.NodeIDs { // nodes that share a key; one is enough
			at, ok := reported[nodeID]
			if !ok {
				continue
			}
			weights[at.Unix()] += v.Weight
			if weights[at.Unix()] > weights[mode] {
				mode = at.Unix()
			}
			break
		}
	}
	share := float64(weights[mode]) / float64(set.TotalWeight)
	said := &upcoming{Local: local, Mode: time.Unix(mode, 0).UTC(), Share: 100 * share, Number: len(weights)}
	if local.Unix() >= mode || share < .5 {
		return said, nil
	}
	left := said.Mode.Sub(now)
	said.Left = left.String()
	switch {
	case left > 3*day:
		return said, nil
	case left > day:
		return said, errUpgradeNeeded
	case left > time.Hour:
		return said, errUpgradeWithinDay
	}
	return said, errUpgradeImminent
}
