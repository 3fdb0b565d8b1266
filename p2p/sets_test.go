package p2p

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
)

func TestSetsAreTheUnionOfAllSubnets(t *testing.T) {
	a, b, c, d := ids.NodeID{1}, ids.NodeID{2}, ids.NodeID{3}, ids.NodeID{4}
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	check := func(when string, wanted, known, primary []ids.NodeID, count int) {
		t.Helper()
		for _, nodeID := range []ids.NodeID{a, b, c, d} {
			require.Equal(t, slices.Contains(wanted, nodeID), n.wants(nodeID), "%s: %s is wanted", when, nodeID)
			require.Equal(t, slices.Contains(known, nodeID), n.sets.knows(nodeID), "%s: %s is known", when, nodeID)
			require.Equal(t, slices.Contains(primary, nodeID), n.sets.primary(nodeID), "%s: %s is of the primary network", when, nodeID)
		}
		require.Equal(t, count, n.sets.count(), when)
	}
	check("before anything is known", []ids.NodeID{a, b, c, d}, nil, nil, 0)
	n.SetValidators(nil)
	check("after sets that say nothing", []ids.NodeID{a, b, c, d}, nil, nil, 0)
	sharing := warpSet(1, a)
	sharing.Validators = append(sharing.Validators, &snowvalidators.Warp{NodeIDs: []ids.NodeID{a, b}})
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: sharing, {9}: warpSet(1, b, c), {8}: {}})
	check("two subnets and an empty one", []ids.NodeID{a, b, c}, []ids.NodeID{a, b, c}, []ids.NodeID{a, b}, 3)
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, d)})
	check("another height", []ids.NodeID{a, b, c, d}, []ids.NodeID{d}, []ids.NodeID{d}, 1)
	n.SetValidators(nil)
	check("sets that say nothing", []ids.NodeID{a, b, c, d}, []ids.NodeID{d}, []ids.NodeID{d}, 1)
}

// Former validators are wanted while epochs may have them.
func TestFormerValidatorsStayWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := ids.NodeID{1}, ids.NodeID{2}, ids.NodeID{3}
		var s sets
		apply := func(nodes ...ids.NodeID) {
			s.apply(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, nodes...)})
		}
		wanted := func() (all []ids.NodeID) {
			for _, nodeID := range []ids.NodeID{a, b, c} {
				if s.wants(nodeID) {
					all = append(all, nodeID)
				}
			}
			return all
		}
		apply(a, b)
		apply(b)
		time.Sleep(formerFor / 2)
		require.Equal(t, []ids.NodeID{a, b}, wanted())
		apply(c)
		require.Equal(t, []ids.NodeID{a, b, c}, wanted())
		time.Sleep(formerFor / 2)
		require.Equal(t, []ids.NodeID{b, c}, wanted(), "a left before")
		apply(a, c)
		apply(c)
		require.Equal(t, []ids.NodeID{a, b, c}, wanted(), "a left again")
		time.Sleep(formerFor)
		require.Equal(t, []ids.NodeID{c}, wanted())
		apply(c)
		require.Empty(t, s.current.Load().left)
	})
}

// The library's bootstrappers report addresses, so the service connects to them even if they validate
// nothing.
func TestBootstrappersAreWanted(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		n, err := New(Config{NetworkID: constants.FujiID, Bootstrappers: wanted})
		require.NoError(t, err)
		n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, ids.NodeID{1})})
		other, err := New(Config{NetworkID: constants.FujiID, Bootstrappers: true})
		require.NoError(t, err)
		seeds := other.fixedSeeds()
		require.NotEmpty(t, seeds)
		require.Equal(t, wanted, n.wants(seeds[0].NodeID))
		require.False(t, n.wants(ids.NodeID{2}))
	}
}

// Manual nodes are dialled although the seeds fail and they validate nothing.
func TestManualNodesAreDialled(t *testing.T) {
	manual := newRemote(t)
	n, _ := start(t, Config{
		Manual: []Address{manual.address()},
		Seeds:  func(context.Context) ([]Address, error) { return nil, errors.New("no node answers") },
	})
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, ids.NodeID{1})})
	awaitConnected(t, n, manual)
}
