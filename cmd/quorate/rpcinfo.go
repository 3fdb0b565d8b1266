package main

import (
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/info"
	"quorate/index"
)

// addInfo answers about the network, its chains and our place in it.
func addInfo(a *nodeAPI) error {
	s := info.New(info.Options{NetworkID: a.network.id, Aliases: a.aliases, Bootstrapped: a.bootstrapped})
	return a.addService("info", "", "", rpc.Endpoint{Services: []rpc.Service{{Names: []string{"info"}, Methods: s}}})
}

// bootstrapped reports whether a blockchain is recorded up to the tip; one that is
// not recorded is the nodes' to answer for, who have it.
func (a *nodeAPI) bootstrapped(id ids.ID) bool {
	names := map[ids.ID]string{constants.PlatformChainID: index.PChain, a.xChainID: index.XChain, a.cChainID: index.CChain}
	if a.network.chains == nil {
		return true
	}
	status, ok := a.network.chains.Status()[names[id]]
	return !ok || status.State == index.Following
}
