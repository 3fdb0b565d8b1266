// Package lookup indexes the positions of blocks and transactions of the P-Chain and the X-Chain, so that the stored
// containers can be found by ID. It does not interpret their contents.
package lookup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// ErrUnknown means that no block or transaction with an ID is indexed.
var ErrUnknown = errors.New("not indexed")

// Name is the name of the projections in cursors.
const Name = "lookup"

// Form returns the format of the rows.
func Form() index.Form {
	return index.Form{
		// 2: keys with a prefix of the ID. 3: pre-Cortina transactions in vertex order.
		Name: Name, Version: 3, Cursor: index.CursorOf(Name),
		Families: []store.Family{store.FamilyTxPlace, store.FamilyBlockPlace},
	}
}

// Projection indexes one chain. It serves one pipeline.
type Projection[B any] struct {
	prefix []byte
	// read returns a block's own ID, empty if it has none, its height, and the IDs of its transactions.
	read func(block B) (id ids.ID, height uint64, txs []ids.ID)
}

// PChain returns the projection of a network's P-Chain. A block's proposal follows its other transactions.
func PChain(networkID uint32) *Projection[*pchain.Block] {
	return &Projection[*pchain.Block]{prefix: prefix(networkID, index.PChain), read: func(b *pchain.Block) (ids.ID, uint64, []ids.ID) {
		all := make([]ids.ID, 0, len(b.Txs)+1)
		for _, tx := range b.Txs {
			all = append(all, tx.ID())
		}
		if b.Proposal != nil {
			all = append(all, b.Proposal.ID())
		}
		return b.ID, b.Height, all
	}}
}

// XChain returns the projection of a network's X-Chain.
func XChain(networkID uint32) *Projection[*xchain.Block] {
	return &Projection[*xchain.Block]{prefix: prefix(networkID, index.XChain), read: func(b *xchain.Block) (ids.ID, uint64, []ids.ID) {
		all := make([]ids.ID, len(b.Txs))
		for i, tx := range b.Txs {
			all[i] = tx.ID()
		}
		if b.Early {
			return ids.Empty, b.Place, all
		}
		return b.ID, b.Place, all
	}}
}

// Name implements index.Projection.
func (*Projection[B]) Name() string { return Name }

// Apply implements index.Projection.
func (t *Projection[B]) Apply(_ context.Context, _ store.Reader, block B, batch *store.Batch) error {
	id, height, txs := t.read(block)
	if id != ids.Empty {
		batch.Add(store.FamilyBlockPlace, key(t.prefix, id), binary.AppendUvarint(nil, height))
	}
	for i, txID := range txs {
		v := binary.AppendUvarint(make([]byte, 0, 6), height)
		batch.Add(store.FamilyTxPlace, key(t.prefix, txID), binary.AppendUvarint(v, uint64(i)))
	}
	return nil
}

// Check calls wrong for each ID of a committed block that the index does not lead to.
func (t *Projection[B]) Check(ctx context.Context, r store.Reader, block B, wrong func(what string)) error {
	c := &Chain{reader: r, prefix: t.prefix}
	id, height, txs := t.read(block)
	if id != ids.Empty {
		at, err := c.Block(ctx, id)
		if err != nil && !errors.Is(err, ErrUnknown) {
			return err
		}
		if err != nil || at != height {
			wrong(fmt.Sprintf("block %d is not found by its ID %s", height, id))
		}
	}
	for i, txID := range txs {
		at, err := c.Tx(ctx, txID)
		if err != nil && !errors.Is(err, ErrUnknown) {
			return err
		}
		// A rejected proposal may be proposed again in a later block.
		if err != nil || at.Height < height || at.Height == height && at.Index != i {
			wrong(fmt.Sprintf("transaction %s of block %d is not found by its ID", txID, height))
		}
	}
	return nil
}

func prefix(networkID uint32, chain string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, networkID), chain...)
}

// key clips the shared prefix, so that appending copies it.
func key(prefix []byte, id ids.ID) store.PK {
	return store.PK{P: row.ShortID(slices.Clip(prefix), id)}
}

// Place is the position of a transaction.
type Place struct {
	// Height is the height of the container. On the X-Chain it also counts what precedes the blocks; see
	// container.Container.
	Height uint64
	// Index is the index of the transaction in the block.
	Index int
}

// Chain reads the index of one chain. It is safe for concurrent use. Errors wrap ErrUnknown or come from the store.
type Chain struct {
	reader store.Reader
	prefix []byte
}

// New returns a reader of a network's chain, which is index.PChain or index.XChain.
func New(r store.Reader, networkID uint32, chain string) *Chain {
	return &Chain{reader: r, prefix: prefix(networkID, chain)}
}

// Tx returns the position of a transaction. Keys contain only a prefix of the ID, so the caller must compare the ID of
// the transaction at that position. Tx also finds rejected proposals.
func (c *Chain) Tx(ctx context.Context, id ids.ID) (Place, error) {
	v, err := c.get(ctx, store.FamilyTxPlace, id)
	if err != nil {
		return Place{}, err
	}
	height, n := binary.Uvarint(v)
	if n > 0 {
		if i, m := binary.Uvarint(v[n:]); m > 0 && n+m == len(v) && i < 1<<31 {
			return Place{Height: height, Index: int(i)}, nil
		}
	}
	return Place{}, fmt.Errorf("%w: position of transaction %s", store.ErrCorrupt, id)
}

// Block returns the container height of the block with its own ID. The caller must compare the ID of the block at that
// height.
func (c *Chain) Block(ctx context.Context, id ids.ID) (height uint64, err error) {
	v, err := c.get(ctx, store.FamilyBlockPlace, id)
	if err != nil {
		return 0, err
	}
	height, n := binary.Uvarint(v)
	if n != len(v) {
		return 0, fmt.Errorf("%w: position of block %s", store.ErrCorrupt, id)
	}
	return height, nil
}

func (c *Chain) get(ctx context.Context, family store.Family, id ids.ID) ([]byte, error) {
	values, err := c.reader.Get(ctx, family, []store.PK{key(c.prefix, id)})
	if err != nil {
		return nil, fmt.Errorf("reading the position of %s: %w", id, err)
	}
	if values[0] == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return values[0], nil
}
