// Package lookup indexes the position of P-Chain and X-Chain blocks and transactions by ID, so that they can be found
// among the stored containers. It does not interpret their contents.
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

// ErrUnknown means that no block or transaction with the ID is indexed.
var ErrUnknown = errors.New("not recorded")

// name is the name of the tenants.
const name = "lookup"

// Form returns the form of the index.
func Form() index.Form {
	return index.Form{
		// 2: by a prefix of their IDs; 3: pre-Cortina transactions in the order of the vertices
		Name: name, Version: 3, Cursor: index.CursorOf(name),
		Families: []store.Family{store.FamilyTxPlace, store.FamilyBlockPlace},
	}
}

// Tenant indexes one chain. It serves one pipeline.
type Tenant[B any] struct {
	prefix []byte
	// read returns a block's own ID, empty if it has none, its height, and the IDs of its transactions.
	read func(block B) (id ids.ID, height uint64, txs []ids.ID)
}

// PChain returns the tenant of a network's P-Chain. The proposal of a block follows its other transactions.
func PChain(networkID uint32) *Tenant[*pchain.Block] {
	return &Tenant[*pchain.Block]{prefix: prefix(networkID, index.PChain), read: func(b *pchain.Block) (ids.ID, uint64, []ids.ID) {
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

// XChain returns the tenant of a network's X-Chain.
func XChain(networkID uint32) *Tenant[*xchain.Block] {
	return &Tenant[*xchain.Block]{prefix: prefix(networkID, index.XChain), read: func(b *xchain.Block) (ids.ID, uint64, []ids.ID) {
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

// Name implements index.Tenant.
func (*Tenant[B]) Name() string { return name }

// Apply implements index.Tenant.
func (t *Tenant[B]) Apply(_ context.Context, _ store.Reader, block B, batch *store.Batch) error {
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

// Check calls wrong for each ID of a committed block that the index does not find at the block's position.
func (t *Tenant[B]) Check(ctx context.Context, r store.Reader, block B, wrong func(what string)) error {
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
		// A rejected proposal may be issued again.
		if err != nil || at.Height < height || at.Height == height && at.Index != i {
			wrong(fmt.Sprintf("transaction %s of block %d is not found", txID, height))
		}
	}
	return nil
}

func prefix(networkID uint32, chain string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, networkID), chain...)
}

// key returns the key of a row. It has no prefix in common with other rows.
func key(prefix []byte, id ids.ID) store.PK {
	return store.PK{P: row.ShortID(slices.Clip(prefix), id)}
}

// Place is the position of a transaction.
type Place struct {
	// Height is the height of the container. On the X-Chain it counts from the transactions that precede the blocks;
	// see container.Container.
	Height uint64
	// Index is the transaction's index in its block.
	Index int
}

// Chain reads the index of one chain. It is safe for concurrent use. Its methods return ErrUnknown or errors of the
// store.
type Chain struct {
	reader store.Reader
	prefix []byte
}

// New returns a reader of a network's chain, which is index.PChain or index.XChain.
func New(r store.Reader, networkID uint32, chain string) *Chain {
	return &Chain{reader: r, prefix: prefix(networkID, chain)}
}

// Tx returns the position of the transaction with an ID. Keys hold only a prefix of an ID: the caller must compare the
// ID of the transaction at that position. A proposal is found whether it was accepted or not.
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
	return Place{}, fmt.Errorf("%w: place of transaction %s", store.ErrCorrupt, id)
}

// Block returns the height of the container of the block with an ID. The caller must compare the ID of that block.
func (c *Chain) Block(ctx context.Context, id ids.ID) (height uint64, err error) {
	v, err := c.get(ctx, store.FamilyBlockPlace, id)
	if err != nil {
		return 0, err
	}
	height, n := binary.Uvarint(v)
	if n != len(v) {
		return 0, fmt.Errorf("%w: place of block %s", store.ErrCorrupt, id)
	}
	return height, nil
}

func (c *Chain) get(ctx context.Context, family store.Family, id ids.ID) ([]byte, error) {
	values, err := c.reader.Get(ctx, family, []store.PK{key(c.prefix, id)})
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", id, err)
	}
	if values[0] == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return values[0], nil
}
