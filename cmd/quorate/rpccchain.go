package main

import (
	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers"
	"quorate/handlers/rpc"
)

// maxSockets is how many WebSockets of a network may be open at a time.
const maxSockets = 1024

// addCChain passes through what is for the C-Chain.
func addCChain(a *nodeAPI) error {
	if a.cChainID == ids.Empty {
		return nil
	}
	c, client := chainBase(a.cChainID), a.network.node
	if err := a.addService(c, "/avax", "/ext/bc/C/avax", rpc.Endpoint{}); err != nil {
		return err
	}
	if err := a.addProposer(a.cChainID, "/ext/bc/C"); err != nil {
		return err
	}
	if err := a.add(c, "/rpc", rpc.Pass(client, "/ext/bc/C/rpc", handlers.NodeBodyLimit, a.log)); err != nil {
		return err
	}
	return a.add(c, "/ws", rpc.PassConnection(client, "/ext/bc/C/ws", maxSockets, a.log))
}
