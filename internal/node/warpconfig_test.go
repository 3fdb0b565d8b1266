package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

// TestWarpConfigs reads the configurations that a subnet-evm chain reports, and picks that of a time.
func TestWarpConfigs(t *testing.T) {
	chain := ids.ID{7}
	call := "/ext/bc/" + chain.String() + "/rpc eth_getChainConfig"
	read := func(content string) (WarpConfigs, error) {
		return newClient(t, methods(t, map[string]string{call: content})).WarpConfigs(t.Context(), chain)
	}
	all, err := read(`{"chainId":99,"warpConfig":{"blockTimestamp":100,"quorumNumerator":70,"requirePrimaryNetworkSigners":true},
		"upgrades":{"precompileUpgrades":[{"txAllowListConfig":{"blockTimestamp":150}},{"warpConfig":{"blockTimestamp":200,"disable":true}},
		{"warpConfig":{"blockTimestamp":300,"quorumNumerator":0,"requirePrimaryNetworkSigners":false}}]}}`)
	require.NoError(t, err)
	for _, row := range []struct {
		at, quorum uint64
		ok         bool
	}{{99, 0, false}, {100, 70, true}, {199, 70, true}, {200, 0, false}, {299, 0, false}, {300, 0, true}} {
		got, ok := all.At(time.Unix(int64(row.at), 0))
		require.Equal(t, row.ok, ok, row.at)
		if ok {
			require.Equal(t, row.quorum, got.QuorumNumerator, row.at)
			require.Equal(t, row.at < 200, got.RequirePrimaryNetworkSigners, row.at)
		}
	}

	all, err = read(`{"chainId":43112,"warpConfig":{"quorumNumerator":67}}`)
	require.NoError(t, err)
	_, ok := all.At(time.Now())
	require.False(t, ok, "without a time it never holds")
	all, err = read(`{"chainId":43112}`)
	require.NoError(t, err)
	_, ok = all.At(time.Now())
	require.False(t, ok, "there is none")

	_, err = read(`{}`)
	require.ErrorIs(t, err, ErrMalformed, "no configuration of a chain")
	_, err = newClient(t, methods(t, nil)).WarpConfigs(t.Context(), chain)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NotOffered())
}
