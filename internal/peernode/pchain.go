package peernode

import (
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"quorate/internal/peernode/pchainvm"
)

// pChain executes the P-Chain for a Node.
type pChain struct {
	*pchainvm.Chain
	node *Node
}

func (pChain) parse(b []byte) (chainBlock, error) {
	parsed, err := block.Parse(block.Codec, b)
	if err != nil {
		return chainBlock{}, fmt.Errorf("reading a block of the P-Chain: %w", err)
	}
	return chainBlock{parsed.ID(), parsed.Parent(), parsed.Height(), b}, nil
}

func (pChain) idOf(kept []byte) ids.ID { return hashing.ComputeHash256Array(kept) }

func (c pChain) executed(ctx context.Context) (last ids.ID, next uint64, err error) {
	last, height, err := c.LastAccepted(ctx)
	return last, height + 1, err
}

// execute executes the next block, and hands the state to exports that wait for it.
func (c pChain) execute(ctx context.Context, height uint64, kept []byte) error {
	if err := c.Execute(ctx, kept); err != nil {
		return err
	}
	return c.node.offer(ctx, c.Chain, height)
}

// voters returns the nodes that decide about the P-Chain's tip: the beacons until it is confirmed for the first time after
// the start, then the validators.
func (n *Node) voters(ctx context.Context, chain *pchainvm.Chain) (weights map[ids.NodeID]uint64, who string, err error) {
	if !n.Status().Confirmed.IsZero() {
		return n.validators(ctx, chain)
	}
	weights = make(map[ids.NodeID]uint64, len(n.o.Beacons))
	for _, nodeID := range n.o.Beacons {
		weights[nodeID] = 1
	}
	return weights, "nodes to begin with", nil
}

// validators returns the validators of the primary network, who decide about the tips of its chains. The error is ErrBehind
// before the P-Chain is executed to its tip.
func (n *Node) validators(ctx context.Context, chain *pchainvm.Chain) (weights map[ids.NodeID]uint64, who string, err error) {
	if n.Status().Confirmed.IsZero() {
		return nil, "", ErrBehind
	}
	if weights, err = weightsOf(ctx, chain, constants.PrimaryNetworkID); err != nil {
		err = &fatalError{err}
	}
	return weights, "validators", err
}
