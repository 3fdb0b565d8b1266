package validators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// The current P-Chain says which validators cannot sign, and why.
func TestIncapable(t *testing.T) {
	rich, broke := uint64(1), uint64(0)
	l1 := func(n byte, weight uint64, balance *uint64) node.CurrentValidator {
		return node.CurrentValidator{NodeID: ids.NodeID{n, 1}, ValidationID: ids.ID{n}, Weight: weight, Balance: balance}
	}
	legacy := func(n byte, weight uint64) node.CurrentValidator {
		return node.CurrentValidator{NodeID: ids.NodeID{n, 1}, Weight: weight}
	}
	current := []node.CurrentValidator{l1(1, 10, &rich), legacy(2, 10), l1(3, 5, &broke), l1(4, 7, &broke), l1(5, 1, nil), legacy(6, 9)}
	for name, test := range map[string]struct {
		subnet ids.ID
		isL1   bool
		want   Incapable
	}{
		"an L1": {ids.ID{3}, true, Incapable{
			Inactive: []Weighted{{ids.NodeID{4, 1}, 7}, {ids.NodeID{3, 1}, 5}},
			Keyless:  []Weighted{{ids.NodeID{6, 1}, 9}},
			Legacy:   map[ids.NodeID]struct{}{{2, 1}: {}},
		}},
		"no L1": {ids.ID{3}, false, Incapable{
			Inactive: []Weighted{{ids.NodeID{4, 1}, 7}, {ids.NodeID{3, 1}, 5}},
			Keyless:  []Weighted{{ids.NodeID{6, 1}, 9}},
			Legacy:   map[ids.NodeID]struct{}{},
		}},
		"the primary network": {constants.PrimaryNetworkID, false, Incapable{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t)
			c.sets[test.subnet] = setOf(t, 1, 1)
			c.l1 = map[ids.ID]bool{test.subnet: test.isL1}
			c.current = current
			r := NewResolver(c, Options{})
			set, err := r.Set(t.Context(), test.subnet, 9)
			require.NoError(t, err)
			got, err := r.Incapable(t.Context(), set)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}
