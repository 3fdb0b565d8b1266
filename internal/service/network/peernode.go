package network

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"

	"quorate/handlers/networks"
	"quorate/internal/chain/genesis"
	"quorate/internal/peernode"
)

// Followed returns nil unless the P-Chain is followed over the peer-to-peer network and is not executed to its tip.
func (n *Network) Followed() error {
	if n.peerNode == nil {
		return nil
	}
	return n.peerNode.Ready()
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
		dir = filepath.Join(o.Dir, "pchain")
	}
	upgrades, err := configuredUpgrades(g.NetworkID, o.Config.UpgradeFile)
	if err != nil {
		return nil, err
	}
	return peernode.New(peernode.Options{Genesis: g, Upgrades: upgrades, Dir: dir, Beacons: beacons, Log: o.Log})
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
	upgrades := upgrade.GetConfig(networkID)
	if file == "" {
		return upgrades, nil
	}
	content, err := os.ReadFile(file)
	if err == nil {
		upgrades = upgrade.Config{}
		err = json.Unmarshal(content, &upgrades)
	}
	if err == nil {
		err = upgrades.Validate()
	}
	if err != nil {
		return upgrade.Config{}, fmt.Errorf("upgrade_file cannot be used: %w", err)
	}
	return upgrades, nil
}
