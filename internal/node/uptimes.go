package node

import (
	"context"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/vms/platformvm"

	"quorate/internal/node/uptime"
)

// Uptimes returns what the node observed of the current validators of the primary network. It omits validators without an
// uptime in the reply.
func (c *Client) Uptimes(ctx context.Context) (map[ids.NodeID]uptime.Uptime, error) {
	var reply struct {
		Validators []struct {
			TxID      ids.ID           `json:"txID"`
			NodeID    ids.NodeID       `json:"nodeID"`
			Uptime    *avajson.Float32 `json:"uptime"`
			Connected bool             `json:"connected"`
		} `json:"validators"`
	}
	args := platformvm.GetCurrentValidatorsArgs{SubnetID: constants.PrimaryNetworkID}
	const method = "platform.getCurrentValidators"
	// Only nodes observe uptimes, so the endpoints are those of no method that the peers offer.
	if err := c.try(ctx, "", method, func(ctx context.Context, e *endpoint) error {
		return c.ask(ctx, e, platformPath, method, args, &reply)
	}); err != nil {
		return nil, err
	}
	all := make(map[ids.NodeID]uptime.Uptime, len(reply.Validators))
	for _, v := range reply.Validators {
		if v.Uptime != nil {
			all[v.NodeID] = uptime.Uptime{TxID: v.TxID, Percent: float64(*v.Uptime), Connected: v.Connected}
		}
	}
	return all, nil
}
