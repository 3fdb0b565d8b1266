package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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

// pebbleReader implements Reader for a store and for a view of it.
type pebbleReader struct {
	store *Pebble
	from  pebbleSource
}

// pebbleSource is a store or a view of it. It does not keep bounds.
type pebbleSource interface {
	begin(ctx context.Context, family Family) (leave func(), err error)
	iterate(lower, upper []byte) (*pebble.Iterator, error)
	// done takes an iterator back.
	done(it *pebble.Iterator) error
}

func (s *Pebble) iterate(lower, upper []byte) (*pebble.Iterator, error) {
	return s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

func (s *Pebble) done(it *pebble.Iterator) error { return it.Close() }

// pebbleView is a view. It clones an iterator, because each of Pebble's snapshots takes
// the lock under which Pebble plans compactions, and every page needs a view.
type pebbleView struct {
	pebbleReader

	// mu is held for reading by every call under way. It is taken after the
	// store's open.
	mu sync.RWMutex
	// state is the iterator that calls clone. It is never positioned, so that calls may
	// clone it concurrently. Guarded by mu, nil once closed.
	state *pebble.Iterator
	// idle is a clone that no call uses, or nil.
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

// read calls f with an iterator over lower <= key < upper.
func (r *pebbleReader) read(ctx context.Context, family Family, lower, upper []byte, f func(it *pebble.Iterator) error) error {
	leave, err := r.from.begin(ctx, family)
	if err != nil {
		return err
	}
	defer leave()
	it, err := r.from.iterate(lower, upper)
	if err == nil {
		if err = f(it); err == nil {
			err = it.Error()
		}
		err = errors.Join(err, r.from.done(it))
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", family, r.store.wrap(err))
	}
	return nil
}

// Get implements Reader. One iterator sees one state.
func (r *pebbleReader) Get(ctx context.Context, family Family, keys []PK) (values [][]byte, err error) {
	values = make([][]byte, len(keys))
	var key []byte
	err = r.read(ctx, family, []byte{byte(family)}, []byte{byte(family) + 1}, func(it *pebble.Iterator) error {
		for i, pk := range keys {
			key = append(appendPrefix(key[:0], family, pk.P), pk.K...)
			if it.SeekPrefixGE(key) && bytes.Equal(it.Key(), key) {
				v, err := it.ValueAndErr()
				if err != nil {
					return err
				}
				values[i] = present(v)
			} else if it.Error() != nil {
				return it.Error()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// Scan implements Reader.
func (r *pebbleReader) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) (rows []Row, err error) {
	prefix := appendPrefix(nil, family, p)
	first, last := slices.Concat(prefix, lo), slices.Concat(prefix, hi)
	if hi == nil {
		last = endOf(last)
	}
	if limit <= 0 || empty(lo, hi) {
		first, last, limit = nil, nil, 0
	}
	err = r.read(ctx, family, first, last, func(it *pebble.Iterator) error {
		if limit == 0 {
			return nil
		}
		// Unlike First, SeekPrefixGE asks the bloom filters whether the partition exists.
		begin, step := func() bool { return it.SeekPrefixGE(first) }, it.Next
		if dir == Descending {
			begin, step = it.Last, it.Prev
		}
		for valid := begin(); valid; valid = step() {
			v, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if rows == nil {
				rows = make([]Row, 0, min(limit, 128))
			}
			rows = append(rows, copied(it.Key()[len(prefix):], v))
			if len(rows) == limit {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Floor implements Reader.
func (r *pebbleReader) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	rows := make([]Row, len(ranges))
	prefix := appendPrefix(nil, family, p)
	past := endOf(bytes.Clone(prefix))
	err := r.read(ctx, family, prefix, past, func(it *pebble.Iterator) error {
		for i, one := range ranges {
			below := past
			if one.Hi != nil {
				below = append(slices.Concat(prefix, one.Hi), 0) // After(one.Hi)
			}
			if it.SeekLT(below) {
				if k := it.Key()[len(prefix):]; bytes.Compare(k, one.Lo) >= 0 {
					v, err := it.ValueAndErr()
					if err != nil {
						return err
					}
					rows[i] = copied(k, v)
				}
			} else if it.Error() != nil {
				return it.Error()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Walk implements Reader.
func (r *pebbleReader) Walk(ctx context.Context, family Family, after *PK, limit int) (entries []Entry, err error) {
	first := []byte{byte(family)}
	if after != nil {
		first = append(encodeKey(family, after.P, after.K), 0)
	}
	err = r.read(ctx, family, first, []byte{byte(family) + 1}, func(it *pebble.Iterator) error {
		for valid := limit > 0 && it.First(); valid; valid = it.Next() {
			pk, ok := decodeKey(it.Key())
			if !ok {
				return fmt.Errorf("%w: key %x", ErrCorrupt, it.Key())
			}
			v, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if entries = append(entries, Entry{PK: pk, V: present(v)}); len(entries) == limit {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}
