package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// BoundedRowBytes is the overhead that Bounded counts for a row in addition to its value and its key, which is stored twice.
const BoundedRowBytes = 64

// Bounded keeps a family below a number of bytes: a put that would exceed it
// first evicts the rows that were put longest ago. It is for caches, and writes
// with NoSync: the newest rows may be lost with the process, but rows and
// accounts never disagree, however it ends, because they are written together.
//
// Beside a row of the family, whose value begins with a number that grows with
// each put, there is a row of FamilyOrder with that number as its key, so that
// the oldest rows are found without a search. The number is a cursor, and each
// commit moves it: should two processes share a store, the second to commit is
// refused, reads the accounts again, and repeats.
//
// Nothing else may write the family. A Bounded is safe for concurrent use.
type Bounded struct {
	store    Store
	family   Family
	maxBytes uint64
	cursor   string
	order    []byte // partition of FamilyOrder
	account  PK

	mu     sync.Mutex   // held by Put, not by Get and Scan
	known  bool         // whether number and state are the store's; guarded by mu
	number uint64       // of the next row; guarded by mu
	state  boundedState // guarded by mu

	size atomic.Pointer[boundedState] // the last state that was the store's
}

// boundedState is the account that is committed with the rows.
type boundedState struct {
	bytes, rows uint64

	// oldest is at most the number of the oldest row. Without it, finding that
	// row would mean to step over all that were evicted before.
	oldest uint64
}

// NewBounded returns the Bounded of a family, which may have rows. It evicts the oldest rows if they exceed maxBytes.
func NewBounded(ctx context.Context, s Store, family Family, maxBytes uint64) (*Bounded, error) {
	if err := family.check(); err != nil {
		return nil, err
	}
	name := "bounded/" + family.String()
	b := &Bounded{
		store: s, family: family, maxBytes: maxBytes,
		cursor: name, order: []byte(family.String()), account: PK{P: []byte(name)},
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	for b.state.bytes > b.maxBytes {
		if err := b.commit(ctx, nil); err != nil {
			return nil, fmt.Errorf("evicting from family %s: %w", family, err)
		}
	}
	return b, nil
}

// Get returns the values of keys in their order, nil for missing rows. It takes one lookup per key. It does not affect the
// order of eviction.
func (b *Bounded) Get(ctx context.Context, keys ...PK) ([][]byte, error) {
	values, err := b.store.Get(ctx, b.family, keys)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if v == nil {
			continue
		}
		if _, values[i], err = b.split(v); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Scan reads a partition as Reader.Scan does.
func (b *Bounded) Scan(ctx context.Context, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	rows, err := b.store.Scan(ctx, b.family, p, lo, hi, dir, limit)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if _, rows[i].V, err = b.split(rows[i].V); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Put writes entries. Later entries count as younger, and a replaced row becomes the youngest. Entries that do not fit into
// one batch are written in several. If an entry exceeds the limit of the family, Put returns ErrInvalid and writes nothing.
// Put waits for other calls of Put, but not for the disk. It does not retain entries.
func (b *Bounded) Put(ctx context.Context, entries ...Entry) error {
	for i := range entries {
		e := &entries[i]
		if size := e.size(); size > b.maxBytes {
			return fmt.Errorf("%s: %w: row of %d bytes exceeds the family's limit of %d", b.family, ErrInvalid, size, b.maxBytes)
		}
		if err := e.check(); err != nil {
			return fmt.Errorf("%s: %w", b.family, err)
		}
		if len(e.V) > MaxValue-numberSize {
			return fmt.Errorf("%s: %w: value of %d bytes exceeds the limit of %d", b.family, ErrInvalid, len(e.V), MaxValue-numberSize)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(entries) > 0 {
		n, size := 0, uint64(0)
		for n < len(entries) && n < boundedPage && size+entries[n].size() <= b.maxBytes {
			size += entries[n].size()
			n++
		}
		if err := b.commit(ctx, entries[:n]); err != nil {
			return fmt.Errorf("putting into family %s: %w", b.family, err)
		}
		entries = entries[n:]
	}
	return nil
}

// Size returns the counted size of the family. It does not wait for the store.
func (b *Bounded) Size() (bytes, rows uint64) {
	state := b.size.Load()
	return state.bytes, state.rows
}

// set sets what the store has. It requires mu.
func (b *Bounded) set(number uint64, state boundedState) {
	b.number, b.state, b.known = number, state, true
	b.size.Store(&state)
}

const (
	// boundedPage bounds how many rows one commit puts, and how many it evicts if
	// it puts none.
	boundedPage = 1024
	// evictPage is how many of the oldest rows are looked at in one step.
	evictPage = 64
	// numberSize is what a value of a bounded family begins with.
	numberSize = 8
)

// commit writes entries, which fit together, and evicts what must go. It repeats this
// if another writer committed meanwhile. With mu held.
func (b *Bounded) commit(ctx context.Context, entries []Entry) error {
	for {
		if !b.known {
			if err := b.load(ctx); err != nil {
				return err
			}
		}
		b.known = false
		batch, number, state, err := b.prepare(ctx, entries)
		if err == nil {
			err = b.store.Commit(ctx, batch)
		}
		if errors.Is(err, ErrFenced) || errors.Is(err, errBoundedMoved) {
			continue
		}
		if err != nil {
			return err
		}
		b.set(number, state)
		return nil
	}
}

// load reads number and state, which belong together only in one view.
func (b *Bounded) load(ctx context.Context) error {
	view, err := b.store.View(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = view.Close() }()
	cursor, err := ReadCursor(ctx, view, b.cursor)
	if err != nil {
		return err
	}
	values, err := view.Get(ctx, FamilyMeta, []PK{b.account})
	if err != nil {
		return err
	}
	state, err := parseBoundedState(values[0])
	if err != nil {
		return fmt.Errorf("account of family %s: %w", b.family, err)
	}
	b.set(cursor.Next, state)
	return nil
}

// errBoundedMoved says that reads disagreed with the account in memory.
var errBoundedMoved = errors.New("rows and account disagree")

// prepare makes the batch and the account after it.
func (b *Bounded) prepare(ctx context.Context, entries []Entry) (*Batch, uint64, boundedState, error) {
	batch, number, state := &Batch{NoSync: true}, b.number, b.state
	entries = lastOfEach(entries)
	replaced, err := b.replace(ctx, entries, batch, &state)
	if err != nil {
		return nil, 0, boundedState{}, err
	}
	for i := range entries {
		e := &entries[i]
		v := binary.BigEndian.AppendUint64(make([]byte, 0, numberSize+len(e.V)), number)
		batch.Put(b.family, e.PK, append(v, e.V...))
		batch.Put(FamilyOrder, b.orderKey(number), e.orderValue())
		number++
		state.rows++
		state.bytes += e.size()
	}
	atMost := math.MaxInt
	if len(entries) == 0 {
		atMost = boundedPage
	}
	if err := b.evict(ctx, atMost, replaced, batch, &state); err != nil {
		return nil, 0, boundedState{}, err
	}
	batch.Put(FamilyMeta, b.account, state.encode())
	// Evictions alone must move the cursor as well: it is what fences.
	batch.Move(b.cursor, Cursor{Next: b.number}, Cursor{Next: max(number, b.number+1)})
	return batch, max(number, b.number+1), state, nil
}

// replace subtracts the rows that entries replace from the account, and returns
// their numbers.
func (b *Bounded) replace(ctx context.Context, entries []Entry, batch *Batch, state *boundedState) (map[uint64]struct{}, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	keys := make([]PK, len(entries))
	for i := range entries {
		keys[i] = entries[i].PK
	}
	values, err := b.store.Get(ctx, b.family, keys)
	if err != nil {
		return nil, err
	}
	replaced := make(map[uint64]struct{})
	for i, v := range values {
		if v == nil {
			continue
		}
		number, old, err := b.split(v)
		if err != nil {
			return nil, err
		}
		replaced[number] = struct{}{}
		batch.Delete(FamilyOrder, b.orderKey(number))
		if err := state.remove(Entry{PK: keys[i], V: old}.size()); err != nil {
			return nil, b.disagree(ctx, err)
		}
	}
	return replaced, nil
}

// evict removes the oldest rows but the replaced ones, at most as many as given,
// until the family is within its bound.
func (b *Bounded) evict(ctx context.Context, atMost int, replaced map[uint64]struct{}, batch *Batch, state *boundedState) error {
	for state.bytes > b.maxBytes && atMost > 0 {
		rows, err := b.store.Scan(ctx, FamilyOrder, b.order, b.orderKey(state.oldest).K, b.orderKey(b.number).K, Ascending, evictPage)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return b.disagree(ctx, fmt.Errorf("%d bytes are counted but there are no rows", state.bytes))
		}
		for _, row := range rows {
			if state.bytes <= b.maxBytes || atMost == 0 {
				return nil
			}
			number, pk, size, err := parseOrder(row)
			if err != nil {
				return err
			}
			state.oldest = number + 1
			if _, ok := replaced[number]; ok {
				continue
			}
			atMost--
			batch.Delete(b.family, pk)
			batch.Delete(FamilyOrder, b.orderKey(number))
			if err := state.remove(size); err != nil {
				return b.disagree(ctx, err)
			}
		}
	}
	return nil
}

// disagree returns errBoundedMoved if another writer committed meanwhile, and
// ErrCorrupt if the account is wrong.
func (b *Bounded) disagree(ctx context.Context, cause error) error {
	cursor, err := ReadCursor(ctx, b.store, b.cursor)
	if err != nil {
		return err
	}
	if cursor.Next != b.number {
		return errBoundedMoved
	}
	return fmt.Errorf("%w: account of family %s: %w", ErrCorrupt, b.family, cause)
}

// split takes the number off a value.
func (b *Bounded) split(v []byte) (uint64, []byte, error) {
	if len(v) < numberSize {
		return 0, nil, fmt.Errorf("%w: row of bounded family %s has %d bytes", ErrCorrupt, b.family, len(v))
	}
	return binary.BigEndian.Uint64(v), v[numberSize:len(v):len(v)], nil
}

func (b *Bounded) orderKey(number uint64) PK {
	return PK{P: b.order, K: binary.BigEndian.AppendUint64(nil, number)}
}

// size is what an entry counts for.
func (e Entry) size() uint64 {
	return uint64(2*(len(e.P)+len(e.K)) + len(e.V) + BoundedRowBytes)
}

// orderValue is size, length of p, p, and k.
func (e Entry) orderValue() []byte {
	v := binary.AppendUvarint(nil, e.size())
	v = binary.AppendUvarint(v, uint64(len(e.P)))
	return append(append(v, e.P...), e.K...)
}

func parseOrder(row Row) (number uint64, pk PK, size uint64, err error) {
	size, n := binary.Uvarint(row.V)
	if n > 0 && len(row.K) == numberSize {
		rest := row.V[n:]
		if length, m := binary.Uvarint(rest); m > 0 && length <= uint64(len(rest)-m) {
			rest = rest[m:]
			return binary.BigEndian.Uint64(row.K), PK{P: rest[:length:length], K: rest[length:]}, size, nil
		}
	}
	return 0, PK{}, 0, fmt.Errorf("%w: order row %x", ErrCorrupt, row.K)
}

func (s *boundedState) remove(size uint64) error {
	if s.rows == 0 || s.bytes < size {
		return fmt.Errorf("cannot subtract %d bytes from %d", size, s.bytes)
	}
	s.rows--
	s.bytes -= size
	return nil
}

func (s boundedState) encode() []byte {
	v := binary.AppendUvarint(nil, s.bytes)
	v = binary.AppendUvarint(v, s.rows)
	return binary.AppendUvarint(v, s.oldest)
}

func parseBoundedState(v []byte) (s boundedState, err error) {
	if v == nil {
		return s, nil
	}
	r := bytes.NewReader(v)
	for _, field := range [...]*uint64{&s.bytes, &s.rows, &s.oldest} {
		if *field, err = binary.ReadUvarint(r); err != nil {
			return s, fmt.Errorf("%w: %x", ErrCorrupt, v)
		}
	}
	return s, nil
}

// lastOfEach drops entries that a later one of the same key replaces.
func lastOfEach(entries []Entry) []Entry {
	if len(entries) < 2 {
		return entries
	}
	seen := make(map[string]struct{}, len(entries))
	kept := make([]Entry, 0, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		key := string(encodeKey(1, entries[i].P, entries[i].K))
		if _, ok := seen[key]; ok {
			continue
		}
		seen[key] = struct{}{}
		kept = append(kept, entries[i])
	}
	slices.Reverse(kept)
	return kept
}

// Verify compares the account with every row, for tests and inspection. It reads
// the whole family from one view. A disagreement is ErrCorrupt.
func (b *Bounded) Verify(ctx context.Context) error {
	view, err := b.store.View(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = view.Close() }()
	values, err := view.Get(ctx, FamilyMeta, []PK{b.account})
	if err != nil {
		return err
	}
	want, err := parseBoundedState(values[0])
	if err != nil {
		return err
	}
	cursor, err := ReadCursor(ctx, view, b.cursor)
	if err != nil {
		return err
	}
	got := boundedState{oldest: want.oldest}
	for record, err := range Rows(ctx, view, b.family) {
		if err != nil {
			return err
		}
		number, v, err := b.split(record.V)
		if err != nil {
			return err
		}
		e := Entry{PK: record.PK, V: v}
		order, err := view.Get(ctx, FamilyOrder, []PK{b.orderKey(number)})
		if err != nil {
			return err
		}
		if !bytes.Equal(order[0], e.orderValue()) {
			return fmt.Errorf("%w: family %s: row %x/%x has number %d, whose order row is %x", ErrCorrupt, b.family, e.P, e.K, number, order[0])
		}
		if number < want.oldest || number >= cursor.Next {
			return fmt.Errorf("%w: family %s: row number %d is outside %d to %d", ErrCorrupt, b.family, number, want.oldest, cursor.Next)
		}
		got.rows++
		got.bytes += e.size()
	}
	if got != want {
		return fmt.Errorf("%w: family %s has %d bytes in %d rows, its account says %d in %d", ErrCorrupt, b.family, got.bytes, got.rows, want.bytes, want.rows)
	}
	orders := uint64(0)
	for record, err := range Rows(ctx, view, FamilyOrder) {
		if err != nil {
			return err
		}
		if bytes.Equal(record.P, b.order) {
			orders++
		}
	}
	if orders != want.rows {
		return fmt.Errorf("%w: family %s has %d rows and %d in order", ErrCorrupt, b.family, want.rows, orders)
	}
	return nil
}
