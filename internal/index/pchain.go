package index

import (
	"context"
	"fmt"
	"log/slog"

	"quorate/internal/chain/pchain"
	"quorate/internal/index/container"
	"quorate/internal/node"
)

// PChain is the name of the P-Chain in cursors, errors and logs.
const PChain = "P"

// PChainNode lists the methods that PChainSource calls on an upstream node. *node.Client implements it.
type PChainNode interface {
	Height(ctx context.Context) (uint64, error)
	BlockByHeight(ctx context.Context, height uint64) ([]byte, error)
	BlockRange(ctx context.Context, start uint64, n int) ([]node.Container, error)
}

// PChainSource fetches P-Chain blocks.
type PChainSource = NodeSource[*pchain.Block]

// NewPChainSource returns a source. A nil log discards messages.
func NewPChainSource(n PChainNode, log *slog.Logger) *PChainSource {
	read := func(height uint64, b []byte) (Block[*pchain.Block], error) {
		content, err := pchain.ParseBlock(b)
		if err != nil {
			return Block[*pchain.Block]{}, unreadable(height, err)
		}
		return Block[*pchain.Block]{Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: parsedSize * len(b), Content: content}, nil
	}
	return newNodeSource(chainAPI[*pchain.Block]{
		name: PChain,
		tip:  n.Height,
		one:  readOne(n.BlockByHeight, read),
		some: n.BlockRange,
		read: readBytes(read),

		whole: true,
	}, log)
}

// readBytes adapts a decoder of bytes to chainAPI's read.
func readBytes[B any](read func(uint64, []byte) (Block[B], error)) func(uint64, *node.Container) (Block[B], error) {
	return func(height uint64, c *node.Container) (Block[B], error) { return read(height, c.Bytes) }
}

func unreadable(height uint64, err error) error {
	return fmt.Errorf("%w: height %d: %w", ErrUnreadable, height, err)
}

// readOne combines a fetch of bytes and their decoder into chainAPI's one.
func readOne[B any](fetch func(context.Context, uint64) ([]byte, error), read func(uint64, []byte) (Block[B], error)) func(context.Context, uint64) (Block[B], error) {
	return func(ctx context.Context, height uint64) (Block[B], error) {
		b, err := fetch(ctx, height)
		if err != nil {
			return Block[B]{}, err
		}
		block, err := read(height, b)
		block.Container = container.Container{Height: height, Form: container.Bare, Bytes: b}
		return block, err
	}
}
