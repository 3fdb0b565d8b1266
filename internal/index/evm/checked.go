package evm

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// run describes the blocks at the end of an index whose headers have their hashes and whose transactions and receipts
// have the roots in the headers. The pipeline checks that each block's parent is the block before it.
type run struct {
	begun bool
	// from is the first block of the run. It is last+1 if the last block was not checked.
	from, last uint64
	// settled is the last block whose receipts were compared with a receipts root; see evm.Block.Settled. known is false
	// if the headers so far do not say it. Receipts of later blocks of the run await their root.
	settled uint64
	known   bool
	// wrong is the last range of blocks whose receipts differ from the root; nil if there is none.
	wrong *Span

	waiting map[uint64][][]byte // receipts of the blocks after settled, by height
	bytes   int                 // of waiting
}

// Bounds of the receipts that await their root. Chains settle blocks after seconds.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 64 << 20
)

// check extends the run by a block, and writes it.
func (t *Projection) check(ctx context.Context, r store.Reader, block *evm.Block, batch *store.Batch) error {
	c, n := &t.checked, block.Number
	if !c.begun {
		if err := t.beginRun(ctx, r, n); err != nil {
			return err
		}
	}
	if block.Unchecked || block.Unhashed {
		c.from = n + 1
	}
	switch {
	case block.Unhashed: // its fields may be wrong
		c.known = false
	case block.Settled == nil || n == 0:
		c.settled, c.known = n, true
	default:
		c.settle(n, *block.Settled, block.ReceiptsRoot)
	}
	drop := func() {
		for height := range c.waiting {
			if !c.known || height <= c.settled || height < c.from {
				c.drop(height)
				batch.Delete(store.FamilyEVMChecked, t.chain.checkedRow(height))
			}
		}
	}
	drop()
	awaits := c.known && c.settled < n && c.from <= n
	if awaits && (len(c.waiting) == maxWaiting || c.bytes+sizeOf(block.Receipts) > maxWaitingBytes) {
		c.from, awaits = n+1, false // the next root covers what is dropped
		drop()
	}
	if awaits {
		c.await(n, block.Receipts)
		batch.Put(store.FamilyEVMChecked, t.chain.checkedRow(n), receiptsBytes(block.Receipts))
	}
	c.last = n
	batch.Put(store.FamilyEVMChecked, t.chain.headRow(), c.bytesOf())
	return nil
}

// settle compares the receipts of the blocks up to height settled with the receipts root in the header of block n.
func (c *run) settle(n, settled uint64, root common.Hash) {
	before, known := c.settled, c.known
	c.settled, c.known = settled, true
	switch {
	case settled >= n, known && settled < before: // contradicts its ancestors
		c.from, c.known, c.wrong = n+1, false, &Span{n, n}
		return
	case !known, c.from > before+1:
		c.from = max(c.from, settled+1) // some of the receipts were not indexed by this version, or not checked
		return
	}
	var receipts [][]byte
	for height := before + 1; height <= settled; height++ {
		receipts = append(receipts, c.waiting[height]...)
	}
	switch {
	case evm.ReceiptsRoot(receipts) == root:
	case settled == before:
		c.from, c.wrong = n+1, &Span{n, n}
	default:
		c.from, c.wrong = settled+1, &Span{before + 1, settled}
	}
}

func (c *run) await(height uint64, receipts [][]byte) {
	if c.waiting == nil {
		c.waiting = make(map[uint64][][]byte)
	}
	c.waiting[height] = receipts
	c.bytes += sizeOf(receipts)
}

func (c *run) drop(height uint64) {
	c.bytes -= sizeOf(c.waiting[height])
	delete(c.waiting, height)
}

func sizeOf(receipts [][]byte) (n int) {
	for _, one := range receipts {
		n += len(one)
	}
	return n
}

// beginRun reads the run that ends before a block. If there is none, for example because another version indexed that
// block, a new one begins.
func (t *Projection) beginRun(ctx context.Context, r store.Reader, number uint64) error {
	c := &t.checked
	*c = run{begun: true, from: number}
	if number == t.head.first {
		return nil
	}
	stored, err := readRun(ctx, r, &t.chain)
	if err != nil || stored == nil || stored.last+1 != number {
		return err
	}
	rows, err := r.Scan(ctx, store.FamilyEVMChecked, t.chain.partition(), uint64Key(stored.settled+1), uint64Key(number), store.Ascending, maxWaiting+1)
	if err != nil {
		return fmt.Errorf("reading receipts that await their root: %w", err)
	}
	waiting := make(map[uint64][][]byte, len(rows))
	for _, row := range rows {
		if len(row.K) != 8 {
			return fmt.Errorf("%w: receipts at %x", store.ErrCorrupt, row.K)
		}
		if waiting[binary.BigEndian.Uint64(row.K)], err = parseReceipts(row.V); err != nil {
			return err
		}
	}
	*c = *stored
	if !c.known {
		return nil
	}
	for height := max(c.settled+1, c.from); height < number; height++ {
		receipts, ok := waiting[height]
		if !ok {
			c.from = number // an earlier version went on with the index in between
			return nil
		}
		c.await(height, receipts)
	}
	return nil
}

// checkedRow returns the key of the receipts of a block.
func (c *chainKey) checkedRow(height uint64) store.PK {
	return store.PK{P: c.partition(), K: uint64Key(height)}
}

// readRun returns nil if there is none.
func readRun(ctx context.Context, r store.Reader, chain *chainKey) (*run, error) {
	values, err := r.Get(ctx, store.FamilyEVMChecked, []store.PK{chain.headRow()})
	if err != nil {
		return nil, fmt.Errorf("reading which blocks were checked: %w", err)
	}
	if values[0] == nil {
		return nil, nil
	}
	v := read(values[0])
	c := &run{begun: true, from: v.Number(), last: v.Number(), known: v.Byte() != 0, settled: v.Number()}
	if v.Len() > 0 {
		c.wrong = &Span{v.Number(), v.Number()}
	}
	return c, v.End()
}

func (c *run) bytesOf() []byte {
	b := binary.AppendUvarint(binary.AppendUvarint([]byte{version}, c.from), c.last)
	known := byte(0)
	if c.known {
		known = 1
	}
	b = binary.AppendUvarint(append(b, known), c.settled)
	if c.wrong != nil {
		b = binary.AppendUvarint(binary.AppendUvarint(b, c.wrong.From), c.wrong.To)
	}
	return b
}

func receiptsBytes(receipts [][]byte) []byte {
	b := append(make([]byte, 0, 1+sizeOf(receipts)+len(receipts)*binary.MaxVarintLen16), version)
	for _, one := range receipts {
		b = appendBytes(b, one)
	}
	return b
}

func parseReceipts(b []byte) (receipts [][]byte, err error) {
	v := read(b)
	for v.Err() == nil && v.Len() > 0 {
		receipts = append(receipts, v.Bytes())
	}
	return receipts, v.End()
}

// Checked describes which blocks at the end of an index were checked; see Index.Checked.
type Checked struct {
	// Tip is the last block, and Hash that of the block that the caller named; zero if it is not indexed.
	Tip  BlockRef
	Hash common.Hash
	// From is the first block of the run that ends with Tip: each block's header has its hash, names the block before it
	// as its parent, and has the root of its transactions. From is Tip.Number+1 if Tip was not checked.
	From uint64
	// Settled is the last block whose receipts were compared with the root in a header of the run, if SettledKnown.
	Settled      uint64
	SettledKnown bool
	// Wrong is the last range of blocks whose receipts differ from the root in a header; nil if there is none.
	Wrong *Span
}

// Checked returns which blocks were checked, and the hash of the block at height. ok is false if the last block was
// indexed by a version that did not check, or nothing is indexed.
func (r *Index) Checked(ctx context.Context, height uint64) (c Checked, ok bool, err error) {
	s, err := r.view(ctx)
	if err != nil {
		return c, false, err
	}
	defer s.close()
	last, err := readRun(ctx, s, &s.chain)
	if err != nil || last == nil || last.last != s.head.tip.Number {
		return c, false, err
	}
	c = Checked{Tip: s.head.tip, From: last.from, Settled: last.settled, SettledKnown: last.known, Wrong: last.wrong}
	if height >= s.head.first && height <= s.head.tip.Number {
		ref, err := s.block(ctx, height)
		if err != nil {
			return c, false, err
		}
		c.Hash = ref.Hash
	}
	return c, true, nil
}
