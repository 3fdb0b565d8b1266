package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// begin checks the arguments that all reads have and keeps the store open until
// the function it returns is called.
func (s *Pebble) begin(ctx context.Context, family Family) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := family.check(); err != nil {
		return nil, err
	}
	s.open.RLock()
	if s.closed {
		s.open.RUnlock()
		return nil, ErrClosed
	}
	return s.open.RUnlock, nil
}

// Get implements Reader.
func (s *Pebble) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	if len(keys) == 1 {
		v, err := s.get(encodeKey(family, keys[0].P, keys[0].K))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", family, err)
		}
		return [][]byte{v}, nil
	}
	// One iterator sees one state, which a Get for each key would not.
	return s.getAll(ctx, s, family, keys)
}

// Scan implements Reader.
func (s *Pebble) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.scan(ctx, s, family, p, lo, hi, dir, limit)
}

// Floor implements Reader.
func (s *Pebble) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.floor(ctx, s, family, p, ranges)
}

// Walk implements Reader.
func (s *Pebble) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.walk(ctx, s, family, after, limit)
}

// iterators are the store or a view of it. Bounds are not kept.
type iterators interface {
	iterate(lower, upper []byte) (*pebble.Iterator, error)
	// done takes an iterator back.
	done(it *pebble.Iterator) error
}

func (s *Pebble) iterate(lower, upper []byte) (*pebble.Iterator, error) {
	return s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

func (s *Pebble) done(it *pebble.Iterator) error { return it.Close() }

// pebbleView is an iterator that stays where it is, and another one, which reads. Of
// the library's own snapshots each takes and gives back the lock under which it plans
// compactions, and has it do so; pages need a view each.
type pebbleView struct {
	store *Pebble

	// mu is held for reading by every call under way. It is taken after the
	// store's open.
	mu sync.RWMutex
	// state is what others are made of. It is never positioned, so that any number of
	// calls may do so at a time. Guarded by mu, nil once closed.
	state *pebble.Iterator
	// idle is one that no call uses at the moment, if there is any.
	idle atomic.Pointer[pebble.Iterator]
}

func (v *pebbleView) begin(ctx context.Context, family Family) (leave func(), err error) {
	leaveStore, err := v.store.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	v.mu.RLock()
	if v.state == nil {
		v.mu.RUnlock()
		leaveStore()
		return nil, ErrClosed
	}
	return func() {
		v.mu.RUnlock()
		leaveStore()
	}, nil
}

func (v *pebbleView) iterate(lower, upper []byte) (*pebble.Iterator, error) {
	if it := v.idle.Swap(nil); it != nil {
		it.SetBounds(lower, upper)
		return it, nil
	}
	return v.state.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: lower, UpperBound: upper}})
}

func (v *pebbleView) done(it *pebble.Iterator) error {
	if it.Error() == nil && v.idle.CompareAndSwap(nil, it) {
		return nil
	}
	return it.Close()
}

func (v *pebbleView) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.getAll(ctx, v, family, keys)
}

func (v *pebbleView) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.scan(ctx, v, family, p, lo, hi, dir, limit)
}

func (v *pebbleView) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.floor(ctx, v, family, p, ranges)
}

func (v *pebbleView) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.walk(ctx, v, family, after, limit)
}

// Close implements View.
func (v *pebbleView) Close() error {
	v.store.open.RLock()
	defer v.store.open.RUnlock()
	v.store.viewsMu.Lock()
	delete(v.store.views, v)
	v.store.viewsMu.Unlock()
	return v.release()
}

func (v *pebbleView) release() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == nil {
		return nil
	}
	err := v.state.Close()
	v.state = nil
	if it := v.idle.Swap(nil); it != nil {
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		return fmt.Errorf("closing a view: %w", err)
	}
	return nil
}

// get returns a copy of a value as it is now, nil if the key is not there.
func (s *Pebble) get(key []byte) ([]byte, error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	v = present(v)
	if err := closer.Close(); err != nil {
		return nil, s.wrap(err)
	}
	return v, nil
}

// scratch is what a read uses and gives back.
type scratch struct {
	copies
	first, last, key []byte
}

func (s *Pebble) borrow() *scratch {
	if kept, ok := s.scratches.Get().(*scratch); ok {
		return kept
	}
	return new(scratch)
}

// giveBack keeps memory for another read, unless it became much.
func (s *Pebble) giveBack(one *scratch) {
	one.drop()
	if cap(one.rows) <= 4096 && cap(one.bytes) <= 2*maxShared {
		s.scratches.Put(one)
	}
}

func (s *Pebble) getAll(ctx context.Context, from iterators, family Family, keys []PK) (values [][]byte, err error) {
	use := s.borrow()
	defer s.giveBack(use)
	it, err := from.iterate([]byte{byte(family)}, []byte{byte(family) + 1})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", family, s.wrap(err))
	}
	defer s.end(from, it, family, &err)
	values = make([][]byte, len(keys))
	for i, pk := range keys {
		use.key = append(appendPrefix(use.key[:0], family, pk.P), pk.K...)
		if it.SeekPrefixGE(use.key) && bytes.Equal(it.Key(), use.key) {
			v, err := s.value(it)
			if err != nil {
				return nil, err
			}
			values[i] = present(v) // by itself: some are kept for long
		} else if it.Error() != nil {
			return nil, fmt.Errorf("reading %s: %w", family, s.wrap(it.Error()))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (s *Pebble) scan(ctx context.Context, from iterators, family Family, p, lo, hi []byte, dir Direction, limit int) (rows []Row, err error) {
	if limit <= 0 || empty(lo, hi) {
		return nil, nil
	}
	use := s.borrow()
	defer s.giveBack(use)
	use.first = append(appendPrefix(use.first[:0], family, p), lo...)
	use.last = appendPrefix(use.last[:0], family, p)
	if hi == nil {
		use.last = endOf(use.last)
	} else {
		use.last = append(use.last, hi...)
	}
	prefix := use.first[:len(use.first)-len(lo)]
	it, err := from.iterate(use.first, use.last)
	if err != nil {
		return nil, fmt.Errorf("scanning %s: %w", family, s.wrap(err))
	}
	defer s.end(from, it, family, &err)
	// Unlike First, SeekPrefixGE asks the bloom filters whether the partition exists.
	begin, step := func() bool { return it.SeekPrefixGE(use.first) }, it.Next
	if dir == Descending {
		begin, step = it.Last, it.Prev
	}
	for valid := begin(); valid; valid = step() {
		v, err := s.value(it)
		if err != nil {
			return nil, fmt.Errorf("scanning %s: %w", family, err)
		}
		use.add(it.Key()[len(prefix):], v)
		if len(use.rows) == limit {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("scanning %s: %w", family, s.wrap(err))
	}
	return use.take(), nil
}

func (s *Pebble) floor(ctx context.Context, from iterators, family Family, p []byte, ranges []Range) (rows []Row, err error) {
	use := s.borrow()
	defer s.giveBack(use)
	use.first = appendPrefix(use.first[:0], family, p)
	use.last = endOf(append(use.last[:0], use.first...))
	prefix, past := use.first, use.last
	it, err := from.iterate(prefix, past)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", family, s.wrap(err))
	}
	defer s.end(from, it, family, &err)
	for _, r := range ranges {
		if r.Hi == nil {
			use.key = append(use.key[:0], past...)
		} else {
			use.key = append(append(append(use.key[:0], prefix...), r.Hi...), 0) // After(r.Hi)
		}
		found := false
		if it.SeekLT(use.key) {
			if k := it.Key()[len(prefix):]; bytes.Compare(k, r.Lo) >= 0 {
				v, err := s.value(it)
				if err != nil {
					return nil, err
				}
				use.add(k, v)
				found = true
			}
		} else if it.Error() != nil {
			return nil, fmt.Errorf("reading %s: %w", family, s.wrap(it.Error()))
		}
		if !found {
			use.miss()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if len(ranges) == 0 {
		return []Row{}, nil
	}
	return use.take(), nil
}

func (s *Pebble) walk(ctx context.Context, from iterators, family Family, after *PK, limit int) (records []Entry, err error) {
	if limit <= 0 {
		return nil, nil
	}
	first := []byte{byte(family)}
	if after != nil {
		first = append(encodeKey(family, after.P, after.K), 0)
	}
	it, err := from.iterate(first, []byte{byte(family) + 1})
	if err != nil {
		return nil, fmt.Errorf("walking %s: %w", family, s.wrap(err))
	}
	defer s.end(from, it, family, &err)
	for valid := it.First(); valid; valid = it.Next() {
		pk, ok := decodeKey(it.Key())
		if !ok {
			return nil, fmt.Errorf("walking %s: %w: key %x", family, ErrCorrupt, it.Key())
		}
		v, err := s.value(it)
		if err != nil {
			return nil, err
		}
		records = append(records, Entry{PK: pk, V: present(v)})
		if len(records) == limit {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("walking %s: %w", family, s.wrap(err))
	}
	return records, nil
}

// value is the value the iterator stands at, to be copied before it moves.
func (s *Pebble) value(it *pebble.Iterator) ([]byte, error) {
	v, err := it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("reading a value: %w", s.wrap(err))
	}
	return v, nil
}

// end gives an iterator back and reports what stopped it, if anything did.
func (s *Pebble) end(from iterators, it *pebble.Iterator, family Family, err *error) {
	if e := from.done(it); e != nil && *err == nil {
		*err = fmt.Errorf("reading %s: %w", family, s.wrap(e))
	}
}
