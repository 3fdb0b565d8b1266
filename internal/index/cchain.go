package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"quorate/internal/chain/cchain"
	"quorate/internal/index/container"
	"quorate/internal/node"
)

// CChain is the name of the C-Chain in cursors, errors and logs.
const CChain = "C"

// CChainNode lists the methods that CChainSource calls on an upstream node. *node.Client implements it.
type CChainNode interface {
	EVMHeight(ctx context.Context, path string) (uint64, error)
	CChainBlock(ctx context.Context, height uint64) (node.CChainBlock, error)
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}

// leastSize is the memory, in bytes, that a C-Chain block counts for when only its atomic transactions are stored.
const leastSize = 256

// NewCChainSource returns a source of the C-Chain's atomic transactions. If whole is true, its containers hold complete
// blocks; otherwise they hold only the atomic part. A nil log discards messages.
func NewCChainSource(n CChainNode, whole bool, log *slog.Logger) *NodeSource[*cchain.Block] {
	pack := func(content *cchain.Block) Block[*cchain.Block] {
		return Block[*cchain.Block]{
			Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: leastSize + 2*len(content.ExtraData), Content: content,
			Container: container.Container{Height: content.Height, Form: container.Part, Bytes: content.Part()},
		}
	}
	return newNodeSource(chainAPI[*cchain.Block]{
		name: CChain,
		tip:  func(ctx context.Context) (uint64, error) { return n.EVMHeight(ctx, node.CChainRPC) },
		one: func(ctx context.Context, height uint64) (Block[*cchain.Block], error) {
			b, err := n.CChainBlock(ctx, height)
			if errors.Is(err, node.ErrPruned) {
				err = noBlock(ctx, n, height, err)
			}
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
			// Copy the small part so that the large block can be freed.
			kept := *content
			kept.ExtraData = append([]byte(nil), content.ExtraData...)
			return pack(&kept), nil
		},
		part: func(height uint64, b []byte) (Block[*cchain.Block], error) {
			content, err := cchain.ParsePart(height, b)
			if err != nil {
				return Block[*cchain.Block]{}, unreadable(height, err)
			}
			return pack(content), nil
		},
		whole: whole,
	}, log)
}

// noBlock returns the reason why n lacks the block at height. A node that state-synced also lacks block 1. err is the
// node's reply.
func noBlock(ctx context.Context, n CChainNode, height uint64, err error) error {
	if height > 1 {
		if _, first := n.CChainBlock(ctx, 1); !errors.Is(first, node.ErrPruned) {
			return &MissingError{
				Lacks: fmt.Sprintf("block %d is not available from the node, although block 1 is", height),
				Do:    "resync the node's C-Chain, or use another node",
				Err:   err,
			}
		}
	}
	return &MissingError{
		Lacks: "block 1 is not available from the node: it was state-synced",
		Do:    "set state-sync-enabled to false in its C-Chain config and resync, or use another node",
		Err:   err,
	}
}
