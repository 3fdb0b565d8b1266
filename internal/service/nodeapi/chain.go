package nodeapi

import (
	"errors"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/asset"
	"quorate/handlers/rpc/chain"
	"quorate/handlers/rpc/platform"
	"quorate/internal/index"
)

// Paths of the P-Chain's and the X-Chain's endpoints on upstream nodes.
const (
	platformPath = "/ext/bc/P"
	assetPath    = "/ext/bc/X"
)

// addChains answers for the P-Chain and the X-Chain from the index if it includes the ledger. Otherwise it forwards
// all calls.
func addChains(a *API) error {
	var onPlatform rpc.Endpoint
	onAsset := rpc.Endpoint{Rename: map[string]string{"xvm": "avm"}}
	if chains := a.network.Chains(); chains != nil && chains.Ledger != nil && chains.Kept() {
		var err error
		if onPlatform, onAsset, err = a.withIndex(onPlatform, onAsset); err != nil {
			return err
		}
	}
	if err := a.addService(chainBase(constants.PlatformChainID), "", platformPath, onPlatform); err != nil {
		return err
	}
	if err := a.addProposer(constants.PlatformChainID, platformPath); err != nil {
		return err
	}
	if a.xChainID == ids.Empty {
		return nil
	}
	x := chainBase(a.xChainID)
	if err := a.addService(x, "", assetPath, onAsset); err != nil {
		return err
	}
	return errors.Join(a.addService(x, "/wallet", assetPath+"/wallet", rpc.Endpoint{}), a.addProposer(a.xChainID, assetPath))
}

// addProposer forwards calls to the proposervm of a chain, for example for its epoch (ACP-181).
func (a *API) addProposer(id ids.ID, path string) error {
	return a.addService(chainBase(id), "/proposervm", path+"/proposervm", rpc.Endpoint{})
}

// withIndex adds the services that answer from the index.
func (a *API) withIndex(onPlatform, onAsset rpc.Endpoint) (rpc.Endpoint, rpc.Endpoint, error) {
	chains, g := a.network.Chains(), a.network.Genesis()
	ready := make(map[ids.ID]func() bool)
	options := make(map[string]chain.Options)
	for name, id := range map[string]ids.ID{index.PChain: constants.PlatformChainID, index.XChain: g.XChainID, index.CChain: g.CChainID} {
		status := func() index.Status { return chains.ChainStatus(name) }
		ready[id] = func() bool { return status().Ready() }
		options[name] = chain.Options{
			NetworkID: a.network.ID, ID: id, Name: name, Aliases: a.aliases, Store: a.store, Ledger: chains.Ledger,
			Status: status, Sources: ready, Log: a.log,
		}
	}
	p, x := options[index.PChain], options[index.XChain]
	p.Genesis, x.Genesis, x.Before = g.PTxs, g.XTxs, chains.XChainBefore
	about := platform.New(platform.Options{
		Chain: p, AVAXAssetID: g.AVAXAssetID, Subnets: chains.Subnets, Upstream: a.network.Node, Path: platformPath,
		Follows: func(id ids.ID) bool {
			return id == g.XChainID || id == g.CChainID || a.network.Follows(id)
		},
	})
	assets, err := asset.New(asset.Options{Chain: x, Assets: chains.Ledger, Aliases: g.Aliases, Upstream: a.network.Node, Path: assetPath})
	if err != nil {
		return onPlatform, onAsset, err
	}
	onPlatform.Services = []rpc.Service{{Names: platform.Names, Methods: about}}
	onPlatform.Ready = ready[constants.PlatformChainID]
	onAsset.Services = []rpc.Service{{Names: asset.Names, Methods: assets}}
	onAsset.Ready = ready[g.XChainID]
	return onPlatform, onAsset, nil
}
