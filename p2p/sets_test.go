package p2p

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
)

func TestNodesOfOneKeyShareItsWeight(t *testing.T) {
	a, b, c, d, e := ids.NodeID{1}, ids.NodeID{2}, ids.NodeID{3}, ids.NodeID{4}, ids.NodeID{5}
	for _, tc := range []struct {
		name string
		set  snowvalidators.WarpSet
		want map[ids.NodeID]uint64
	}{
		{"none", snowvalidators.WarpSet{}, map[ids.NodeID]uint64{}},
		{"one each", warpSet(7, a, b), map[ids.NodeID]uint64{a: 7, b: 7}},
		{"shared key", keys(10, []ids.NodeID{a, b, c}), map[ids.NodeID]uint64{a: 3, b: 3, c: 3}},
		{"less weight than nodes", keys(2, []ids.NodeID{a, b, c}), map[ids.NodeID]uint64{a: 1, b: 1, c: 1}},
		{"no weight", keys(0, []ids.NodeID{a}), map[ids.NodeID]uint64{a: 1}},
		{"key without nodes", keys(10, nil), map[ids.NodeID]uint64{}},
		{"all there is", keys(math.MaxUint64, []ids.NodeID{a}), map[ids.NodeID]uint64{a: math.MaxUint64}},
		{
			"would overflow",
			keys(math.MaxUint64, []ids.NodeID{a}, []ids.NodeID{b}, []ids.NodeID{c, d, e}),
			map[ids.NodeID]uint64{a: math.MaxUint64 / 4, b: math.MaxUint64 / 4, c: math.MaxUint64 / 12, d: math.MaxUint64 / 12, e: math.MaxUint64 / 12},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, nodeWeights(tc.set))
		})
	}
}

func keys(weight uint64, nodes ...[]ids.NodeID) snowvalidators.WarpSet {
	var s snowvalidators.WarpSet
	for _, n := range nodes {
		s.Validators = append(s.Validators, &snowvalidators.Warp{Weight: weight, NodeIDs: n})
	}
	return s
}

// Whatever came before, the library knows exactly the last sets.
func TestSetsAreAppliedAsADifference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := newSets()
	require.True(t, s.wants(ids.NodeID{1}), "everybody is wanted before anything is known")
	subnets := []ids.ID{constants.PrimaryNetworkID, {1}, {2}, {3}}
	for range 200 {
		all := make(map[ids.ID]snowvalidators.WarpSet)
		wanted := make(map[ids.NodeID]bool)
		for _, subnetID := range subnets {
			if random.IntN(4) == 0 {
				continue
			}
			var warp snowvalidators.WarpSet
			for i := range byte(10) {
				if random.IntN(2) == 0 {
					nodes := []ids.NodeID{{i}, {i, 1}}[:1+random.IntN(2)]
					weight := uint64(random.IntN(5))
					if random.IntN(10) == 0 {
						weight = math.MaxUint64 - weight
					}
					warp.Validators = append(warp.Validators, &snowvalidators.Warp{Weight: weight, NodeIDs: nodes})
					for _, nodeID := range nodes {
						wanted[nodeID] = true
					}
				}
			}
			all[subnetID] = warp
		}
		require.NoError(t, s.apply(all))
		for _, subnetID := range subnets {
			want := nodeWeights(all[subnetID])
			got := s.manager.GetMap(subnetID)
			require.Len(t, got, len(want), "validators of subnet %s", subnetID)
			for nodeID, weight := range want {
				require.Equal(t, weight, s.manager.GetWeight(subnetID, nodeID))
			}
			_, err := s.manager.TotalWeight(subnetID)
			require.NoError(t, err, "total weight fits")
		}
		for i := range byte(10) {
			for _, nodeID := range []ids.NodeID{{i}, {i, 1}} {
				require.Equal(t, wanted[nodeID], s.wants(nodeID), "%s is wanted", nodeID)
			}
		}
	}
}

func TestEmptySetsSayNothing(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	nodeID := ids.NodeID{1}
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, nodeID)})
	n.SetValidators(nil)
	require.EqualValues(t, 1, n.sets.manager.GetWeight(constants.PrimaryNetworkID, nodeID))
	require.False(t, n.sets.wants(ids.NodeID{2}))
}
