package nodeapi

import (
	"errors"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers"
	"quorate/handlers/rpc"
)

// maxSockets is the maximum number of open WebSockets of a network, on each listener.
const maxSockets = 1024

// addCChain forwards the API of the C-Chain.
func addCChain(a *API) error {
	if a.cChainID == ids.Empty {
		return nil
	}
	c, client := chainBase(a.cChainID), a.network.Node
	if err := a.addService(c, "/avax", "/ext/bc/C/avax", rpc.Endpoint{}); err != nil {
		return err
	}
	if err := a.addProposer(a.cChainID, "/ext/bc/C"); err != nil {
		return err
	}
	public := rpc.Ethereum{
		Node: client, Path: "/ext/bc/C/rpc", BodyLimit: handlers.NodeBodyLimit, Log: a.log,
		Namespaces: a.config.PublicNamespaces(),
		Sockets: rpc.SocketLimits{
			Most: maxSockets, PerClient: a.config.SocketsPerClient, Idle: a.config.SocketIdle, Life: a.config.SocketLife,
		},
	}
	operator := public // without limits per client
	operator.Namespaces, operator.Sockets = nil, rpc.SocketLimits{Most: maxSockets}
	return errors.Join(
		a.Public.Add(c, "/rpc", public.Calls()), a.Operator.Add(c, "/rpc", operator.Calls()),
		a.Public.Add(c, "/ws", public.Connections()), a.Operator.Add(c, "/ws", operator.Connections()),
	)
}
