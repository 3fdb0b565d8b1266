package index

import (
	"context"
	"log/slog"

	"quorate/chain/xchain"
	"quorate/node"
)

// XChain is the name of the X-Chain in cursors, errors and logs.
const XChain = "X"

// XChainNode is what is asked of an upstream node; *node.Client has it.
type XChainNode interface {
	XChainHeight(ctx context.Context) (uint64, error)
	XChainBlock(ctx context.Context, height uint64) ([]byte, error)
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}

// NewXChainSource makes a source of the X-Chain's blocks, which it has had since it
// was linearised (Cortina); a nil log drops what it has to say.
func NewXChainSource(n XChainNode, decoder *xchain.Decoder, log *slog.Logger) *NodeSource[*xchain.Block] {
	read := func(height uint64, b []byte) (Block[*xchain.Block], error) {
		content, err := decoder.ParseBlock(b)
		if err != nil {
			return Block[*xchain.Block]{}, unreadable(height, err)
		}
		return Block[*xchain.Block]{Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: parsedSize * len(b), Content: content}, nil
	}
	return newNodeSource(chainAPI[*xchain.Block]{
		name: XChain,
		tip:  n.XChainHeight,
		one:  readOne(n.XChainBlock, read),
		some: containersOf(n, node.XChainBlocks),
		read: read,

		whole: true,
	}, log)
}

// containersOf fetches ranges of one index.
func containersOf(n interface {
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}, index node.Index) func(context.Context, uint64, int) ([]node.Container, error) {
	return func(ctx context.Context, start uint64, size int) ([]node.Container, error) {
		return n.Containers(ctx, index, start, size)
	}
}
