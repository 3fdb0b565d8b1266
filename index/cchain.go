package index

import (
	"context"
	"log/slog"

	"quorate/chain/cchain"
	"quorate/node"
)

// CChain is the name of the C-Chain in cursors, errors and logs.
const CChain = "C"

// CChainNode is what is asked of an upstream node; *node.Client has it.
type CChainNode interface {
	EVMHeight(ctx context.Context, path string) (uint64, error)
	CChainBlock(ctx context.Context, height uint64) (node.CChainBlock, error)
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}

// leastSize is what a block of the C-Chain counts for in memory, in bytes, of which
// only the atomic transactions are kept.
const leastSize = 256

// NewCChainSource makes a source of the C-Chain's blocks, as far as they concern
// other chains; a nil log drops what it has to say.
func NewCChainSource(n CChainNode, log *slog.Logger) *NodeSource[*cchain.Block] {
	pack := func(content *cchain.Block) Block[*cchain.Block] {
		return Block[*cchain.Block]{Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: leastSize + len(content.ExtraData), Content: content}
	}
	return newNodeSource(chainAPI[*cchain.Block]{
		name: CChain,
		tip:  func(ctx context.Context) (uint64, error) { return n.EVMHeight(ctx, node.CChainRPC) },
		one: func(ctx context.Context, height uint64) (Block[*cchain.Block], error) {
			b, err := n.CChainBlock(ctx, height)
			if err != nil {
				return Block[*cchain.Block]{}, err
			}
			return pack(&cchain.Block{Height: b.Height, ID: b.Hash, ParentID: b.ParentHash, Time: b.Time, ExtraData: b.ExtraData}), nil
		},
		some: containersOf(n, node.CChainBlocks),
		read: func(height uint64, c *node.Container) (Block[*cchain.Block], error) {
			content, err := cchain.ParseBlock(c.Bytes)
			if err != nil {
				return Block[*cchain.Block]{}, unreadable(height, err)
			}
			// The whole block is large, and little of it is wanted.
			kept := *content
			kept.ExtraData = append([]byte(nil), content.ExtraData...)
			return pack(&kept), nil
		},
	}, log)
}
