package network

import (
	"fmt"
	"log/slog"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
	"quorate/internal/peernode/judge"
)

// newJudge returns what compares the nodes of a network with the P-Chain that this process executes, nil if there are
// not both.
func newJudge(n *Network, log *slog.Logger) *judge.Judge {
	if n.peerNode == nil {
		return nil
	}
	var nodes []judge.Node
	for _, one := range n.Node.Each() {
		nodes = append(nodes, one)
	}
	if len(nodes) == 0 {
		return nil
	}
	return judge.New(judge.Options{
		Executed: n.Node.Executed(), Ready: n.peerNode.Ready, Nodes: nodes, Log: log,
		Subnets: func() []ids.ID {
			var followed []ids.ID
			largest, _ := n.Coverage.Subnets()
			for _, s := range largest {
				followed = append(followed, s.ID)
			}
			return followed
		},
	})
}

// Verdicts returns what was found about the nodes of the network; none unless the P-Chain is executed here too.
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
