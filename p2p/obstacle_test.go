package p2p

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
)

// The network reports why a validator is not connected, without debug logs.
func TestFailuresHaveReasons(t *testing.T) {
	behind := newRemote(t, func(r *remote) { r.skew = -75 * time.Second })
	newer := newRemote(t, func(r *remote) { r.major = 1 })
	closes := newRemote(t, func(r *remote) { r.closes = true })
	gone := newRemote(t)
	gone.stop()
	other := Address{NodeID: ids.NodeID{1}, Addr: behind.addr()}
	unknown := ids.NodeID{2}
	want := map[ids.NodeID]Obstacle{
		behind.id: ObstacleClock, newer.id: ObstacleVersion, closes.id: ObstacleClosed, gone.id: ObstacleUnreachable,
		other.NodeID: ObstacleOtherNode, unknown: ObstacleNoAddress,
	}
	n, _ := start(t, Config{Seeds: func(context.Context) ([]Address, error) {
		return []Address{behind.address(), newer.address(), closes.address(), gone.address(), other}, nil
	}})
	var all []ids.NodeID
	for nodeID := range want {
		all = append(all, nodeID)
	}
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, all...)})
	for nodeID, obstacle := range want {
		require.Eventually(t, func() bool { return n.Failure(nodeID).Obstacle == obstacle }, timeout, time.Millisecond, "%s: got %v, want %s", nodeID, n.Failure(nodeID), obstacle)
	}
	require.Contains(t, []string{"75 s", "76 s", "74 s"}, n.Failure(behind.id).Detail)
	require.Equal(t, "v2.15.0", n.Failure(newer.id).Detail)
}

// TestLostConnections checks when a connection was lost, which stays known while attempts fail.
func TestLostConnections(t *testing.T) {
	lost, never := newRemote(t), newRemote(t)
	never.stop()
	n, _ := start(t, Config{Seeds: func(context.Context) ([]Address, error) {
		return []Address{lost.address(), never.address()}, nil
	}})
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, lost.id, never.id)})
	require.Eventually(t, func() bool { return n.Connected(lost.id) }, timeout, time.Millisecond)
	require.Zero(t, n.Lost(lost.id))
	before := time.Now()
	lost.stop()
	require.Eventually(t, func() bool { return n.Failure(lost.id).Obstacle == ObstacleUnreachable }, timeout, time.Millisecond)
	at := n.Lost(lost.id)
	require.False(t, at.Before(before) || at.After(time.Now()), "%s", at)
	require.Eventually(t, func() bool { return n.Failure(never.id).Obstacle == ObstacleUnreachable }, timeout, time.Millisecond)
	require.Zero(t, n.Lost(never.id))
	require.Zero(t, n.Lost(ids.NodeID{9}), "it is not known")
}

func TestPrivateAddressIsAnObstacle(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	for addr, want := range map[string]Obstacle{"10.0.0.1:9651": ObstaclePrivateAddress, "0.0.0.0:0": ObstacleNoAddress} {
		_, err := n.attempt(t.Context(), n.candidates.seeded(Address{NodeID: ids.NodeID{byte(len(addr))}, Addr: netip.MustParseAddrPort(addr)}))
		require.Equal(t, want, failureOf(err).Obstacle, addr)
	}
}
