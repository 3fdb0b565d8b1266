// Package lookup indexes the positions of blocks and transactions of the P-Chain and the X-Chain, so that the stored
// containers can be found by ID, blocks also by their proposer, and transactions by the assets that they move.
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
		// 2: keys with a prefix of the ID. 3: pre-Cortina transactions in vertex order. 4: lists; see ErrNoLists.
		Name: Name, Version: withLists, Reads: 3, Cursor: index.CursorOf(Name),
		Families: []store.Family{store.FamilyTxPlace, store.FamilyBlockPlace, store.FamilyProposed, store.FamilyAssetTx},
	}
}

// entries are what the index has of a block.
type entries struct {
	// id is the block's own ID, empty if it has none.
	id     ids.ID
	height uint64
	txs    []ids.ID
	// proposer signed the block's envelope. It is empty if no node did.
	proposer ids.NodeID
	// assets are the assets that each transaction moves. It is nil if they are not listed.
	assets [][]ids.ID
}

// Projection indexes one chain. It serves one pipeline.
type Projection[B any] struct {
	prefix []byte
	read   func(block B) (entries, error)
}

// PChain returns the projection of a network's P-Chain. A block's proposal follows its other transactions.
func PChain(networkID uint32) *Projection[*pchain.Block] {
	return &Projection[*pchain.Block]{prefix: prefix(networkID, index.PChain), read: func(b *pchain.Block) (entries, error) {
		e := entries{id: b.ID, height: b.Height, txs: make([]ids.ID, 0, len(b.Txs)+1)}
		for _, tx := range b.Txs {
			e.txs = append(e.txs, tx.ID())
		}
		if b.Proposal != nil {
			e.txs = append(e.txs, b.Proposal.ID())
		}
		if b.Envelope != nil {
			e.proposer = b.Envelope.Proposer
		}
		return e, nil
	}}
}

// XChain returns the projection of a network's X-Chain. It lists no transactions of the asset avax: nearly all
// transactions move it, because it pays fees.
func XChain(networkID uint32, avax ids.ID) *Projection[*xchain.Block] {
	return &Projection[*xchain.Block]{prefix: prefix(networkID, index.XChain), read: func(b *xchain.Block) (entries, error) {
		e := entries{height: b.Place, txs: make([]ids.ID, len(b.Txs)), proposer: b.Proposer}
		for i, tx := range b.Txs {
			e.txs[i] = tx.ID()
		}
		if b.Early {
			return e, nil
		}
		e.id, e.assets = b.ID, make([][]ids.ID, len(b.Txs))
		for i, tx := range b.Txs {
			moved, err := xchain.Assets(tx)
			if err != nil {
				return entries{}, fmt.Errorf("transaction %s: %w", e.txs[i], err)
			}
			e.assets[i] = slices.DeleteFunc(moved, func(id ids.ID) bool { return id == avax })
		}
		return e, nil
	}}
}

// Name implements index.Projection.
func (*Projection[B]) Name() string { return Name }

// Apply implements index.Projection.
func (t *Projection[B]) Apply(_ context.Context, _ store.Reader, block B, batch *store.Batch) error {
	e, err := t.read(block)
	if err != nil {
		return err
	}
	if e.id != ids.Empty {
		batch.Add(store.FamilyBlockPlace, key(t.prefix, e.id), binary.AppendUvarint(nil, e.height))
	}
	for i, txID := range e.txs {
		v := binary.AppendUvarint(make([]byte, 0, 6), e.height)
		batch.Add(store.FamilyTxPlace, key(t.prefix, txID), binary.AppendUvarint(v, uint64(i)))
	}
	for _, row := range t.lists(&e) {
		batch.Add(row.family, row.PK, nil)
	}
	return nil
}

// Check calls wrong for each ID of a committed block that the index does not lead to.
func (t *Projection[B]) Check(ctx context.Context, r store.Reader, block B, wrong func(what string)) error {
	c := &Chain{reader: r, prefix: t.prefix}
	e, err := t.read(block)
	if err != nil {
		return err
	}
	height := e.height
	if e.id != ids.Empty {
		at, err := c.Block(ctx, e.id)
		if err != nil && !errors.Is(err, ErrUnknown) {
			return err
		}
		if err != nil || at != height {
			wrong(fmt.Sprintf("block %d is not found by its ID %s", height, e.id))
		}
	}
	for i, txID := range e.txs {
		at, err := c.Tx(ctx, txID)
		if err != nil && !errors.Is(err, ErrUnknown) {
			return err
		}
		// A rejected proposal may be proposed again in a later block.
		if err != nil || at.Height < height || at.Height == height && at.Index != i {
			wrong(fmt.Sprintf("transaction %s of block %d is not found by its ID", txID, height))
		}
	}
	return t.checkLists(ctx, c, &e, wrong)
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
