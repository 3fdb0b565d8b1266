package network

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/envelope"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/peernode"
)

// executedChain is the P-Chain that this process executes; *peernode.Node implements it.
type executedChain interface {
	Ready() error
	Executed() (height uint64, ok bool)
	BlockID(ctx context.Context, height uint64) (ids.ID, error)
}

// verifiedNode is what the indexes ask if the P-Chain is executed here and there are nodes too. What they index of the
// P-Chain is what was executed. Nodes supply the proposer envelopes.
type verifiedNode struct {
	*node.Client
	executed *node.Client // of the executed chain alone
	chain    executedChain
}

// indexNode returns what the indexes ask.
func (n *Network) indexNode() primary.Node {
	if n.peerNode != nil && n.peerNode.First() > 0 {
		return checkpointNode{n.anyIndexNode(), n.Name, n.peerNode.First()}
	}
	return n.anyIndexNode()
}

// anyIndexNode is indexNode, whatever the P-Chain began with.
func (n *Network) anyIndexNode() primary.Node {
	switch {
	case n.peerNode != nil && len(n.Node.Each()) > 0:
		return verifiedNode{n.Node, n.Node.Executed(), n.peerNode}
	case n.peerNode != nil && n.ledger:
		return downloadedNode{n.Node, n.peerNode}
	}
	return n.Node
}

// checkpointNode is what the indexes ask if the P-Chain that is executed here began with a checkpoint.
type checkpointNode struct {
	primary.Node
	network string
	first   uint64 // see peernode.Node
}

// BlockByHeight returns an *index.MissingError for blocks from before the checkpoint.
func (c checkpointNode) BlockByHeight(ctx context.Context, height uint64) ([]byte, error) {
	if height < c.first {
		return nil, &index.MissingError{
			Lacks: fmt.Sprintf("P-Chain block %d is not known here, because the P-Chain's state began with a checkpoint at height %d", height, c.first),
			Do:    fmt.Sprintf("stop quorate, remove DATA_DIR/%s/%s, and begin without a checkpoint or with one below block %d", c.network, config.PChainFolder, height),
		}
	}
	return c.Node.BlockByHeight(ctx, height)
}

// Height returns the height of the executed chain, which need not be executed to its tip.
func (v verifiedNode) Height(ctx context.Context) (uint64, error) {
	err := v.chain.Ready()
	if err == nil {
		return v.executed.Height(ctx)
	}
	if height, ok := v.chain.Executed(); ok {
		return height, nil
	}
	return 0, fmt.Errorf("%w: %w", node.ErrUnavailable, err)
}

// BlockByHeight returns a block that was executed.
func (v verifiedNode) BlockByHeight(ctx context.Context, height uint64) ([]byte, error) {
	b, err := v.Client.BlockByHeight(ctx, height)
	if err == nil {
		err = v.verify(ctx, height, hashing.ComputeHash256Array(b))
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// BlockRange returns the containers of blocks that were executed. It ends before the first other one, or returns why that
// is none.
func (v verifiedNode) BlockRange(ctx context.Context, start uint64, n int) ([]node.Container, error) {
	found, err := v.Client.BlockRange(ctx, start, n)
	if err != nil {
		return nil, err
	}
	for i := range found {
		c := &found[i]
		id, container := ids.ID(hashing.ComputeHash256Array(c.Bytes)), c.ID
		if e, ok := envelope.Open(c.Bytes); ok {
			id, container = hashing.ComputeHash256Array(e.Block), e.ID
		}
		height := c.Index + 1 // the genesis block has no container
		err := v.verify(ctx, height, id)
		if err == nil && container != c.ID {
			err = fmt.Errorf("%w: the container of P-Chain block %d is %s, not %s", node.ErrMalformed, height, container, c.ID)
		}
		if err != nil {
			if i > 0 {
				return found[:i], nil
			}
			return nil, err
		}
	}
	return found, nil
}

func (v verifiedNode) verify(ctx context.Context, height uint64, id ids.ID) error {
	executed, err := v.chain.BlockID(ctx, height)
	switch {
	case errors.Is(err, peernode.ErrBehind):
		return fmt.Errorf("%w: %w", node.ErrBeyondTip, err)
	case err == nil && executed != id:
		return fmt.Errorf("%w: P-Chain block %d is %s, but the validators have accepted %s", node.ErrMalformed, height, id, executed)
	}
	return err
}

// RewardUTXOs asks the executed chain alone, because nothing shows whether a node's answer is right.
func (v verifiedNode) RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	if err := v.chain.Ready(); err != nil {
		return nil, fmt.Errorf("%w: %w", node.ErrUnavailable, err)
	}
	return v.executed.RewardUTXOs(ctx, txID, height)
}
