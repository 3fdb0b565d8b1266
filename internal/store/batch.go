package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// Batch collects what one Commit writes. The zero value is empty and ready. It
// keeps the slices it is given, and is not safe for concurrent use.
type Batch struct {
	// NoSync lets Commit return before the batch is durable: the last moments
	// may be lost when the process or machine dies, though never a part of a
	// batch, and never a batch without all that came after it. For what can be
	// made again, such as caches.
	NoSync bool

	ops    []op
	moves  []move
	bytes  int
	sorted []place // see order
	// last is where the last operation of each family stands among ops, counted from 1.
	last [256]int
}

// place is where an operation stands among those of a batch.
type place struct {
	// begin is the family and the first bytes of p, which many have in common, and then
	// those after them.
	begin, then uint64
	op          int
}

type op struct {
	pk     PK
	v      []byte
	family Family
	delete bool
	fresh  bool
}

// move is a compare-and-set of a cursor.
type move struct {
	name     string
	from, to Cursor
}

// Put writes a row, replacing what was there. A nil value is an empty one.
// Writes to the same row take effect in the order in which they were added.
func (b *Batch) Put(family Family, pk PK, v []byte) { b.add(op{family: family, pk: pk, v: v}) }

// Add writes a row as Put does, for a writer who knows that it is not there yet: what
// an engine may write faster. One that is there after all is replaced, unless the same
// batch deletes it later: then it may be left as it was.
func (b *Batch) Add(family Family, pk PK, v []byte) {
	b.add(op{family: family, pk: pk, v: v, fresh: true})
}

// Delete removes a row; one that is not there is no error.
func (b *Batch) Delete(family Family, pk PK) { b.add(op{family: family, pk: pk, delete: true}) }

// add takes the place of the operation before it in its family if that is on the same
// row: what each block says anew is in a batch of many blocks once.
func (b *Batch) add(o op) {
	if at := b.last[o.family] - 1; at >= 0 && bytes.Equal(b.ops[at].pk.K, o.pk.K) && bytes.Equal(b.ops[at].pk.P, o.pk.P) {
		b.bytes += len(o.v) - len(b.ops[at].v)
		o.fresh = o.fresh && b.ops[at].fresh // the store may have a row that the one before replaces or deletes
		b.ops[at] = o
		return
	}
	b.ops = append(b.ops, o)
	b.last[o.family] = len(b.ops)
	b.bytes += len(o.pk.P) + len(o.pk.K) + len(o.v)
}

// Move makes the batch conditional: it is written only if the named cursor is
// from, and sets it to to; otherwise Commit returns ErrFenced. A cursor that was
// never moved is the zero Cursor. A batch may move several cursors, each once.
func (b *Batch) Move(name string, from, to Cursor) {
	b.moves = append(b.moves, move{name: name, from: from, to: to})
	b.bytes += len(name) + cursorSize
}

// Len is the number of puts and deletes. Those that follow one another on the same row
// of a family count once.
func (b *Batch) Len() int { return len(b.ops) }

// Bytes is the size of the keys and values in the batch. Distributed engines
// are happiest below 4 MiB and 20,000 rows.
func (b *Batch) Bytes() int { return b.bytes }

// Reset empties the batch for reuse and drops the slices it kept.
func (b *Batch) Reset() {
	clear(b.ops)
	clear(b.moves)
	*b = Batch{NoSync: b.NoSync, ops: b.ops[:0], moves: b.moves[:0], sorted: b.sorted[:0]}
}

// order sets sorted: the operations by family and key, those on the same row in the
// order in which they were added.
func (b *Batch) order() {
	b.sorted = slices.Grow(b.sorted[:0], len(b.ops))
	for i := range b.ops {
		var begin [16]byte
		begin[0] = byte(b.ops[i].family)
		copy(begin[1:], b.ops[i].pk.P)
		b.sorted = append(b.sorted, place{
			begin: binary.BigEndian.Uint64(begin[:]), then: binary.BigEndian.Uint64(begin[8:]), op: i,
		})
	}
	slices.SortFunc(b.sorted, func(x, y place) int {
		if x.begin != y.begin {
			return cmp.Compare(x.begin, y.begin)
		}
		if x.then != y.then {
			return cmp.Compare(x.then, y.then)
		}
		if c := b.ops[x.op].pk.compare(b.ops[y.op].pk); c != 0 {
			return c
		}
		return cmp.Compare(x.op, y.op)
	})
}

// replaced says whether the operation at a place of sorted is followed by one on the
// same row.
func (b *Batch) replaced(at int) bool {
	if at+1 == len(b.sorted) {
		return false
	}
	x, y := &b.sorted[at], &b.sorted[at+1]
	// Families differ in what places begin with.
	return x.begin == y.begin && x.then == y.then && b.ops[x.op].pk.compare(b.ops[y.op].pk) == 0
}

func (b *Batch) check() error {
	for i := range b.ops {
		op := &b.ops[i]
		if err := op.family.check(); err != nil {
			return err
		}
		if err := op.pk.check(); err != nil {
			return fmt.Errorf("%s: %w", op.family, err)
		}
		if len(op.v) > MaxValue {
			return fmt.Errorf("%s: %w: value of %d bytes exceeds the limit of %d", op.family, ErrInvalid, len(op.v), MaxValue)
		}
	}
	for i, m := range b.moves {
		if m.name == "" || len(m.name) > MaxKey {
			return fmt.Errorf("%w: a cursor's name must have 1 to %d bytes, got %d", ErrInvalid, MaxKey, len(m.name))
		}
		for _, earlier := range b.moves[:i] {
			if earlier.name == m.name {
				return fmt.Errorf("%w: cursor %q is moved twice in one batch", ErrInvalid, m.name)
			}
		}
	}
	return nil
}

// touchesCursors says whether the batch must not interleave with another one
// that reads cursors before it writes.
func (b *Batch) touchesCursors() bool {
	if len(b.moves) > 0 {
		return true
	}
	for i := range b.ops {
		if b.ops[i].family == FamilyCursor {
			return true
		}
	}
	return false
}

// cursorWrites checks every cursor the batch moves against what read returns
// for its row (nil: no row), and yields the rows to be written.
func (b *Batch) cursorWrites(read func(PK) ([]byte, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, m := range b.moves {
			pk := PK{P: []byte(m.name)}
			v, err := read(pk)
			if err != nil {
				yield(Entry{}, fmt.Errorf("reading cursor %q: %w", m.name, err))
				return
			}
			at, err := ParseCursor(m.name, v)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if at != m.from {
				yield(Entry{}, fmt.Errorf("%w: cursor %q is at %s, want %s", ErrFenced, m.name, at, m.from))
				return
			}
			if !yield(Entry{PK: pk, V: m.to.bytes()}, nil) {
				return
			}
		}
	}
}

// Cursor says how far a writer has come and which writer it is.
type Cursor struct {
	// Next is what is to be written next, an index or a height.
	Next uint64
	// Epoch is the fence: a writer that takes over raises it by one, and those
	// before it can no longer move the cursor.
	Epoch uint64
}

const cursorSize = 16

func (c Cursor) String() string { return fmt.Sprintf("%d (epoch %d)", c.Next, c.Epoch) }

func (c Cursor) bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize), c.Next)
	return binary.BigEndian.AppendUint64(b, c.Epoch)
}

// ParseCursor reads the row of the named cursor; a nil one is the zero Cursor. The error
// is ErrCorrupt.
func ParseCursor(name string, v []byte) (Cursor, error) {
	switch len(v) {
	case 0:
		if v == nil {
			return Cursor{}, nil
		}
	case cursorSize:
		return Cursor{Next: binary.BigEndian.Uint64(v), Epoch: binary.BigEndian.Uint64(v[8:])}, nil
	}
	return Cursor{}, fmt.Errorf("%w: cursor %q has %d bytes, want %d", ErrCorrupt, name, len(v), cursorSize)
}

// ReadCursor returns the named cursor, the zero Cursor if it was never moved.
func ReadCursor(ctx context.Context, r Reader, name string) (Cursor, error) {
	values, err := r.Get(ctx, FamilyCursor, []PK{{P: []byte(name)}})
	if err != nil {
		return Cursor{}, fmt.Errorf("reading cursor %q: %w", name, err)
	}
	return ParseCursor(name, values[0])
}
