package network

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/bls"
	"quorate/validators"
)

func TestCoverageCountsConnectedWeightOfBoundedSubnets(t *testing.T) {
	warpSet := func() (set snow.WarpSet) {
		for i, weight := range []uint64{10, 30, 60} {
			set.Validators = append(set.Validators, &snow.Warp{PublicKey: new(bls.PublicKey), PublicKeyBytes: []byte{byte(i)}, Weight: weight, NodeIDs: []ids.NodeID{{byte(i)}}})
			set.TotalWeight += weight
		}
		return set
	}
	c := NewCoverage(func(nodeID ids.NodeID) bool { return nodeID != ids.NodeID{1} })
	keyless := warpSet()
	keyless.TotalWeight += 100 // without a BLS key
	sets := map[ids.ID]*validators.Set{constants.PrimaryNetworkID: validators.NewSet(constants.PrimaryNetworkID, 1, keyless)}
	c.Follow(sets)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP quorate_subnet_connected_weight_ratio Share of a subnet's weight, keyless weight included, whose validators are connected; of the subnets with the most validators.
# TYPE quorate_subnet_connected_weight_ratio gauge
quorate_subnet_connected_weight_ratio{subnet="11111111111111111111111111111111LpoYY"} 0.35
# HELP quorate_subnets Subnets with validators.
# TYPE quorate_subnets gauge
quorate_subnets 1
`)))
	for i := range 500 {
		id := ids.ID{byte(i), byte(i >> 8), 1}
		sets[id] = validators.NewSet(id, 1, warpSet())
	}
	c.Follow(sets)
	require.Equal(t, maxCoveredSubnets+1, testutil.CollectAndCount(c))
	shown, all := c.Subnets()
	require.Equal(t, []int{maxCoveredSubnets, 501}, []int{len(shown), all})
	last := ids.ID{244, 1, 1}
	_, ok := c.Subnet(last)
	require.False(t, ok)
	last[0]--
	s, ok := c.Subnet(last)
	require.True(t, ok, "of any size")
	require.Equal(t, []any{last, 3, uint64(100), 0.7}, []any{s.ID, s.Validators, s.Weight, s.Connected})
}
