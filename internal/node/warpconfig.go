package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// WarpConfig is a configuration of the Warp precompile of an EVM chain (avalanchego,
// graft/subnet-evm/precompile/contracts/warp).
type WarpConfig struct {
	// BlockTimestamp is from when on it holds, in Unix seconds; nil means never.
	BlockTimestamp *uint64 `json:"blockTimestamp"`
	// Disable removes the precompile.
	Disable bool `json:"disable"`
	// QuorumNumerator is the percentage of the weight that must have signed; 0 means 67.
	QuorumNumerator uint64 `json:"quorumNumerator"`
	// RequirePrimaryNetworkSigners makes the chain verify messages of the C-Chain and the X-Chain against the
	// validators of the primary network, rather than against its own.
	RequirePrimaryNetworkSigners bool `json:"requirePrimaryNetworkSigners"`
}

// WarpConfigs are the configurations of one chain: that of the genesis, if there is one, then those of the upgrades.
type WarpConfigs []WarpConfig

// At returns the configuration of a block with a timestamp. It returns false if the chain has no Warp precompile then.
func (all WarpConfigs) At(now time.Time) (active WarpConfig, ok bool) {
	for _, c := range all {
		if c.BlockTimestamp != nil && now.Unix() >= 0 && *c.BlockTimestamp <= uint64(now.Unix()) {
			active, ok = c, !c.Disable
		}
	}
	return active, ok
}

// WarpConfigs returns the configurations of the Warp precompile of a subnet-evm chain. The C-Chain reports none: its
// configuration is part of the protocol.
func (e *EVM) WarpConfigs(ctx context.Context) (WarpConfigs, error) {
	const method = "eth_getChainConfig"
	var reply struct {
		ChainID  json.Number `json:"chainId"`
		Genesis  *WarpConfig `json:"warpConfig"`
		Upgrades struct {
			Precompiles []struct {
				Warp *WarpConfig `json:"warpConfig"`
			} `json:"precompileUpgrades"`
		} `json:"upgrades"`
	}
	if err := e.client.Call(ctx, e.path, method, []any{}, &reply); err != nil {
		return nil, err
	}
	if reply.ChainID == "" {
		return nil, fmt.Errorf("%s: %w: no chainId", method, ErrMalformed)
	}
	all := WarpConfigs{}
	if reply.Genesis != nil {
		all = append(all, *reply.Genesis)
	}
	for _, upgrade := range reply.Upgrades.Precompiles {
		if upgrade.Warp != nil {
			all = append(all, *upgrade.Warp)
		}
	}
	return all, nil
}

// WarpConfigs is EVM.WarpConfigs of a blockchain that the node runs.
func (c *Client) WarpConfigs(ctx context.Context, blockchainID ids.ID) (WarpConfigs, error) {
	return c.EVM("/ext/bc/" + blockchainID.String() + "/rpc").WarpConfigs(ctx)
}
