package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	avmtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	platformtxs "github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/lookup"
	"quorate/internal/store"
)

// Tx is a transaction with what its bytes tell. See pchain.Read for what the chain's state adds.
type Tx struct {
	*ledger.Tx
	// Block has the transaction. It is nil if no block has it: in the genesis, and on the X-Chain before it had blocks.
	Block *Block
	// Time is that of the block or of the genesis; zero for a transaction that the X-Chain accepted before it had blocks.
	Time time.Time
	// Genesis reports that the transaction is part of the genesis.
	Genesis bool
	// Platform is the transaction of the P-Chain, nil on the X-Chain.
	Platform platformtxs.UnsignedTx
}

// Tx returns a transaction, or ErrUnknown. Tip is the number of the last block. A proposal is unknown until a block decides
// it.
func (c *Chain) Tx(ctx context.Context, id ids.ID, tip uint64) (*Tx, error) {
	if bytes, ok := c.Genesis[id]; ok {
		return c.genesisTx(bytes)
	}
	r, err := c.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	place, err := lookup.New(r.view, c.NetworkID, c.Name).Tx(ctx, id)
	switch {
	case errors.Is(err, lookup.ErrUnknown):
		return nil, fmt.Errorf("%w: transaction %s", ErrUnknown, id)
	case err != nil:
		return nil, err
	case place.Height < r.before:
		return r.early(ctx, id, place.Height)
	}
	b, err := r.timed(ctx, place.Height-r.before)
	if err != nil {
		return nil, err
	}
	if place.Index >= len(b.TxIDs) || b.TxIDs[place.Index] != id || b.Number > tip || b.proposal() == place.Index && b.Number == tip {
		return nil, fmt.Errorf("%w: transaction %s", ErrUnknown, id)
	}
	return c.tx(b, place.Index)
}

// proposal returns the index of the block's proposal, -1 if it has none.
func (b *Block) proposal() int {
	if b.kind != pchain.Proposal {
		return -1
	}
	return len(b.platform) - 1
}

// tx returns a transaction of a block.
func (c *Chain) tx(b *Block, number int) (*Tx, error) {
	tx := &Tx{Block: b, Time: b.Time}
	var err error
	if c.assets != nil {
		tx.Tx, err = xchain.Read(b.assets[number], c.ID, c.assets.GenesisCodec())
	} else {
		tx.Platform = b.platform[number].Unsigned
		tx.Tx, err = pchain.Read(b.platform[number], b.Time)
	}
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", b.Number, err)
	}
	return tx, nil
}

func (c *Chain) genesisTx(bytes []byte) (*Tx, error) {
	tx := &Tx{Genesis: true, Time: c.Begun}
	if c.assets != nil {
		parsed, err := c.assets.ParseGenesisTx(bytes)
		if err == nil {
			tx.Tx, err = xchain.Read(parsed, c.ID, c.assets.GenesisCodec())
		}
		return tx, err
	}
	parsed, err := platformtxs.Parse(platformtxs.GenesisCodec, bytes)
	if err == nil {
		tx.Platform = parsed.Unsigned
		tx.Tx, err = pchain.Read(parsed, c.Begun)
	}
	return tx, err
}

// early returns a transaction that the X-Chain accepted before it had blocks.
func (r *reader) early(ctx context.Context, id ids.ID, place uint64) (*Tx, error) {
	kept, err := r.containers.Get(ctx, r.view, place)
	if errors.Is(err, container.ErrMissing) {
		return nil, fmt.Errorf("%w: transaction %s", ErrNotStored, id)
	}
	if err != nil {
		return nil, err
	}
	var parsed *avmtxs.Tx
	if parsed, err = r.assets.ParseTx(kept.Bytes); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	if parsed.ID() != id {
		return nil, fmt.Errorf("%w: transaction %s", ErrUnknown, id)
	}
	read, err := xchain.Read(parsed, r.ID, r.assets.GenesisCodec())
	return &Tx{Tx: read}, err
}

// TxPosition is the position of a transaction: the number of its block and its index there.
type TxPosition struct {
	Block uint64
	Index int
}

// TxQuery selects transactions of blocks.
type TxQuery struct {
	// Tip is the number of the last block.
	Tip uint64
	// Ascending returns the oldest first.
	Ascending bool
	// After and Before select the blocks with a later and an earlier time; zero selects all.
	After, Before time.Time
	// Kinds selects transactions by kind; empty selects all.
	Kinds []ledger.Kind
	// Asset selects the transactions of the X-Chain that consume, create or found an asset; the empty ID selects all.
	Asset ids.ID
	// Limit is the page size, at least 1.
	Limit int
	// From is TxPage.Next of the previous page, nil for the first.
	From *TxPosition
}

// TxPage is a page of transactions.
type TxPage struct {
	Txs []*Tx
	// Next is the position of the last transaction that this page considered, nil at the end of the list.
	Next *TxPosition
}

// maxBlocks limits the blocks that are read for a page. A page may have fewer transactions than its size because of it.
// blocksAhead is the number of blocks that are read together.
const (
	maxBlocks   = 1024
	blocksAhead = 64
)

// Txs returns a page of the transactions in blocks. If few transactions are of the Kinds, a page may have fewer than Limit
// although others follow. With an asset the error may be lookup.ErrNoLists. It is index.ErrViewBehind if the view lacks
// the block of From.
func (c *Chain) Txs(ctx context.Context, q TxQuery) (*TxPage, error) {
	r, err := c.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	blocks := Query{Tip: q.Tip, After: q.After, Before: q.Before}
	first, end, err := r.span(ctx, &blocks)
	if err != nil {
		return nil, err
	}
	q.Tip = blocks.Tip // a proposal in the view's last block has no decision in the view
	if q.From != nil {
		if err := index.CheckPin(q.Tip, q.From.Block); err != nil {
			return nil, err
		}
	}
	if q.Asset != ids.Empty && q.Asset != c.AVAXAssetID {
		return r.ofAsset(ctx, &q, first, end)
	}
	return r.walk(ctx, &q, first, end)
}

// walk returns a page of the transactions in the blocks [first, end). It reads all of these blocks.
func (r *reader) walk(ctx context.Context, q *TxQuery, first, end uint64) (*TxPage, error) {
	page := new(TxPage)
	n, skip := first, -1 // indexes of the first block up to skip are on earlier pages
	if !q.Ascending {
		n = end - 1
	}
	if q.From != nil {
		n, skip = q.From.Block, q.From.Index
	}
	for read := 0; n >= first && n < end; read++ {
		if read == maxBlocks {
			return page, nil
		}
		if read%blocksAhead == 0 {
			from, to := n, min(end, n+blocksAhead)
			if !q.Ascending {
				from, to = max(first, n+1-min(n+1, blocksAhead)), n+1
			}
			if err := r.readAhead(ctx, from, to); err != nil {
				return nil, err
			}
		}
		b, err := r.timed(ctx, n)
		if err != nil {
			return nil, err
		}
		if full, err := r.take(b, skip, q, page); err != nil || full {
			return page, err
		}
		page.Next, skip = &TxPosition{n, len(b.TxIDs)}, -1
		if q.Ascending {
			n++
		} else {
			page.Next.Index = 0
			n-- // below 0 it exceeds end
		}
	}
	page.Next = nil
	return page, nil
}

// take adds the transactions of a block to a page. It returns true if the page is full and has a next one.
func (r *reader) take(b *Block, skip int, q *TxQuery, page *TxPage) (full bool, err error) {
	order := make([]int, 0, len(b.TxIDs))
	for i := range b.TxIDs {
		undecided := i == b.proposal() && b.Number == q.Tip
		if !undecided {
			order = append(order, i)
		}
	}
	if !q.Ascending {
		slices.Reverse(order)
	}
	for _, i := range order {
		if skip >= 0 && (q.Ascending && i <= skip || !q.Ascending && i >= skip) {
			continue
		}
		tx, err := r.tx(b, i)
		if err != nil {
			return false, err
		}
		if !q.selects(tx) {
			continue
		}
		if len(page.Txs) == q.Limit {
			return true, nil
		}
		page.Txs, page.Next = append(page.Txs, tx), &TxPosition{b.Number, i}
	}
	return false, nil
}

func (q *TxQuery) selects(tx *Tx) bool {
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, tx.Kind)) && (q.Asset == ids.Empty || tx.moves(q.Asset))
}

// moves reports whether the transaction consumes, creates or founds an asset.
func (tx *Tx) moves(asset ids.ID) bool {
	return tx.Asset != nil && tx.Asset.ID == asset ||
		slices.ContainsFunc(tx.Consumed, func(in ledger.Input) bool { return in.AssetID == asset }) ||
		slices.ContainsFunc(tx.Made, func(o ledger.Output) bool { return o.AssetID == asset })
}
