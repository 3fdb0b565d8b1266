package service

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"

	"quorate/handlers/console"
	"quorate/internal/config"
	"quorate/internal/service/network"
	"quorate/validators"
)

func TestConsoleShowsRequiredSubnets(t *testing.T) {
	large, absent := ids.ID{1}, ids.ID{2}
	n := &networks{process: &process{config: config.Config{Networks: map[string]config.Network{"fuji": {HealthSubnets: []string{large.String(), absent.String()}}}}}}
	c := network.NewCoverage(func(ids.NodeID) bool { return true })
	shown, all := n.subnets("fuji", c)
	require.Empty(t, shown, "the sets are not known yet")
	require.Zero(t, all)
	c.Follow(map[ids.ID]*validators.Set{
		large: validators.NewSet(large, 1, snow.WarpSet{TotalWeight: 4}),
		{}:    validators.NewSet(ids.ID{}, 1, snow.WarpSet{TotalWeight: 9}),
	})
	shown, all = n.subnets("fuji", c)
	require.Equal(t, 2, all)
	require.Equal(t, []console.Subnet{{Weight: 9}, {ID: large, Weight: 4, Required: true}, {ID: absent, Required: true}}, shown)
}

func TestConsoleNamesAliases(t *testing.T) {
	n := &networks{process: &process{}, names: []string{"local"}}
	n.process.options.Aliases = map[string]string{"fuji": "local"}
	require.Equal(t, []string{"fuji", "testnet"}, n.aliases("local"))
	n = &networks{process: &process{}, names: []string{"fuji", "mainnet"}}
	require.Equal(t, []string{"testnet"}, n.aliases("fuji"))
	require.Empty(t, n.aliases("mainnet"))
}

// The console is public: it says that a network is not ready, but not what an upstream node answered.
func TestConsoleHidesCauses(t *testing.T) {
	hidden := &network.CauseError{Public: "the validators are not known", Cause: errors.New("http://10.0.0.7:9650: refused")}
	require.Equal(t, "the validators are not known: http://10.0.0.7:9650: refused", hidden.Error(), "for operators")
	require.Equal(t, "the validators are not known; its operator finds the reason at /readyz", publicReason(hidden))
	require.Equal(t, network.ErrNoHeight.Error(), publicReason(network.ErrNoHeight))
}
