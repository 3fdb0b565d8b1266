package evm

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/store"
)

// Block is an indexed block.
type Block struct {
	BlockRef
	ParentHash common.Hash
	GasLimit   uint64
	// GasCost is the gas that the block itself cost, 0 if the header has none.
	GasCost uint256.Int
	// GasUsed and Fees are the sums of what the transactions used and paid, Fees in wei.
	GasUsed uint64
	Fees    uint256.Int
	// Transactions is the number of transactions in the block, Cumulative that in all indexed blocks up to this one.
	Transactions, Cumulative uint64
}

// BlockQuery selects blocks, newest first.
type BlockQuery struct {
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// BlockPage is a page of blocks.
type BlockPage struct {
	Blocks []Block
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// appendBlock appends what a block's row has beside the reference. All but the first block of the index leave out the
// parent's hash, which the preceding row has.
func appendBlock(b []byte, block *evm.Block, h *head) []byte {
	var used uint64
	var fees, fee uint256.Int
	for i := range block.Transactions {
		tx := &block.Transactions[i]
		used += tx.GasUsed
		fees.Add(&fees, fee.Mul(&tx.GasPrice, fee.SetUint64(tx.GasUsed)))
	}
	b = binary.AppendUvarint(b, uint64(len(block.Transactions)))
	b = binary.AppendUvarint(b, h.txs)
	b = binary.AppendUvarint(b, block.GasLimit)
	b = binary.AppendUvarint(b, used)
	b = appendUint256(appendUint256(b, &block.GasCost), &fees)
	if block.Number == h.first {
		b = append(b, block.ParentHash[:]...)
	}
	return b
}

// block reads the row of a block. It sets only the reference if whole is false: an older version wrote the row.
// ParentHash is set only in the row of the first block.
func (r *reader) block(number uint64, b *Block) (whole bool) {
	r.readRef(number, &b.BlockRef)
	if r.Len() == 0 {
		return false
	}
	b.Transactions, b.Cumulative, b.GasLimit, b.GasUsed = r.Number(), r.Number(), r.Number(), r.Number()
	b.GasCost, b.Fees = r.uint256(), r.uint256()
	if r.Len() > 0 {
		b.ParentHash = r.hash()
	}
	return true
}

// Block returns a block. It returns ErrBeyondTip or ErrBeforeFirst if it is not indexed, and ErrNoBlocks.
func (r *Index) Block(ctx context.Context, number uint64) (*Block, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if _, err := s.block(ctx, number); err != nil {
		return nil, err
	}
	blocks, err := s.blocks(ctx, number, 1)
	if err != nil {
		return nil, err
	}
	return &blocks[0], nil
}

// Blocks lists the blocks of the chain, newest first. It returns ErrNoBlocks if an older version indexed some of them, and
// index.ErrViewBehind if the view lacks the block of a position.
func (r *Index) Blocks(ctx context.Context, q BlockQuery) (*BlockPage, error) {
	q.Limit = limitOf(q.Limit)
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	last := s.head.tip.Number
	if q.After != nil {
		if len(q.After) != 8 {
			return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(q.After))
		}
		before := binary.BigEndian.Uint64(q.After)
		if before <= s.head.first {
			return nil, fmt.Errorf("%w: block %d", index.ErrPosition, before)
		}
		if err := index.CheckPin(last, before); err != nil {
			return nil, err
		}
		last = before - 1
	}
	n := min(uint64(q.Limit), last-s.head.first+1)
	p := &BlockPage{}
	if p.Blocks, err = s.blocks(ctx, last, int(n)); err != nil {
		return nil, err
	}
	if oldest := last - n + 1; oldest > s.head.first {
		p.Next = uint64Key(oldest)
	}
	return p, nil
}

// blocks returns n indexed blocks up to a number, newest first.
func (s *state) blocks(ctx context.Context, last uint64, n int) ([]Block, error) {
	rows := n
	if oldest := last - uint64(n) + 1; oldest > s.head.first {
		rows++ // for the hash of the parent
	}
	keys := make([]store.PK, rows)
	for i := range keys {
		keys[i] = s.chain.blockRow(last - uint64(i))
	}
	values, err := s.Get(ctx, store.FamilyEVMBlock, keys)
	if err != nil {
		return nil, fmt.Errorf("reading %d blocks up to %d: %w", n, last, err)
	}
	blocks := make([]Block, rows)
	for i := range blocks {
		number, b := last-uint64(i), &blocks[i]
		if values[i] == nil {
			return nil, fmt.Errorf("%w: block %d", store.ErrCorrupt, number)
		}
		v := read(values[i])
		whole := v.block(number, b)
		if err := v.End(); err != nil {
			return nil, fmt.Errorf("block %d: %w", number, err)
		}
		if !whole && i < n {
			return nil, fmt.Errorf("%w: block %d of chain %s", ErrNoBlocks, number, s.chainID)
		}
		if i > 0 {
			blocks[i-1].ParentHash = b.Hash
		}
	}
	return blocks[:n], nil
}
