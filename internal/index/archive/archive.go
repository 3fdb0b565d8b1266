// Package archive reads blocks and transactions of the P-Chain and the X-Chain from the containers that the index
// stores. It needs no rows of its own: package container has the blocks by height, package lookup their heights by ID,
// by proposer and by asset.
package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/avm/block"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/lookup"
	"quorate/internal/store"
)

var (
	// ErrUnknown means that no indexed block or transaction has an ID.
	ErrUnknown = errors.New("not indexed")
	// ErrNotStored means that the index has a block, and the store does not have its bytes.
	ErrNotStored = errors.New("the bytes of the block are not stored")
	// ErrBegin means that it is not known yet where the blocks of the X-Chain begin.
	ErrBegin = errors.New("the beginning of the blocks is not known")
)

// Options configures a Chain. All fields but Before are required; AVAXAssetID for the X-Chain only.
type Options struct {
	Viewer    store.Viewer
	NetworkID uint32
	// Name is index.PChain or index.XChain, ID the blockchain's ID.
	Name string
	ID   ids.ID
	// AVAXAssetID is the asset of which package lookup lists no transactions.
	AVAXAssetID ids.ID
	// Genesis holds the transactions of the genesis by ID. No block contains them.
	Genesis map[ids.ID][]byte
	// Begun is the time of the genesis.
	Begun time.Time
	// Before returns the number of containers before the block at height 0. Nil means that there are none.
	Before func(context.Context) (uint64, error)
}

// Chain reads the blocks of one chain. It is safe for concurrent use. Accepted blocks do not change, so answers of
// several calls fit together. Errors are those of this package and of the store.
type Chain struct {
	Options
	containers container.Chain
	assets     block.Parser // nil for the P-Chain
}

// New returns a Chain. It reads nothing.
func New(o Options) (*Chain, error) {
	c := &Chain{Options: o, containers: container.Chain{NetworkID: o.NetworkID, Name: o.Name}}
	if o.Name != index.XChain {
		return c, nil
	}
	if o.AVAXAssetID == ids.Empty {
		return nil, errors.New("the archive of the X-Chain needs the asset ID of AVAX")
	}
	var err error
	c.assets, err = xchain.NewParser()
	return c, err
}

// Block is an accepted block.
type Block struct {
	Number uint64
	// ID and ParentID identify the chain's own blocks, not proposer envelopes. The parent of block 0 may be the genesis
	// or the X-Chain's stop vertex.
	ID, ParentID ids.ID
	// Time is the chain's time from this block on, with a resolution of one second.
	Time time.Time
	// Type is the block's type in avalanchego, for example BanffStandardBlock.
	Type string
	// TxIDs are the transactions in their order; a proposal is the last.
	TxIDs []ids.ID
	// Size is the number of bytes without the envelope.
	Size int
	// Envelope is nil if the block came without one: blocks before the proposer VM have none, and nodes without an
	// index remove it. It has no block.
	Envelope *envelope.Envelope

	content
}

// Block returns the block with a number, or ErrUnknown if it is not indexed yet.
func (c *Chain) Block(ctx context.Context, number uint64) (*Block, error) {
	r, err := c.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b, err := r.timed(ctx, number)
	if !errors.Is(err, ErrNotStored) {
		return b, err
	}
	switch last, failed := r.last(ctx, number); {
	case failed != nil:
		return nil, failed
	case last < number:
		return nil, fmt.Errorf("%w: block %d", ErrUnknown, number)
	}
	return nil, err
}

// BlockByID returns the block with an ID, or ErrUnknown.
func (c *Chain) BlockByID(ctx context.Context, id ids.ID) (*Block, error) {
	r, err := c.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	place, err := lookup.New(r.view, c.NetworkID, c.Name).Block(ctx, id)
	switch {
	case errors.Is(err, lookup.ErrUnknown):
		return nil, fmt.Errorf("%w: block %s", ErrUnknown, id)
	case err != nil:
		return nil, err
	case place < r.before:
		return nil, fmt.Errorf("%w: position of block %s", store.ErrCorrupt, id)
	}
	b, err := r.timed(ctx, place-r.before)
	if err == nil && b.ID != id {
		return nil, fmt.Errorf("%w: block %s", ErrUnknown, id) // an ID with the same prefix
	}
	return b, err
}

// Query selects blocks, the newest first.
type Query struct {
	// Tip is the number of the last block.
	Tip uint64
	// After and Before select the blocks with a later and an earlier time; zero selects all.
	After, Before time.Time
	// Limit is the page size, at least 1.
	Limit int
	// Below selects the blocks with a smaller number; nil selects all.
	Below *uint64
	// Proposer selects the blocks whose envelope the node signed; the empty ID selects all.
	Proposer ids.NodeID
}

// Blocks returns a page of blocks. more reports that there are further ones below the last. With a proposer the error may
// be lookup.ErrNoLists. It is index.ErrViewBehind if the view lacks block Below.
func (c *Chain) Blocks(ctx context.Context, q Query) (page []*Block, more bool, err error) {
	r, err := c.reader(ctx)
	if err != nil {
		return nil, false, err
	}
	defer r.close()
	first, end, err := r.span(ctx, &q)
	if err != nil {
		return nil, false, err
	}
	if q.Proposer != ids.EmptyNodeID {
		return r.proposed(ctx, &q, first, end)
	}
	if err := r.readAhead(ctx, max(first, end-min(end, uint64(q.Limit))), end); err != nil {
		return nil, false, err
	}
	for n := end; n > first; n-- {
		if len(page) == q.Limit {
			return page, true, nil
		}
		b, err := r.timed(ctx, n-1)
		if err != nil {
			return nil, false, err
		}
		page = append(page, b)
	}
	return page, false, nil
}

// proposed returns a page of the blocks [first, end) that a node proposed.
func (r *reader) proposed(ctx context.Context, q *Query, first, end uint64) (page []*Block, more bool, err error) {
	numbers, err := lookup.New(r.view, r.NetworkID, r.Name).Proposed(ctx, q.Proposer, r.before+first, r.before+end, q.Limit+1)
	if err != nil {
		return nil, false, err
	}
	if more = len(numbers) > q.Limit; more {
		numbers = numbers[:q.Limit]
	}
	for i := range numbers {
		numbers[i] -= r.before
	}
	if err := r.readThese(ctx, numbers); err != nil {
		return nil, false, err
	}
	for _, n := range numbers {
		b, err := r.timed(ctx, n)
		if err != nil {
			return nil, false, err
		}
		if b.Envelope == nil || b.Envelope.Proposer != q.Proposer {
			return nil, false, fmt.Errorf("%w: block %d is in the list of %s, which did not propose it", store.ErrCorrupt, n, q.Proposer)
		}
		page = append(page, b)
	}
	return page, more, nil
}

// span returns the numbers [first, end) of the selected blocks, and lowers q.Tip to the last block of the view. Times
// never decrease.
func (r *reader) span(ctx context.Context, q *Query) (first, end uint64, err error) {
	if q.Tip, err = r.last(ctx, q.Tip); err != nil {
		return 0, 0, err
	}
	end = q.Tip + 1
	if q.Below != nil {
		if err := index.CheckPin(q.Tip, *q.Below); err != nil {
			return 0, 0, err
		}
		end = min(end, *q.Below)
	}
	if !q.Before.IsZero() {
		if end, err = r.search(ctx, 0, end, func(t time.Time) bool { return !t.Before(q.Before) }); err != nil {
			return 0, 0, err
		}
	}
	if !q.After.IsZero() {
		first, err = r.search(ctx, 0, end, func(t time.Time) bool { return t.After(q.After) })
	}
	return first, end, err
}

// search returns the first number in [from, to) whose block's time fits, or to.
func (r *reader) search(ctx context.Context, from, to uint64, fits func(time.Time) bool) (uint64, error) {
	for from < to {
		middle := from + (to-from)/2
		b, err := r.timed(ctx, middle)
		if err != nil {
			return 0, err
		}
		if fits(b.Time) {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from, nil
}
