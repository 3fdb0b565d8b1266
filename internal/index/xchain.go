package index

import (
	"context"
	"encoding/binary"
	"log/slog"
	"runtime"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/xchain"
	"quorate/internal/index/container"
	"quorate/internal/node"
)

// XChain is the name of the X-Chain in cursors, errors and logs.
const XChain = "X"

// XChainNode lists the methods that XChainSource calls on an upstream node. *node.Client implements it.
type XChainNode interface {
	XChainHeight(ctx context.Context) (uint64, error)
	XChainBlock(ctx context.Context, height uint64) ([]byte, error)
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}

// PreCortinaTx is a transaction that the X-Chain accepted in a vertex.
type PreCortinaTx struct {
	ID    ids.ID
	Bytes []byte
}

// PreCortinaTxs are the transactions that the X-Chain accepted in vertices. Each occurs once. Their order depends only on
// the vertices; see package vertices.
type PreCortinaTxs interface {
	// TxCount returns their number, or ErrVerticesMissing until the vertices are complete.
	TxCount(ctx context.Context) (uint64, error)
	// Txs returns between one and n transactions from a place on, which must be below TxCount.
	Txs(ctx context.Context, start uint64, n int) ([]PreCortinaTx, error)
}

// XChainSource fetches everything that the X-Chain accepted, in order. If the chain always had blocks, these are its
// blocks. If it was linearised later (Cortina), they are the genesis, the pre-Cortina transactions, and then the blocks
// from height 0 on. A Block's Height is the place in this order (xchain.Block.Place).
type XChainSource struct {
	origin  *XChainOrigin
	txs     PreCortinaTxs
	blocks  *NodeSource[*xchain.Block]
	decoder *xchain.Decoder
}

// NewXChainSource returns a source. A nil log discards messages.
func NewXChainSource(n XChainNode, decoder *xchain.Decoder, origin *XChainOrigin, txs PreCortinaTxs, log *slog.Logger) *XChainSource {
	read := func(height uint64, b []byte) (Block[*xchain.Block], error) {
		content, err := decoder.ParseBlock(b)
		if err != nil {
			return Block[*xchain.Block]{}, unreadable(height, err)
		}
		return Block[*xchain.Block]{Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: parsedSize * len(b), Content: content}, nil
	}
	return &XChainSource{origin: origin, txs: txs, decoder: decoder, blocks: newNodeSource(chainAPI[*xchain.Block]{
		name: XChain,
		tip:  n.XChainHeight,
		one:  readOne(n.XChainBlock, read),
		some: containersOf(n, node.XChainBlocks),
		read: readBytes(read),

		whole: true,
	}, log)}
}

// preCortina describes what precedes the block at height 0.
type preCortina struct {
	xchain.PreCortina
	stopVertexID ids.ID
	// before is the number of places before the block at height 0.
	before uint64
}

func (s *XChainSource) preCortina(ctx context.Context) (*preCortina, error) {
	begin, err := s.origin.Begin(ctx)
	if err != nil || begin.Linear {
		return &preCortina{}, err
	}
	n, err := s.txs.TxCount(ctx)
	if err != nil {
		return nil, err
	}
	return &preCortina{
		PreCortina:   xchain.PreCortina{Txs: n, First: begin.BlockID, Time: begin.Time},
		stopVertexID: begin.StopVertexID, before: n + 1, // and the genesis
	}, nil
}

// Before returns the number of places before the block at height 0; 0 if the chain always had blocks. It returns
// ErrVerticesMissing until the vertices are complete. Other errors come from the node or the store.
func (s *XChainSource) Before(ctx context.Context) (uint64, error) {
	p, err := s.preCortina(ctx)
	if err != nil {
		return 0, err
	}
	return p.before, nil
}

// Tip implements Source. It returns ErrVerticesMissing until the vertices are complete.
func (s *XChainSource) Tip(ctx context.Context) (uint64, error) {
	p, err := s.preCortina(ctx)
	if err != nil {
		return 0, err
	}
	height, err := s.blocks.Tip(ctx)
	return p.before + height, err
}

// Height returns the height of the last accepted block.
func (s *XChainSource) Height(ctx context.Context) (uint64, error) { return s.blocks.Tip(ctx) }

// Fetch implements Source.
func (s *XChainSource) Fetch(ctx context.Context, from uint64, n int) ([]Block[*xchain.Block], error) {
	p, err := s.preCortina(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case from >= p.before:
		blocks, err := s.blocks.Fetch(ctx, from-p.before, n)
		for i := range blocks {
			p.place(&blocks[i])
		}
		return blocks, err
	case from == 0:
		return []Block[*xchain.Block]{p.genesis()}, nil
	}
	found, err := s.txs.Txs(ctx, from-1, int(min(uint64(n), p.before-from)))
	if err != nil {
		return nil, err
	}
	blocks := make([]Block[*xchain.Block], 0, len(found))
	for i := range found {
		runtime.Gosched() // lets requests run, as committer.apply does
		b, err := s.tx(p, container.Container{
			Height: from + uint64(i), Form: container.Accepted, ID: found[i].ID, Digest: found[i].ID, Time: p.Time, Bytes: found[i].Bytes,
		})
		if err != nil {
			return before(blocks, err)
		}
		b.Size += len(found[i].Bytes)
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// tx decodes a pre-Cortina transaction.
func (s *XChainSource) tx(p *preCortina, c container.Container) (Block[*xchain.Block], error) {
	content, err := s.decoder.ParseTx(c.Bytes, c.Height-1, p.PreCortina)
	if err != nil {
		return Block[*xchain.Block]{}, unreadable(c.Height, err)
	}
	return Block[*xchain.Block]{
		Height: c.Height, ID: p.mark(c.Height), ParentID: p.mark(c.Height - 1), Size: parsedSize * len(c.Bytes), Content: content, Container: c,
	}, nil
}

// Again implements ContainerSource. It sends no request.
func (s *XChainSource) Again(ctx context.Context, c container.Container) (Block[*xchain.Block], error) {
	p, err := s.preCortina(ctx)
	if err != nil {
		return Block[*xchain.Block]{}, err
	}
	switch {
	case c.Height >= p.before:
		c.Height -= p.before
		b, err := s.blocks.Again(ctx, c)
		if err == nil {
			p.place(&b)
		}
		return b, err
	case c.Height == 0:
		return p.genesis(), nil
	}
	return s.tx(p, c)
}

// place sets the place of a block.
func (p *preCortina) place(b *Block[*xchain.Block]) {
	if b.Height == 0 && p.before > 0 {
		// Its parent is the stop vertex, which has no place.
		b.ParentID = p.mark(p.before - 1)
	}
	b.Height += p.before
	b.Container.Height = b.Height
	b.Content.Place, b.Content.Before, b.Content.Cortina = b.Height, p.before, p.Time
}

// genesis returns the block that stands for the genesis. Nodes return no bytes of it.
func (p *preCortina) genesis() Block[*xchain.Block] {
	return Block[*xchain.Block]{ID: p.mark(0), Content: p.Genesis(), Container: container.Container{Form: container.Bare}}
}

// mark returns an ID for a place before the first block. Transactions do not name their predecessor, so their own IDs form
// no chain.
func (p *preCortina) mark(place uint64) ids.ID {
	if place == 0 {
		return p.First
	}
	return hashing.ComputeHash256Array(binary.BigEndian.AppendUint64(p.stopVertexID[:], place))
}

// containersOf fetches ranges of one index.
func containersOf(n interface {
	Containers(ctx context.Context, index node.Index, start uint64, n int) ([]node.Container, error)
}, index node.Index) func(context.Context, uint64, int) ([]node.Container, error) {
	return func(ctx context.Context, start uint64, size int) ([]node.Container, error) {
		return n.Containers(ctx, index, start, size)
	}
}
