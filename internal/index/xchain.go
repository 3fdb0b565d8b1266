package index

import (
	"context"
	"encoding/binary"
	"log/slog"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/xchain"
	"quorate/internal/index/container"
	"quorate/internal/node"
)

// XChain is the name of the X-Chain in cursors, errors and logs.
const XChain = "X"

// XChainNode is what is asked of an upstream node; *node.Client has it.
type XChainNode interface {
	XChainHeight(ctx context.Context) (uint64, error)
	XChainBlock(ctx context.Context, height uint64) ([]byte, error)
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
	XChainPastNode
}

// XChainSource fetches all that the X-Chain accepted, in its order: where the chain
// always had blocks, these; where it was linearised later (Cortina), the genesis, the
// transactions from before there were blocks, and then the blocks from the one at
// height 0 on. A Block's Height is the place in this order (xchain.Block.Place).
type XChainSource struct {
	past   *XChainPast
	blocks *NodeSource[*xchain.Block]
	txs    *NodeSource[*xchain.Block]
}

// NewXChainSource makes a source; a nil log drops what it has to say.
func NewXChainSource(n XChainNode, decoder *xchain.Decoder, past *XChainPast, log *slog.Logger) *XChainSource {
	s := &XChainSource{past: past}
	read := func(height uint64, b []byte) (Block[*xchain.Block], error) {
		content, err := decoder.ParseBlock(b)
		if err != nil {
			return Block[*xchain.Block]{}, unreadable(height, err)
		}
		return Block[*xchain.Block]{Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: parsedSize * len(b), Content: content}, nil
	}
	s.blocks = newNodeSource(chainAPI[*xchain.Block]{
		name: XChain,
		tip:  n.XChainHeight,
		one:  readOne(n.XChainBlock, read),
		some: containersOf(n, node.XChainBlocks),
		read: readBytes(read),

		whole: true,
	}, log)
	// A transaction at index i of the node's is at place i+1.
	readTx := func(place uint64, c *node.Container) (Block[*xchain.Block], error) {
		p := s.past.current()
		content, err := decoder.ParseTx(c.Bytes, c.Index, c.Accepted, p.Past)
		if err != nil {
			return Block[*xchain.Block]{}, unreadable(place, err)
		}
		return Block[*xchain.Block]{Height: content.Place, ID: p.mark(place), ParentID: p.mark(place - 1), Size: parsedSize * len(c.Bytes), Content: content}, nil
	}
	someTxs := func(ctx context.Context, start uint64, size int) ([]node.Container, error) {
		p := s.past.current()
		found, err := s.past.containers(ctx, node.XChainTxs, p.lastTx, start, size)
		for i := range found {
			found[i].Accepted = p.accepted(start+uint64(i)+1, found[i].Accepted)
		}
		return found, err
	}
	s.txs = newNodeSource(chainAPI[*xchain.Block]{
		name: XChain,
		one: func(ctx context.Context, place uint64) (Block[*xchain.Block], error) {
			c, err := someTxs(ctx, place-1, 1)
			if err != nil {
				return Block[*xchain.Block]{}, err
			}
			b, err := readTx(place, &c[0])
			b.Container = container.Container{Height: place, Form: container.Accepted, ID: c[0].ID, Time: c[0].Accepted, Bytes: c[0].Bytes}
			return b, err
		},
		some: someTxs,
		read: readTx,

		whole: true,
	}, log)
	return s
}

// Tip implements Source. An error is ErrNoPast if what was before there were blocks
// cannot be had.
func (s *XChainSource) Tip(ctx context.Context) (uint64, error) {
	p, err := s.past.find(ctx)
	if err != nil {
		return 0, err
	}
	height, err := s.blocks.Tip(ctx)
	return p.before() + height, err
}

// Height is that of the last accepted block.
func (s *XChainSource) Height(ctx context.Context) (uint64, error) { return s.blocks.Tip(ctx) }

// Fetch implements Source.
func (s *XChainSource) Fetch(ctx context.Context, from uint64, n int) ([]Block[*xchain.Block], error) {
	p, err := s.past.find(ctx)
	if err != nil {
		return nil, err
	}
	before := p.before()
	switch {
	case from >= before:
		blocks, err := s.blocks.Fetch(ctx, from-before, n)
		for i := range blocks {
			p.place(&blocks[i])
		}
		return blocks, err
	case from == 0:
		return []Block[*xchain.Block]{p.genesis()}, nil
	default:
		return s.txs.Fetch(ctx, from, int(min(uint64(n), before-from)))
	}
}

// Again implements Keeper. It needs no node: what was before there were blocks is in the
// store before anything that is kept.
func (s *XChainSource) Again(ctx context.Context, c container.Container) (Block[*xchain.Block], error) {
	p, err := s.past.find(ctx)
	if err != nil {
		return Block[*xchain.Block]{}, err
	}
	before := p.before()
	switch {
	case c.Height >= before:
		c.Height -= before
		b, err := s.blocks.Again(ctx, c)
		if err == nil {
			p.place(&b)
		}
		return b, err
	case c.Height == 0:
		return p.genesis(), nil
	default:
		return s.txs.Again(ctx, c)
	}
}

// place puts a block where it comes in the order of all that was accepted.
func (p *past) place(b *Block[*xchain.Block]) {
	before := p.before()
	if b.Height == 0 && before > 0 {
		// Its parent is the last vertex, which transactions know nothing of.
		b.ParentID = p.mark(before - 1)
	}
	b.Height += before
	b.Container.Height = b.Height
	b.Content.Place, b.Content.Before = b.Height, before
}

// genesis has no bytes of its own among what nodes give.
func (p *past) genesis() Block[*xchain.Block] {
	return Block[*xchain.Block]{ID: p.mark(0), Content: p.Genesis(), Container: container.Container{Form: container.Bare}}
}

// mark stands for the ID of what is at a place before the first block: transactions do
// not name the one before, but each place is one of a certain node's order.
func (p *past) mark(place uint64) ids.ID {
	if place == 0 {
		return p.First
	}
	b := binary.BigEndian.AppendUint64(p.lastTx.ID[:], uint64(p.order().UnixNano()))
	return hashing.ComputeHash256Array(binary.BigEndian.AppendUint64(b, place))
}

// containersOf fetches ranges of one index.
func containersOf(n interface {
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}, index node.Index) func(context.Context, uint64, int) ([]node.Container, error) {
	return func(ctx context.Context, start uint64, size int) ([]node.Container, error) {
		return n.Containers(ctx, index, start, size)
	}
}
