package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	avmtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	platformtxs "github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/store"
)

// content is what a block contains.
type content struct {
	kind     pchain.Kind // of a P-Chain block
	platform []*platformtxs.Tx
	assets   []*avmtxs.Tx
}

// reader reads from one view.
type reader struct {
	*Chain
	view   store.View
	before uint64
	// known is the time of the blocks [from, to], which have none of their own.
	known    time.Time
	from, to uint64
	// ahead has containers that are read together, by block number.
	ahead map[uint64][]byte
}

func (c *Chain) reader(ctx context.Context) (*reader, error) {
	r := &reader{Chain: c}
	var err error
	if c.Before != nil {
		if r.before, err = c.Before(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBegin, err)
		}
	}
	if r.view, err = c.Viewer.View(ctx); err != nil {
		return nil, fmt.Errorf("reading blocks: %w", err)
	}
	return r, nil
}

func (r *reader) close() { _ = r.view.Close() }

// last returns the number of the last block that is stored in the view, at most tip. A view of a standby may lag behind
// the height that the caller knows. If no block was ever stored, last returns tip.
func (r *reader) last(ctx context.Context, tip uint64) (uint64, error) {
	at, err := store.ReadCursor(ctx, r.view, index.Cursor(r.NetworkID, r.Name, index.Containers))
	if err != nil || at.Next == 0 {
		return tip, err
	}
	return min(tip, max(at.Next, r.before+1)-r.before-1), nil
}

// read returns a block. Its time is zero if the block has none.
func (r *reader) read(ctx context.Context, number uint64) (*Block, error) {
	bytes := r.ahead[number]
	if bytes == nil {
		kept, err := r.containers.Get(ctx, r.view, r.before+number)
		if errors.Is(err, container.ErrMissing) {
			return nil, fmt.Errorf("%w: %d", ErrNotStored, number)
		}
		if err != nil {
			return nil, err
		}
		bytes = kept.Bytes
	}
	b, err := r.parse(bytes)
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", number, err)
	}
	if b.Number != number {
		return nil, fmt.Errorf("%w: block %d is stored as block %d", store.ErrCorrupt, b.Number, number)
	}
	return b, nil
}

// readAhead reads the containers of the blocks [from, to), and forgets those of earlier calls.
func (r *reader) readAhead(ctx context.Context, from, to uint64) error {
	r.ahead = make(map[uint64][]byte)
	for from < to {
		found, err := r.containers.Range(ctx, r.view, r.before+from, int(to-from))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return nil // read reports it
		}
		for i := range found {
			r.ahead[from+uint64(i)] = found[i].Bytes
		}
		from += uint64(len(found))
	}
	return nil
}

// readThese reads the containers of blocks, and forgets those of earlier calls.
func (r *reader) readThese(ctx context.Context, numbers []uint64) error {
	r.ahead = make(map[uint64][]byte, len(numbers))
	heights := make([]uint64, len(numbers))
	for i, n := range numbers {
		heights[i] = r.before + n
	}
	found, err := r.containers.All(ctx, r.view, heights)
	if errors.Is(err, container.ErrMissing) {
		return fmt.Errorf("%w: %w", ErrNotStored, err)
	}
	if err != nil {
		return err
	}
	for i, n := range numbers {
		r.ahead[n] = found[i].Bytes
	}
	return nil
}

func (c *Chain) parse(bytes []byte) (*Block, error) {
	if c.assets != nil {
		return c.parseAssets(bytes)
	}
	p, err := pchain.ParseBlock(bytes)
	if err != nil {
		return nil, err
	}
	b := &Block{Number: p.Height, ID: p.ID, ParentID: p.ParentID, Time: p.Time, Type: platformType(p), Size: len(p.Bytes), Envelope: p.Envelope}
	b.kind, b.platform = p.Kind, p.Txs
	if p.Proposal != nil {
		b.platform = append(b.platform[:len(b.platform):len(b.platform)], p.Proposal)
	}
	for _, tx := range b.platform {
		b.TxIDs = append(b.TxIDs, tx.ID())
	}
	return b, nil
}

// platformType returns the name of the block's type in avalanchego's vms/platformvm/block. Since Banff blocks have a time.
func platformType(b *pchain.Block) string {
	names := map[pchain.Kind]string{
		pchain.Standard: "StandardBlock", pchain.Proposal: "ProposalBlock", pchain.Commit: "CommitBlock",
		pchain.Abort: "AbortBlock", pchain.Atomic: "AtomicBlock",
	}
	if b.Time.IsZero() {
		return "Apricot" + names[b.Kind]
	}
	return "Banff" + names[b.Kind]
}

func (c *Chain) parseAssets(bytes []byte) (*Block, error) {
	around, wrapped := envelope.Open(bytes)
	if wrapped {
		bytes = around.Block
	}
	x, err := c.assets.ParseBlock(bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", xchain.ErrBlock, err)
	}
	b := &Block{
		Number: x.Height(), ID: x.ID(), ParentID: x.Parent(), Time: x.Timestamp().UTC(), Type: "StandardBlock", Size: len(bytes),
	}
	if wrapped {
		b.Envelope = &around
	}
	b.content.assets = x.Txs()
	for _, tx := range b.content.assets {
		b.TxIDs = append(b.TxIDs, tx.ID())
	}
	return b, nil
}

// timed returns a block with its time.
func (r *reader) timed(ctx context.Context, number uint64) (*Block, error) {
	b, err := r.read(ctx, number)
	if err != nil || !b.Time.IsZero() {
		return b, err
	}
	from, at, err := r.advanced(ctx, b)
	if err != nil {
		return nil, err
	}
	if from != r.from {
		r.to = 0
	}
	r.from, r.to, r.known = from, max(b.Number, r.to), at
	b.Time = at
	return b, nil
}

// advanced returns the time of a P-Chain block from before Banff, and the first block with that time. The time was that
// of the last accepted AdvanceTimeTx, or of the genesis.
func (r *reader) advanced(ctx context.Context, b *Block) (from uint64, at time.Time, err error) {
	for b.Number > 0 {
		if b.Number >= r.from && b.Number <= r.to && !r.known.IsZero() {
			return r.from, r.known, nil
		}
		parent, err := r.read(ctx, b.Number-1)
		if err != nil {
			return 0, time.Time{}, err
		}
		if b.kind == pchain.Commit && len(parent.platform) == 1 {
			if tx, ok := parent.platform[0].Unsigned.(*platformtxs.AdvanceTimeTx); ok {
				return b.Number, tx.Timestamp().UTC(), nil
			}
		}
		b = parent
	}
	return 0, r.Begun, nil
}
