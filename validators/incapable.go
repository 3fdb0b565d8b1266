package validators

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
)

// Weighted is a validator and its weight.
type Weighted struct {
	NodeID ids.NodeID
	Weight uint64
}

// Incapable are validators of a subnet that cannot sign, or may have stopped, by the P-Chain's
// last accepted state.
type Incapable struct {
	// Inactive are L1 validators whose balance is used up (ACP-77), the heaviest first.
	Inactive []Weighted
	// Keyless are validators without a key in the set, the heaviest first.
	Keyless []Weighted
	// Legacy are validators in the set from before the subnet became an L1.
	Legacy map[ids.NodeID]struct{}
}

// Incapable returns the validators of set that cannot sign, or may have stopped. It is empty for
// the primary network. Errors are the node's.
func (r *Resolver) Incapable(ctx context.Context, set *Set) (Incapable, error) {
	if set.SubnetID == constants.PrimaryNetworkID {
		return Incapable{}, nil
	}
	subnet, err := r.subnets.get(ctx, set.SubnetID)
	if err != nil {
		return Incapable{}, fmt.Errorf("requesting subnet %s: %w", set.SubnetID, err)
	}
	current, err := r.current.get(ctx, set.SubnetID)
	if err != nil {
		return Incapable{}, fmt.Errorf("requesting the current validators of subnet %s: %w", set.SubnetID, err)
	}
	found := Incapable{Legacy: make(map[ids.NodeID]struct{})}
	for _, v := range current {
		_, inSet := set.Index(v.NodeID)
		switch {
		case v.ValidationID != ids.Empty:
			if v.Balance != nil && *v.Balance == 0 {
				found.Inactive = append(found.Inactive, Weighted{v.NodeID, v.Weight})
			}
		case !inSet:
			found.Keyless = append(found.Keyless, Weighted{v.NodeID, v.Weight})
		case subnet.ConversionID != ids.Empty:
			found.Legacy[v.NodeID] = struct{}{}
		}
	}
	for _, list := range [][]Weighted{found.Inactive, found.Keyless} {
		slices.SortStableFunc(list, func(a, b Weighted) int { return cmp.Compare(b.Weight, a.Weight) })
	}
	return found, nil
}
