package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

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
	return s.getAll(ctx, s.db, family, keys)
}

// Scan implements Reader.
func (s *Pebble) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.scan(ctx, s.db, family, p, lo, hi, dir, limit)
}

// Floor implements Reader.
func (s *Pebble) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.floor(ctx, s.db, family, p, ranges)
}

// Walk implements Reader.
func (s *Pebble) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Record, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.walk(ctx, s.db, family, after, limit)
}

// pebbleView reads a snapshot.
type pebbleView struct {
	store *Pebble

	// mu is held for reading by every call under way. It is taken after the
	// store's open.
	mu       sync.RWMutex
	snapshot *pebble.Snapshot // guarded by mu, nil once closed
}

func (v *pebbleView) begin(ctx context.Context, family Family) (leave func(), err error) {
	leaveStore, err := v.store.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	v.mu.RLock()
	if v.snapshot == nil {
		v.mu.RUnlock()
		leaveStore()
		return nil, ErrClosed
	}
	return func() {
		v.mu.RUnlock()
		leaveStore()
	}, nil
}

func (v *pebbleView) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.getAll(ctx, v.snapshot, family, keys)
}

func (v *pebbleView) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.scan(ctx, v.snapshot, family, p, lo, hi, dir, limit)
}

func (v *pebbleView) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.floor(ctx, v.snapshot, family, p, ranges)
}

func (v *pebbleView) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Record, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.walk(ctx, v.snapshot, family, after, limit)
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
	if v.snapshot == nil {
		return nil
	}
	err := v.snapshot.Close()
	v.snapshot = nil
	if err != nil {
		return fmt.Errorf("closing a view: %w", err)
	}
	return nil
}

// get returns a copy of a value, nil if the key is not there.
func (s *Pebble) get(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
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

func (s *Pebble) getAll(ctx context.Context, r pebble.Reader, family Family, keys []PK) (values [][]byte, err error) {
	values = make([][]byte, len(keys))
	if len(keys) == 1 {
		values[0], err = s.get(r, encodeKey(family, keys[0].P, keys[0].K))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", family, err)
		}
		return values, nil
	}
	// One iterator sees one state, which a Get for each key would not.
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte{byte(family)}, UpperBound: []byte{byte(family) + 1},
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", family, s.wrap(err))
	}
	defer s.end(it, family, &err)
	var key []byte
	for i, pk := range keys {
		key = append(appendPrefix(key[:0], family, pk.P), pk.K...)
		if it.SeekPrefixGE(key) && bytes.Equal(it.Key(), key) {
			v, err := s.value(it)
			if err != nil {
				return nil, err
			}
			values[i] = present(v)
		} else if it.Error() != nil {
			return nil, fmt.Errorf("reading %s: %w", family, s.wrap(it.Error()))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (s *Pebble) scan(ctx context.Context, r pebble.Reader, family Family, p, lo, hi []byte, dir Direction, limit int) (rows []Row, err error) {
	if limit <= 0 || empty(lo, hi) {
		return nil, nil
	}
	first := encodeKey(family, p, lo)
	var last []byte
	if hi == nil {
		last = endOf(encodeKey(family, p, nil))
	} else {
		last = encodeKey(family, p, hi)
	}
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: first, UpperBound: last})
	if err != nil {
		return nil, fmt.Errorf("scanning %s: %w", family, s.wrap(err))
	}
	defer s.end(it, family, &err)
	k := prefixLen(p)
	// Unlike First, SeekPrefixGE asks the bloom filters whether the partition exists.
	begin, step := func() bool { return it.SeekPrefixGE(first) }, it.Next
	if dir == Descending {
		begin, step = it.Last, it.Prev
	}
	for valid := begin(); valid; valid = step() {
		v, err := s.value(it)
		if err != nil {
			return nil, err
		}
		rows = append(rows, copied(it.Key()[k:], v))
		if len(rows) == limit {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (s *Pebble) floor(ctx context.Context, r pebble.Reader, family Family, p []byte, ranges []Range) (rows []Row, err error) {
	prefix := encodeKey(family, p, nil)
	past := endOf(bytes.Clone(prefix))
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: past})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", family, s.wrap(err))
	}
	defer s.end(it, family, &err)
	rows = make([]Row, len(ranges))
	var after []byte
	for i, r := range ranges {
		if r.Hi == nil {
			after = append(after[:0], past...)
		} else {
			after = append(append(append(after[:0], prefix...), r.Hi...), 0) // After(r.Hi)
		}
		if it.SeekLT(after) {
			if k := it.Key()[len(prefix):]; bytes.Compare(k, r.Lo) >= 0 {
				v, err := s.value(it)
				if err != nil {
					return nil, err
				}
				rows[i] = copied(k, v)
			}
		} else if it.Error() != nil {
			return nil, fmt.Errorf("reading %s: %w", family, s.wrap(it.Error()))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (s *Pebble) walk(ctx context.Context, r pebble.Reader, family Family, after *PK, limit int) (records []Record, err error) {
	if limit <= 0 {
		return nil, nil
	}
	first := []byte{byte(family)}
	if after != nil {
		first = append(encodeKey(family, after.P, after.K), 0)
	}
	it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: first, UpperBound: []byte{byte(family) + 1}})
	if err != nil {
		return nil, fmt.Errorf("walking %s: %w", family, s.wrap(err))
	}
	defer s.end(it, family, &err)
	for valid := it.First(); valid; valid = it.Next() {
		pk, ok := decodeKey(it.Key())
		if !ok {
			return nil, fmt.Errorf("walking %s: %w: key %x", family, ErrCorrupt, it.Key())
		}
		v, err := s.value(it)
		if err != nil {
			return nil, err
		}
		records = append(records, Record{PK: pk, V: present(v)})
		if len(records) == limit {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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

// end closes an iterator and reports what stopped it, if anything did.
func (s *Pebble) end(it io.Closer, family Family, err *error) {
	if e := it.Close(); e != nil && *err == nil {
		*err = fmt.Errorf("reading %s: %w", family, s.wrap(e))
	}
}
