package evm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"quorate/internal/store"
)

// Kinds of rows of FamilyEVMUntraced, each with one writer. Their keys are heights.
const (
	// untracedRange is a range of blocks without call traces, keyed by its first block. The Projection writes it and may
	// extend the last one.
	untracedRange byte = iota + 2 // 0 and 1 would be escaped in a partition
	// untracedFilled is the part of such a range that has received traces. The Filler writes it.
	untracedFilled
	// untracedLost is a block whose traces no node could give. The Filler writes it.
	untracedLost
)

// openRange is a projection's state about blocks without traces.
type openRange struct {
	// open reports whether the range that begins with from continues.
	open bool
	from uint64
	// rows reports whether all such blocks have rows. Earlier versions wrote none.
	rows bool
	// anew reports whether rows of an earlier index must be deleted.
	anew bool
}

// again deletes the rows of an earlier index about blocks without traces.
func (t *Projection) again(ctx context.Context, r store.Reader, batch *store.Batch) error {
	if !t.untraced.anew {
		return nil
	}
	for _, kind := range []byte{untracedRange, untracedFilled, untracedLost} {
		p := t.chain.partition([]byte{kind})
		for row, err := range partitionRows(ctx, r, p) {
			if err != nil {
				return err
			}
			batch.Delete(store.FamilyEVMUntraced, store.PK{P: p, K: row.K})
		}
	}
	t.untraced.anew = false
	return nil
}

// without notes a block that is indexed without traces.
func (t *Projection) without(ctx context.Context, r store.Reader, number uint64, batch *store.Batch) error {
	p := t.chain.partition([]byte{untracedRange})
	u := &t.untraced
	switch {
	case !t.head.untraced:
		t.head.untraced, t.head.untracedFrom = true, number
	case !u.rows:
		rows, err := r.Scan(ctx, store.FamilyEVMUntraced, p, nil, nil, store.Ascending, 1)
		if err != nil {
			return fmt.Errorf("reading which blocks lack call traces: %w", err)
		}
		if len(rows) == 0 {
			batch.Put(store.FamilyEVMUntraced, store.PK{P: p, K: uint64Key(t.head.untracedFrom)}, countBytes(t.head.untracedTo))
		}
	}
	u.rows = true
	t.head.untracedTo = number
	if !u.open {
		u.open, u.from = true, number
	}
	batch.Put(store.FamilyEVMUntraced, store.PK{P: p, K: uint64Key(u.from)}, countBytes(number))
	return nil
}

// span is a range of blocks, both ends included.
type span struct{ from, to uint64 }

func (s span) size() uint64 { return s.to - s.from + 1 }

// gap is a range of blocks that were indexed without traces. The blocks from lo to hi have received them; lo is hi+1 if
// there are none.
type gap struct {
	span
	lo, hi uint64
	// row reports whether the range has a row, and last whether it may still be extended.
	row, last bool
}

// left returns the blocks that still lack traces.
func (g *gap) left() (spans []span) {
	if g.lo > g.from {
		spans = append(spans, span{g.from, g.lo - 1})
	}
	if g.hi < g.to {
		spans = append(spans, span{g.hi + 1, g.to})
	}
	return spans
}

func (g *gap) missing() uint64 { return g.size() - (g.hi + 1 - g.lo) }

func filledBytes(lo, hi uint64) []byte { return binary.AppendUvarint(countBytes(lo), hi) }

// gaps returns the ranges of an index, filled or not, in order.
func gaps(ctx context.Context, r store.Reader, chain *chainKey, h *head) ([]gap, error) {
	if !h.untraced {
		return nil, nil
	}
	var all []gap
	for row, err := range partitionRows(ctx, r, chain.partition([]byte{untracedRange})) {
		if err != nil {
			return nil, err
		}
		v := read(row.V)
		g := gap{span: span{binary.BigEndian.Uint64(row.K), v.Number()}, row: true}
		if err := cmp.Or(v.End(), g.check(h)); err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	if len(all) == 0 {
		all = []gap{{span: span{h.untracedFrom, h.untracedTo}}}
		if err := all[0].check(h); err != nil {
			return nil, err
		}
	}
	all[len(all)-1].last = true
	places := make(map[uint64]*gap, len(all))
	for i := range all {
		g := &all[i]
		g.lo, g.hi = g.to+1, g.to
		places[g.from] = g
	}
	for row, err := range partitionRows(ctx, r, chain.partition([]byte{untracedFilled})) {
		if err != nil {
			return nil, err
		}
		v := read(row.V)
		lo, hi := v.Number(), v.Number()
		if err := v.End(); err != nil {
			return nil, err
		}
		// A row that does not fit belongs to an earlier index.
		if g := places[binary.BigEndian.Uint64(row.K)]; g != nil && g.from <= lo && lo <= hi && hi <= g.to {
			g.lo, g.hi = lo, hi
		}
	}
	return all, nil
}

func (g *gap) check(h *head) error {
	if g.from < h.first || g.from > g.to || g.to > h.tip.Number {
		return fmt.Errorf("%w: blocks %d to %d without call traces, of %d to %d", store.ErrCorrupt, g.from, g.to, h.first, h.tip.Number)
	}
	return nil
}

// partitionRows yields rows of FamilyEVMUntraced.
func partitionRows(ctx context.Context, r store.Reader, p []byte) func(yield func(store.Row, error) bool) {
	return func(yield func(store.Row, error) bool) {
		for lo := []byte(nil); ; {
			rows, err := r.Scan(ctx, store.FamilyEVMUntraced, p, lo, nil, store.Ascending, scanRows)
			for i := 0; i < len(rows) && err == nil; i++ {
				if len(rows[i].K) != 8 {
					err = fmt.Errorf("%w: height %x", store.ErrCorrupt, rows[i].K)
				} else if !yield(rows[i], nil) {
					return
				}
			}
			if err != nil {
				yield(store.Row{}, fmt.Errorf("reading which blocks lack call traces: %w", err))
				return
			}
			if len(rows) < scanRows {
				return
			}
			lo = store.After(rows[len(rows)-1].K)
		}
	}
}

// pending returns the blocks without traces that may be filled in, in order.
func (s *state) pending(ctx context.Context) (spans []span, err error) {
	all, err := gaps(ctx, s, &s.chain, s.head)
	for i := range all {
		spans = append(spans, all[i].left()...)
	}
	return spans, err
}

// missing returns the span of blocks without call traces from start on and before end, nil if there are none; a nil
// bound means no bound. It returns ErrUntraced if the index has no traces at all.
func (s *state) missing(ctx context.Context, start, end *uint64) (*Span, error) {
	if !s.head.untraced {
		return nil, nil
	}
	pending, err := s.pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(pending) == 1 && pending[0].to >= s.head.busy {
		oldest, found, err := s.oldest(ctx)
		if err != nil {
			return nil, err
		}
		if !found || oldest >= pending[0].from {
			return nil, fmt.Errorf("%w: of no block from %d to %d", ErrUntraced, pending[0].from, pending[0].to)
		}
	}
	var found *Span
	note := func(from, to uint64) {
		switch one := within(start, end, from, to); {
		case one == nil:
		case found == nil:
			found = one
		default:
			found.From, found.To = min(found.From, one.From), max(found.To, one.To)
		}
	}
	for _, one := range pending {
		note(one.from, one.to)
	}
	var lo, hi []byte
	if start != nil {
		lo = uint64Key(*start)
	}
	if end != nil {
		hi = uint64Key(*end)
	}
	for _, direction := range []store.Direction{store.Ascending, store.Descending} {
		lost, err := s.Scan(ctx, store.FamilyEVMUntraced, s.chain.partition([]byte{untracedLost}), lo, hi, direction, 1)
		if err != nil {
			return nil, fmt.Errorf("reading which blocks lack call traces: %w", err)
		}
		for _, row := range lost {
			if len(row.K) != 8 {
				return nil, fmt.Errorf("%w: height %x", store.ErrCorrupt, row.K)
			}
			number := binary.BigEndian.Uint64(row.K)
			note(number, number)
		}
	}
	return found, nil
}

// tracesMissing does what missing does, for lists that do not need call traces. If the index has none at all, it returns
// the untraced blocks.
func (s *state) tracesMissing(ctx context.Context, start, end *uint64) (*Span, error) {
	found, err := s.missing(ctx, start, end)
	if errors.Is(err, ErrUntraced) {
		return within(start, end, s.head.untracedFrom, s.head.untracedTo), nil
	}
	return found, err
}

// oldest returns the first block with transactions, if any.
func (s *state) oldest(ctx context.Context) (number uint64, found bool, err error) {
	number = math.MaxUint64
	for _, success := range []bool{true, false} {
		oldest, err := s.Scan(ctx, store.FamilyEVMTxRange, s.chain.txRanges(success), nil, nil, store.Descending, 1)
		if err != nil {
			return 0, false, fmt.Errorf("looking for the first transaction: %w", err)
		}
		if len(oldest) == 0 {
			continue
		}
		if len(oldest[0].K) != 8 {
			return 0, false, fmt.Errorf("%w: range %x of transactions", store.ErrCorrupt, oldest[0].K)
		}
		numbers := ^binary.BigEndian.Uint64(oldest[0].K)
		first, err := s.Scan(ctx, store.FamilyEVMTx, s.chain.txPartition(success, numbers), nil, nil, store.Descending, 1)
		if err != nil {
			return 0, false, fmt.Errorf("looking for the first transaction: %w", err)
		}
		if len(first) == 0 {
			continue
		}
		at, ok := placeOf(first[0].K)
		if !ok {
			return 0, false, fmt.Errorf("%w: transaction at %x", store.ErrCorrupt, first[0].K)
		}
		number, found = min(number, at.number), true
	}
	return number, found, nil
}
