package network

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers"
	"quorate/handlers/networks"
	"quorate/internal/chain/genesis"
	"quorate/internal/config"
	"quorate/internal/peernode"
	"quorate/internal/peernode/checkpoint"
)

// Followed returns nil unless the P-Chain is followed over the peer-to-peer network and is not executed to its tip.
func (n *Network) Followed() error {
	if n.peerNode == nil {
		return nil
	}
	return n.peerNode.Ready()
}

// Following returns how far the P-Chain is. ok is false unless it is followed over the peer-to-peer network.
func (n *Network) Following() (at peernode.Status, ok bool) {
	if n.peerNode == nil {
		return at, false
	}
	return n.peerNode.Status(), true
}

// newPeerNode returns what follows the P-Chain over the peer-to-peer network.
func newPeerNode(o Options) (*peernode.Node, error) {
	g, err := configuredGenesis(o)
	if err != nil {
		return nil, err
	}
	manual, err := o.Config.Peers()
	if err != nil {
		return nil, err
	}
	var beacons []ids.NodeID
	for _, p := range manual {
		beacons = append(beacons, p.NodeID)
	}
	for _, b := range avagenesis.GetBootstrappers(g.NetworkID) {
		beacons = append(beacons, b.ID)
	}
	dir := ""
	if o.Dir != "" {
		dir = filepath.Join(o.Dir, config.PChainFolder)
	}
	upgrades, err := configuredUpgrades(g.NetworkID, o.Config.UpgradeFile)
	if err != nil {
		return nil, err
	}
	begin, err := configuredCheckpoint(o.Config)
	if err != nil {
		return nil, err
	}
	return peernode.New(peernode.Options{
		Genesis: g, Upgrades: upgrades, Dir: dir, Beacons: beacons, Checkpoint: begin, Log: o.Log,
		Trusted:  avagenesis.GetCheckpoints(g.NetworkID, constants.PlatformChainID).List(),
		Ledger:   o.Config.OnlyPeers() && o.Config.RecordsLedger(),
		TrustedX: avagenesis.GetCheckpoints(g.NetworkID, g.XChainID).List(),
		TrustedC: avagenesis.GetCheckpoints(g.NetworkID, g.CChainID).List(),
	})
}

// configuredCheckpoint returns the checkpoint to begin with, nil if there is none.
func configuredCheckpoint(c config.Network) (*peernode.Checkpoint, error) {
	if c.Checkpoint == "" {
		return nil, nil
	}
	hash, err := c.CheckpointID()
	return &peernode.Checkpoint{File: c.Checkpoint, Hash: hash}, err
}

// Export writes a checkpoint of the P-Chain; see peernode.Node. The error is handlers.ErrNotExecuted if the P-Chain is
// not followed over the peer-to-peer network.
func (n *Network) Export(ctx context.Context, height uint64, begin func(checkpoint.Header) io.Writer) error {
	if n.peerNode == nil {
		return handlers.ErrNotExecuted
	}
	_, err := n.peerNode.Export(ctx, height, begin)
	return err
}

// firstIndexed returns the first P-Chain height that can be indexed. Blocks from before a checkpoint cannot be verified.
func firstIndexed(o Options) uint64 {
	if o.peerNode != nil && o.peerNode.First() > 0 {
		return max(o.Config.IndexFrom, o.peerNode.First()+1)
	}
	return o.Config.IndexFrom
}

// configuredGenesis returns the genesis of the configured file, or of the public network of the name.
func configuredGenesis(o Options) (*genesis.Genesis, error) {
	if o.Config.GenesisFile != "" {
		return genesis.FromFile(o.Config.GenesisFile)
	}
	id, _ := networks.PublicID(o.Name)
	return genesis.FromConfig(avagenesis.GetConfig(id))
}

// configuredUpgrades returns the upgrade times of a network, from a file if there is one.
func configuredUpgrades(networkID uint32, file string) (upgrade.Config, error) {
	if file == "" {
		return upgrade.GetConfig(networkID), nil
	}
	upgrades, err := genesis.UpgradesFromFile(file)
	if err != nil {
		return upgrade.Config{}, fmt.Errorf("upgrade_file cannot be used: %w", err)
	}
	return upgrades, nil
}
