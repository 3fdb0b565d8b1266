package network

import (
	"context"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/chain/pchain"
)

const (
	// touchedPage is the number of L1 transactions to read at a time, and maxTouched the number of heights after which
	// touched stops.
	touchedPage = 256
	maxTouched  = 64
)

// touched implements validators.Touched with the index of L1 transactions. It looks no further than the index. Heights
// that are not indexed yet have no transactions for it, so that the caller compares their sets.
func (n *Network) touched(ctx context.Context, subnetID ids.ID, after, to uint64) (heights []uint64, upTo uint64, err error) {
	if n.l1Index == nil || subnetID == constants.PrimaryNetworkID {
		return nil, to, nil
	}
	next, err := n.l1Index.Height(ctx)
	if err != nil || next <= after+1 {
		return nil, to, err
	}
	to = min(to, next-1)
	for at := after + 1; at <= to; {
		found, further, err := n.l1Index.Since(ctx, at, touchedPage)
		if err != nil || len(found) == 0 {
			return heights, to, err
		}
		for _, tx := range found {
			if tx.Height > to {
				return heights, to, nil
			}
			of, err := n.subnetOf(ctx, tx.Event)
			switch last := len(heights) - 1; {
			case err != nil:
				return nil, 0, err
			case of != subnetID, last >= 0 && heights[last] == tx.Height:
			case len(heights) == maxTouched:
				return heights, heights[last], nil
			default:
				heights = append(heights, tx.Height)
			}
		}
		at = further
	}
	return heights, to, nil
}

// subnetOf returns the subnet that an L1 transaction concerns, or the zero ID if the validator is not indexed.
func (n *Network) subnetOf(ctx context.Context, event pchain.L1Event) (ids.ID, error) {
	switch event := event.(type) {
	case *pchain.Conversion:
		return event.SubnetID, nil
	case *pchain.Registration:
		return event.SubnetID, nil
	case *pchain.WeightChange:
		v, err := n.l1Index.Validation(ctx, event.ValidationID)
		if err != nil || v == nil {
			return ids.Empty, err
		}
		return v.SubnetID, nil
	}
	return ids.Empty, nil
}
