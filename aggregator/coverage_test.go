package aggregator

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/validators"
)

func TestCoverageCountsConnectedWeightOfBoundedSubnets(t *testing.T) {
	n := newFakeNetwork(t, 10, 30, 60)
	n.validators[1].offline = true
	c := NewCoverage(n.Connected)
	warpSet := n.set().WarpSet
	warpSet.TotalWeight += 100 // that has no key
	sets := map[ids.ID]*validators.Set{constants.PrimaryNetworkID: validators.NewSet(constants.PrimaryNetworkID, 1, warpSet)}
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
		sets[id] = validators.NewSet(id, 1, n.set().WarpSet)
	}
	c.Follow(sets)
	require.Equal(t, maxCoveredSubnets+1, testutil.CollectAndCount(c))
}
