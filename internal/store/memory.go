package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/btree"
)

// Memory is a Store in memory, for tests. NoSync has no effect.
type Memory struct {
	// writing is held by the Commit that creates the next tree.
	writing sync.Mutex
	// tree is immutable once it is stored here, so readers and views need no lock. It is
	// nil after Close.
	tree atomic.Pointer[memoryTree]

	commits, rows, replaced atomic.Uint64
}

var _ Store = (*Memory)(nil)

type memoryTree = btree.BTreeG[memoryRow]

type memoryRow struct {
	pk     PK
	v      []byte
	family Family
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	m := &Memory{}
	tree := btree.NewG(32, func(a, b memoryRow) bool {
		if a.family != b.family {
			return a.family < b.family
		}
		return a.pk.compare(b.pk) < 0
	})
	tree.ReplaceOrInsert(memoryRow{family: FamilyMeta, pk: formatKey, v: fmt.Append(nil, Format)})
	m.tree.Store(tree)
	return m
}

// Commit implements Store.
func (m *Memory) Commit(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	tree := m.tree.Load()
	if tree == nil {
		return ErrClosed
	}
	if len(b.ops) == 0 && len(b.moves) == 0 {
		return nil
	}
	next := tree.Clone()
	replaced := uint64(0)
	for i := range b.ops {
		op := &b.ops[i]
		if op.delete {
			next.Delete(memoryRow{family: op.family, pk: op.pk})
		} else {
			_, there := next.ReplaceOrInsert(memoryRow{family: op.family, pk: op.pk.clone(), v: present(op.v)})
			if there && op.fresh {
				replaced++
			}
		}
	}
	read := func(pk PK) ([]byte, error) {
		row, _ := tree.Get(memoryRow{family: FamilyCursor, pk: pk})
		return row.v, nil
	}
	for cursor, err := range b.cursorWrites(read) {
		if err != nil {
			return err
		}
		next.ReplaceOrInsert(memoryRow{family: FamilyCursor, pk: cursor.PK, v: cursor.V})
	}
	m.tree.Store(next)
	m.commits.Add(1)
	m.rows.Add(uint64(len(b.ops)))
	m.replaced.Add(replaced)
	return nil
}

// now returns a reader of the latest tree.
func (m *Memory) now() *memoryView { return &memoryView{tree: &m.tree, store: m} }

// Get implements Reader.
func (m *Memory) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	return m.now().Get(ctx, family, keys)
}

// Scan implements Reader.
func (m *Memory) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	return m.now().Scan(ctx, family, p, lo, hi, dir, limit)
}

// Floor implements Reader.
func (m *Memory) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	return m.now().Floor(ctx, family, p, ranges)
}

// Walk implements Reader.
func (m *Memory) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	return m.now().Walk(ctx, family, after, limit)
}

// View implements Store. It takes no lock.
func (m *Memory) View(ctx context.Context) (View, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tree := m.tree.Load()
	if tree == nil {
		return nil, ErrClosed
	}
	v := &memoryView{tree: new(atomic.Pointer[memoryTree]), store: m}
	v.tree.Store(tree)
	return v, nil
}

// Stats implements Store.
func (m *Memory) Stats() Stats {
	return Stats{Engine: "memory", Commits: m.commits.Load(), Rows: m.rows.Load(), Replaced: m.replaced.Load()}
}

// Close implements Store.
func (m *Memory) Close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.tree.Swap(nil) == nil {
		return ErrClosed
	}
	return nil
}

// memoryView reads the tree that its pointer has when a call begins. The pointer is the store's, or one of the view's own
// that commits do not change.
type memoryView struct {
	tree  *atomic.Pointer[memoryTree]
	store *Memory
}

// Close implements View.
func (v *memoryView) Close() error {
	v.tree.Store(nil)
	return nil
}

func (v *memoryView) begin(ctx context.Context, family Family) (*memoryTree, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := family.check(); err != nil {
		return nil, err
	}
	tree := v.tree.Load()
	if tree == nil || v.store.tree.Load() == nil {
		return nil, ErrClosed
	}
	return tree, nil
}

func (v *memoryView) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	tree, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i, pk := range keys {
		if row, ok := tree.Get(memoryRow{family: family, pk: pk}); ok {
			values[i] = present(row.v)
		}
	}
	return values, nil
}

func (v *memoryView) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	tree, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || empty(lo, hi) {
		return nil, nil
	}
	var rows []Row
	add := func(row memoryRow) bool {
		if row.family != family || !bytes.Equal(row.pk.P, p) {
			return false
		}
		rows = append(rows, copied(row.pk.K, row.v))
		return len(rows) < limit
	}
	first := memoryRow{family: family, pk: PK{P: p, K: lo}}
	switch {
	case dir == Ascending && hi == nil:
		tree.AscendGreaterOrEqual(first, add)
	case dir == Ascending:
		tree.AscendRange(first, memoryRow{family: family, pk: PK{P: p, K: hi}}, add)
	default:
		end := memoryRow{family: family, pk: PK{P: p, K: hi}}
		if hi == nil {
			end.pk = PK{P: After(p)}
		}
		tree.DescendLessOrEqual(end, func(row memoryRow) bool {
			if row.pk.compare(end.pk) == 0 {
				return true
			}
			if row.pk.compare(first.pk) < 0 {
				return false
			}
			return add(row)
		})
	}
	return rows, nil
}

func (v *memoryView) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	tree, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(ranges))
	for i, r := range ranges {
		from := PK{P: p, K: r.Hi}
		if r.Hi == nil {
			from = PK{P: After(p)}
		}
		tree.DescendLessOrEqual(memoryRow{family: family, pk: from}, func(row memoryRow) bool {
			if row.family != family {
				return false
			}
			if bytes.Compare(row.pk.P, p) > 0 {
				return true
			}
			if bytes.Equal(row.pk.P, p) && bytes.Compare(row.pk.K, r.Lo) >= 0 {
				rows[i] = copied(row.pk.K, row.v)
			}
			return false
		})
	}
	return rows, nil
}

func (v *memoryView) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	tree, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, nil
	}
	first := memoryRow{family: family}
	if after != nil {
		first.pk = PK{P: after.P, K: After(after.K)}
	}
	var records []Entry
	tree.AscendGreaterOrEqual(first, func(row memoryRow) bool {
		if row.family != family {
			return false
		}
		records = append(records, Entry{PK: row.pk.clone(), V: present(row.v)})
		return len(records) < limit
	})
	return records, nil
}
