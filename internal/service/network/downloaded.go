package network

import (
	"context"
	"errors"
	"fmt"

	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/peernode"
)

// downloadedNode is what the indexes ask if there is no node: the P-Chain is executed here, and the blocks of the X- and
// C-Chain are downloaded.
type downloadedNode struct {
	*node.Client
	chains *peernode.Node
}

var (
	_ index.XChainNode = downloadedNode{}
	_ index.CChainNode = downloadedNode{}
)

// XChainHeight implements index.XChainNode.
func (d downloadedNode) XChainHeight(context.Context) (uint64, error) {
	height, err := d.chains.XHeight()
	return height, notDownloaded(err, node.ErrUnavailable)
}

// XChainBlock implements index.XChainNode.
func (d downloadedNode) XChainBlock(_ context.Context, height uint64) ([]byte, error) {
	b, err := d.chains.XBlock(height)
	return b, notDownloaded(err, node.ErrBeyondTip)
}

// EVMHeight implements index.CChainNode.
func (d downloadedNode) EVMHeight(ctx context.Context, path string) (uint64, error) {
	if path != node.CChainRPC {
		return d.Client.EVMHeight(ctx, path)
	}
	height, err := d.chains.CHeight()
	return height, notDownloaded(err, node.ErrUnavailable)
}

// CChainBlock implements index.CChainNode.
func (d downloadedNode) CChainBlock(_ context.Context, height uint64) (node.CChainBlock, error) {
	b, err := d.chains.CBlock(height)
	if err != nil {
		return node.CChainBlock{}, notDownloaded(err, node.ErrBeyondTip)
	}
	return node.CChainBlock{Height: height, Hash: b.ID, ParentHash: b.ParentID, Time: b.Time, ExtraData: b.ExtraData}, nil
}

// Containers reports that there are none: blocks are kept without their envelopes.
func (d downloadedNode) Containers(ctx context.Context, chain node.Index, start uint64, n int) ([]node.Container, error) {
	if chain == node.PChainBlocks {
		return d.Client.Containers(ctx, chain, start, n)
	}
	return nil, node.ErrNotOffered
}

// notDownloaded returns err, which is also as if the block is not downloaded.
func notDownloaded(err, as error) error {
	if errors.Is(err, peernode.ErrNotDownloaded) {
		return fmt.Errorf("%w: %w", as, err)
	}
	return err
}
