package archive

import (
	"context"
	"fmt"

	"quorate/internal/index/lookup"
	"quorate/internal/store"
)

// ofAsset returns a page of the listed transactions of an asset in the blocks [first, end).
func (r *reader) ofAsset(ctx context.Context, q *TxQuery, first, end uint64) (*TxPage, error) {
	from, to, dir := lookup.Place{Height: r.before + first}, lookup.Place{Height: r.before + max(first, end)}, store.Descending
	if q.Ascending {
		dir = store.Ascending
	}
	list := lookup.New(r.view, r.NetworkID, r.Name)
	page := &TxPage{Next: q.From}
	for read := 0; read < maxBlocks; read += blocksAhead {
		if page.Next != nil {
			at := lookup.Place{Height: r.before + page.Next.Block, Index: page.Next.Index}
			if q.Ascending {
				at.Index++
				from = at
			} else {
				to = at
			}
		}
		places, err := list.OfAsset(ctx, q.Asset, from, to, dir, blocksAhead)
		if err != nil {
			return nil, err
		}
		full, err := r.takeListed(ctx, places, q, page)
		if err != nil || full {
			return page, err
		}
		if len(places) < blocksAhead {
			page.Next = nil
			return page, nil
		}
	}
	return page, nil
}

// takeListed adds listed transactions to a page. It returns true if the page is full and has a next one.
func (r *reader) takeListed(ctx context.Context, places []lookup.Place, q *TxQuery, page *TxPage) (full bool, err error) {
	var numbers []uint64
	for _, at := range places {
		if n := at.Height - r.before; len(numbers) == 0 || numbers[len(numbers)-1] != n {
			numbers = append(numbers, n)
		}
	}
	if err := r.readThese(ctx, numbers); err != nil {
		return false, err
	}
	var b *Block
	for _, at := range places {
		n := at.Height - r.before
		if b == nil || b.Number != n {
			if b, err = r.timed(ctx, n); err != nil {
				return false, err
			}
		}
		if at.Index >= len(b.TxIDs) {
			return false, fmt.Errorf("%w: transactions of asset %s", store.ErrCorrupt, q.Asset)
		}
		tx, err := r.tx(b, at.Index)
		if err != nil {
			return false, err
		}
		if !tx.moves(q.Asset) {
			return false, fmt.Errorf("%w: transaction %s is in the list of asset %s, which it does not move", store.ErrCorrupt, tx.ID, q.Asset)
		}
		if !q.selects(tx) {
			page.Next = &TxPosition{n, at.Index}
			continue
		}
		if len(page.Txs) == q.Limit {
			return true, nil
		}
		page.Txs, page.Next = append(page.Txs, tx), &TxPosition{n, at.Index}
	}
	return false, nil
}
