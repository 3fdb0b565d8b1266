package network

import (
	"log/slog"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/data"
	"quorate/handlers/reply"
	"quorate/internal/chain/genesis"
	"quorate/internal/index"
	"quorate/internal/index/archive"
	"quorate/internal/index/primary"
	"quorate/internal/store"
)

// addArchives adds the stored blocks of the P-Chain and the X-Chain to the data of the Data API, if they are stored.
func (n *Network) addArchives(d *data.Network, chains *primary.Network, g *genesis.Genesis) {
	if !chains.Kept() {
		return
	}
	var from store.Viewer = n.store
	if n.views != nil {
		from = n.views
	}
	names := map[ids.ID]string{constants.PlatformChainID: index.PChain, g.XChainID: index.XChain}
	d.Archives = make(map[ids.ID]data.Archive, len(names))
	for id, name := range names {
		o := archive.Options{Viewer: from, NetworkID: n.ID, Name: name, ID: id, Begun: g.Time, Genesis: g.PTxs}
		if name == index.XChain {
			o.Genesis, o.Before, o.AVAXAssetID = g.XTxs, chains.XChainBefore, g.AVAXAssetID
		}
		chain, err := archive.New(o)
		if err != nil { // the library has no parser
			n.log.Error("the blocks of a chain cannot be served", slog.String("chain", name), slog.Any("error", err))
			continue
		}
		d.Archives[id] = chain
	}
	d.ArchiveProgress = func(chainID ids.ID) data.Progress { return reply.ProgressOf(chains.LookupStatus(names[chainID])) }
}
