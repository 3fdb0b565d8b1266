package network

import (
	"fmt"
	"log/slog"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
	"quorate/internal/node/judge"
)

// newJudge returns what compares the nodes of a network with the P-Chain that this process executes, or else with each
// other; nil if there is nothing to compare.
func newJudge(n *Network, log *slog.Logger) *judge.Judge {
	o := judge.Options{Log: log}
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

// Verdicts returns what was found about the nodes of the network; none if there is nothing to compare them with.
func (n *Network) Verdicts() []judge.Verdict {
	if n.judge == nil {
		return nil
	}
	return n.judge.Verdicts()
}

// Outvoted returns an error that names the first node that is not asked because it lies; nil if there is none.
func (n *Network) Outvoted() error {
	for _, v := range n.Verdicts() {
		if v.Standing == node.Lies {
			return fmt.Errorf("upstream node %s contradicts the P-Chain that the validators have accepted and is not asked: %s", v.Node, v.Text)
		}
	}
	return nil
}
