package network

import (
	"context"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/data"
	"quorate/handlers/reply"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/index/primary"
	"quorate/internal/index/registry"
	"quorate/internal/store"
)

// Data returns the network's indexed data for the Data API, or what is missing for it. It returns false if the service
// has no store.
func (n *Network) Data() (data.Network, bool) {
	i := n.indexed.Load()
	if i == nil {
		return data.Network{}, false
	}
	chains, g := i.chains, i.origin.genesis
	switch {
	case !n.ledger:
		return data.Network{Needs: fmt.Sprintf("only what signing needs is indexed; set networks.%s.record to %s or %s", n.Name, config.RecordPrimary, config.RecordAll)}, true
	case g == nil:
		return data.Network{Needs: fmt.Sprintf("the network's genesis is not known yet; if this lasts, set networks.%s.genesis_file to the file that its nodes were started with", n.Name)}, true
	}
	d := data.Network{NetworkID: n.ID, XChainID: g.XChainID, CChainID: g.CChainID, AVAXAssetID: g.AVAXAssetID}
	record := chains.Ledger
	d.Subnets = chains.Subnets
	if n.views != nil {
		record, d.Subnets = ledger.New(n.views, n.ID), subnets.New(n.views, n.ID)
	}
	d.Registry, d.RegistryProgress = registryOn(n.views, chains)
	d.Uptimes = n.uptimes
	d.Versions = n.versions
	d.Ledger = record
	n.addArchives(&d, chains, g)
	d.Cortina = func(ctx context.Context) (time.Time, error) {
		begin, err := chains.XChainBegin(ctx)
		return begin.Time, err
	}
	d.Vertices = chains.Vertices
	d.Rewards = n.stakes
	if n.times != nil {
		d.Times = n.times
	}
	names := map[ids.ID]string{constants.PlatformChainID: index.PChain, g.XChainID: index.XChain, g.CChainID: index.CChain}
	d.Progress = func(ctx context.Context, chainID ids.ID) data.Progress {
		return progressAt(ctx, chains.LedgerStatus(names[chainID]), func(ctx context.Context) (uint64, time.Time, error) {
			return record.Tip(ctx, chainID)
		})
	}
	return d, true
}

// tipTimeout is how long a request waits for the last indexed block of a chain, before it counts as not caught up.
const tipTimeout = 5 * time.Second

// progressAt returns the progress of an index with status. tip reads the height and time of the last indexed block, which
// are a row. Without the row nothing is indexed yet.
func progressAt(ctx context.Context, status index.Status, tip func(context.Context) (uint64, time.Time, error)) reply.Progress {
	p := reply.ProgressOf(status)
	ctx, cancel := context.WithTimeout(ctx, tipTimeout)
	defer cancel()
	height, at, err := tip(ctx)
	if err != nil {
		p.CaughtUp, p.Unreadable = false, err
		return p
	}
	p.Height, p.Time = height, at
	return p
}

// Registry returns the index of validators and its progress. It returns false if there is none.
func (n *Network) Registry() (*registry.Index, func(context.Context) data.Progress, bool) {
	return n.registry(n.views)
}

// StoreRegistry returns the same as Registry, but reads the store, never a standby. Standbys may be at different heights;
// successive reads of the store never return an older state.
func (n *Network) StoreRegistry() (*registry.Index, func(context.Context) data.Progress, bool) {
	return n.registry(nil)
}

func (n *Network) registry(views store.Viewer) (*registry.Index, func(context.Context) data.Progress, bool) {
	i := n.indexed.Load()
	if i == nil || !n.ledger || i.origin.genesis == nil {
		return nil, nil, false
	}
	validators, progress := registryOn(views, i.chains)
	return validators, progress, true
}

// registryOn returns the index of validators in views, or in the store if views is nil, and its progress.
func registryOn(views store.Viewer, chains *primary.Network) (*registry.Index, func(context.Context) data.Progress) {
	validators := chains.Registry
	if views != nil {
		validators = validators.On(views)
	}
	return validators, func(ctx context.Context) data.Progress {
		return progressAt(ctx, chains.RegistryStatus(), func(ctx context.Context) (uint64, time.Time, error) {
			head, err := validators.Head(ctx)
			return head.Height, head.Time, err
		})
	}
}

// versions returns the versions of the connected nodes.
func (n *Network) versions() map[ids.NodeID]string {
	peers := n.Peers.Peers()
	all := make(map[ids.NodeID]string, len(peers))
	for i := range peers {
		all[peers[i].NodeID] = peers[i].Version
	}
	return all
}
