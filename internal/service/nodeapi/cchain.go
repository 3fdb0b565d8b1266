package nodeapi

import (
	"errors"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers"
	"quorate/handlers/rpc"
	"quorate/internal/node"
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
	return a.addEthereum(c, client, "/ext/bc/C/rpc")
}

// addEthereum forwards the Ethereum API of a chain to path on the nodes of client.
func (a *API) addEthereum(base string, client *node.Client, path string) error {
	public := rpc.Ethereum{
		Node: client, Path: path, BodyLimit: handlers.NodeBodyLimit, Log: a.log,
		Namespaces: a.config.PublicNamespaces(),
		Sockets: rpc.SocketLimits{
			Most: maxSockets, PerClient: a.config.SocketsPerClient, Idle: a.config.SocketIdle, Life: a.config.SocketLife,
		},
	}
	operator := public // without limits per client
	operator.Namespaces, operator.Sockets = nil, rpc.SocketLimits{Most: maxSockets}
	return errors.Join(
		a.Public.Add(base, "/rpc", public.Calls()), a.Operator.Add(base, "/rpc", operator.Calls()),
		a.Public.Add(base, "/ws", public.Connections()), a.Operator.Add(base, "/ws", operator.Connections()),
	)
}
