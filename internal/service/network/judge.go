package network

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/node/judge"
)

// newJudge returns what compares the nodes of a network with the P-Chain that this process executes, or else with each
// other; nil if there is nothing to compare.
func newJudge(n *Network, log *slog.Logger) *judge.Judge {
	o := judge.Options{Chain: index.PChain, NetworkID: n.ID, Log: log}
	for _, one := range n.Node.Each() {
		o.Nodes = append(o.Nodes, one)
	}
	switch {
	case len(o.Nodes) == 0, len(o.Nodes) == 1 && n.peerNode == nil:
		return nil
	case n.peerNode != nil:
		o.Executed, o.Ready = n.Node.Executed(), n.peerNode.Ready
		o.Subnets = func() []ids.ID {
			var followed []ids.ID
			largest, _ := n.Coverage.Subnets()
			for _, s := range largest {
				followed = append(followed, s.ID)
			}
			return followed
		}
	}
	return judge.New(o)
}

// evmNode is a node of an EVM chain, to be compared with others. Validators are not compared, so it reports none.
type evmNode struct {
	*node.Client
	api *node.EVM
}

// Height implements judge.Chain.
func (n evmNode) Height(ctx context.Context) (uint64, error) { return n.api.Tip(ctx) }

// BlockByHeight implements judge.Chain. It returns the block's hash.
func (n evmNode) BlockByHeight(ctx context.Context, height uint64) ([]byte, error) {
	hash, err := n.api.BlockHash(ctx, height)
	return hash[:], err
}

// newEVMJudge returns what compares a chain's own nodes with each other; nil without several. The nodes of the C-Chain are
// those of the network, which newJudge compares.
func newEVMJudge(c evmChain, name string, log *slog.Logger) *judge.Judge {
	o := judge.Options{Chain: name, Log: log}
	if c.own {
		for _, one := range c.client.Each() {
			o.Nodes = append(o.Nodes, evmNode{one, one.EVM(c.path)})
		}
	}
	if len(o.Nodes) < 2 {
		return nil
	}
	return judge.New(o)
}

// Verdicts returns what was found about the nodes of the network and of its EVM chains; none if there is nothing to compare
// them with.
func (n *Network) Verdicts() []judge.Verdict {
	var all []judge.Verdict
	if n.judge != nil {
		all = n.judge.Verdicts()
	}
	if n.evm != nil {
		all = append(all, n.evm.verdicts()...)
	}
	return all
}

// Outvoted returns a *CauseError about the first node that is not asked because it lies; nil if there is none.
func (n *Network) Outvoted() error { return outvoted(n.Verdicts()) }

func outvoted(all []judge.Verdict) error {
	for _, v := range all {
		if v.Standing == node.Lies {
			return &CauseError{"an upstream node contradicts the P-Chain that the validators have accepted and is not asked", fmt.Errorf("%s: %s", v.Node, v.Text)}
		}
	}
	return nil
}
