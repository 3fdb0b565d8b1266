package network

import (
	"path/filepath"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"

	"quorate/handlers/networks"
	"quorate/internal/chain/genesis"
	"quorate/internal/peernode"
)

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
	return peernode.New(peernode.Options{Genesis: g, Upgrades: upgrade.GetConfig(g.NetworkID), Dir: dir, Beacons: beacons, Log: o.Log})
}

// configuredGenesis returns the genesis of the configured file, or of the public network of the name.
func configuredGenesis(o Options) (*genesis.Genesis, error) {
	if o.Config.GenesisFile != "" {
		return genesis.FromFile(o.Config.GenesisFile)
	}
	id, _ := networks.PublicID(o.Name)
	return genesis.FromConfig(avagenesis.GetConfig(id))
}
