package network

import (
	"net/url"
	"strings"

	"quorate/internal/node"
)

// L1API is what the node of a configured EVM chain offers for that chain alone.
type L1API struct {
	// Name identifies the chain until its node has reported its blockchain ID.
	Name string
	// Ethereum is a client of the chain's Ethereum API, whose path is empty.
	Ethereum *node.Client
	// Proposer is a client of the chain's proposervm API, whose path is empty. It is nil if the URL of the Ethereum API
	// does not show where that is.
	Proposer *node.Client
}

// L1s returns the APIs of the configured EVM chains.
func (n *Network) L1s() []L1API {
	var all []L1API
	for _, c := range n.evmChains {
		if c.own {
			all = append(all, L1API{Name: c.name, Ethereum: c.client, Proposer: c.proposer})
		}
	}
	return all
}

// newProposer returns a client of the proposervm API beside the Ethereum APIs of o, nil if there is none. On a node, the
// paths are /ext/bc/ID/rpc and /ext/bc/ID/proposervm.
func newProposer(o node.Options) (*node.Client, error) {
	headers := o.Headers
	var endpoints []string
	o.Headers = nil
	for i, rpc := range o.Endpoints {
		u, err := url.Parse(rpc)
		if err != nil {
			return nil, err
		}
		base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), "/rpc")
		if !ok || !strings.Contains(base, "/ext/bc/") {
			continue
		}
		u.Path = base + "/proposervm"
		endpoints, o.Headers = append(endpoints, u.String()), append(o.Headers, headers[i])
	}
	if len(endpoints) == 0 {
		return nil, nil
	}
	o.Endpoints = endpoints
	return node.New(o)
}
