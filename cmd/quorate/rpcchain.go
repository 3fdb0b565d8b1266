package main

import (
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/rpc"
)

// addChains answers for the P- and the X-Chain.
func addChains(a *nodeAPI) error {
	if err := a.addService(chainBase(constants.PlatformChainID), "", "/ext/bc/P", rpc.Endpoint{}); err != nil {
		return err
	}
	if a.xChainID == ids.Empty {
		return nil
	}
	x := chainBase(a.xChainID)
	if err := a.addService(x, "", "/ext/bc/X", rpc.Endpoint{Rename: map[string]string{"xvm": "avm"}}); err != nil {
		return err
	}
	return a.addService(x, "/wallet", "/ext/bc/X/wallet", rpc.Endpoint{})
}
