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
	// NoSync lets Commit return before the batch is durable. If the process or machine
	// dies, the latest batches may be lost, but never a part of a batch, and never a batch
	// without all later ones. It is for rows that can be restored, such as caches.
	NoSync bool

	ops    []op
	moves  []move
	bytes  int
	sorted []place // see order
	// last has the index in ops of the last operation of each family, plus 1.
	last [256]int
}

// place refers to an operation of a batch, with the beginning of its sort key.
type place struct {
	// begin has the family and the first bytes of p, then the bytes after them.
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

// Add writes a row that does not exist yet, which is faster than Put on some engines. If the row exists, Add replaces it. If
// the same batch then deletes it, the row may stay unchanged.
func (b *Batch) Add(family Family, pk PK, v []byte) {
	b.add(op{family: family, pk: pk, v: v, fresh: true})
}

// Delete removes a row. A missing row is no error.
func (b *Batch) Delete(family Family, pk PK) { b.add(op{family: family, pk: pk, delete: true}) }

// add appends an operation. It replaces the preceding operation of the family if that has the same row, so that a row which
// each block writes occurs once in a batch of many blocks.
func (b *Batch) add(o op) {
	if at := b.last[o.family] - 1; at >= 0 && bytes.Equal(b.ops[at].pk.K, o.pk.K) && bytes.Equal(b.ops[at].pk.P, o.pk.P) {
		b.bytes += len(o.v) - len(b.ops[at].v)
		o.fresh = o.fresh && b.ops[at].fresh // the row may exist if the preceding operation was not an Add
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

// Len returns the number of puts and deletes. Consecutive ones of a family on the same row count once.
func (b *Batch) Len() int { return len(b.ops) }

// Bytes returns the size of the keys and values in the batch. Distributed engines work best below 4 MiB and 20,000 rows.
func (b *Batch) Bytes() int { return b.bytes }

// Reset empties the batch for reuse and drops the slices it kept.
func (b *Batch) Reset() {
	clear(b.ops)
	clear(b.moves)
	*b = Batch{NoSync: b.NoSync, ops: b.ops[:0], moves: b.moves[:0], sorted: b.sorted[:0]}
}

// order sorts the operations by family and key into sorted. Operations on the same row stay in the order in which they were
// added.
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

// replaced reports whether a later operation has the same row as the operation at an index of sorted.
func (b *Batch) replaced(at int) bool {
	if at+1 == len(b.sorted) {
		return false
	}
	x, y := &b.sorted[at], &b.sorted[at+1]
	// Operations of different families differ in begin.
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

// touchesCursors reports whether the batch reads or writes cursors, so that no other such batch may run concurrently.
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

// cursorWrites yields the rows of the cursors that the batch moves. It yields ErrFenced if a cursor has another value. read
// returns the value of a row, nil without one.
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

// Cursor is the position of a writer.
type Cursor struct {
	// Next is the next index or height to write.
	Next uint64
	// Epoch identifies the writer. A writer that takes over raises it, so that earlier
	// writers can no longer move the cursor.
	Epoch uint64
}

const cursorSize = 16

func (c Cursor) String() string { return fmt.Sprintf("%d (epoch %d)", c.Next, c.Epoch) }

func (c Cursor) bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize), c.Next)
	return binary.BigEndian.AppendUint64(b, c.Epoch)
}

// ParseCursor decodes the row of the named cursor. A nil row is the zero Cursor. The error is ErrCorrupt.
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

// ReadCursor returns the named cursor, or the zero Cursor if it was never moved.
func ReadCursor(ctx context.Context, r Reader, name string) (Cursor, error) {
	values, err := r.Get(ctx, FamilyCursor, []PK{{P: []byte(name)}})
	if err != nil {
		return Cursor{}, fmt.Errorf("reading cursor %q: %w", name, err)
	}
	return ParseCursor(name, values[0])
}
