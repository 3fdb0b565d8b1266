package ledger

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"slices"

	"quorate/internal/store"
)

// list is a partition whose rows are merged with those of other partitions.
type list struct {
	family store.Family
	p      []byte
	// tag belongs to the caller.
	tag int

	rows  []store.Row // read but not used
	more  bool        // the store may have more rows
	chunk int         // number of rows of the next read
}

// merge iterates over several lists in key order, from a position on. Rows with equal keys follow one another.
type merge struct {
	r      store.Reader
	lo, hi []byte
	dir    store.Direction
	most   int     // maximum rows of a list
	lists  []*list // heap of the lists with rows
	// used reports that the first row was returned. Its successor is read on demand.
	used bool
}

// maxRows limits the rows that a merge holds.
const maxRows = 20_000

// newMerge starts a merge of the rows lo <= k < hi; want is the approximate number of rows needed.
func newMerge(ctx context.Context, r store.Reader, lists []*list, lo, hi []byte, dir store.Direction, want int) (*merge, error) {
	m := mergeOf(lists, lo, hi, dir, want)
	m.r, m.lists = r, nil
	for l := range slices.Chunk(lists, firstRows) {
		found, err := store.Scans(ctx, r, m.queries(l)...)
		if err != nil {
			return nil, fmt.Errorf("reading lists: %w", err)
		}
		m.found(l, found)
	}
	heap.Init(m)
	return m, nil
}

// mergeOf returns a merge of unread lists; the caller runs its queries.
func mergeOf(lists []*list, lo, hi []byte, dir store.Direction, want int) *merge {
	m := &merge{lo: lo, hi: hi, dir: dir, lists: lists, most: max(2, maxRows/max(1, len(lists)))}
	chunk := max(1, want)
	if len(lists) > 4 {
		chunk = min(chunk, max(8, 4*want/len(lists)))
	}
	for _, l := range lists {
		l.chunk = min(chunk, m.most)
	}
	return m
}

// queries returns the queries for the first rows of lists.
func (m *merge) queries(lists []*list) []store.Query {
	queries := make([]store.Query, len(lists))
	for i, l := range lists {
		queries[i] = store.Query{Family: l.family, P: l.p, Lo: m.lo, Hi: m.hi, Dir: m.dir, Limit: l.chunk}
	}
	return queries
}

// begin takes the results of the queries for all lists, and reads further rows from r.
func (m *merge) begin(r store.Reader, found [][]store.Row) {
	lists := m.lists
	m.r, m.lists = r, nil
	m.found(lists, found)
	heap.Init(m)
}

// found adds the first rows of lists.
func (m *merge) found(lists []*list, found [][]store.Row) {
	for i, l := range lists {
		if m.has(l, found[i]); len(found[i]) > 0 {
			m.lists = append(m.lists, l)
		}
	}
}

// read reads the rows of a list after a key.
func (m *merge) read(ctx context.Context, l *list, after []byte) error {
	lo, hi := m.lo, m.hi
	if m.dir == store.Ascending {
		lo = store.After(after)
	} else {
		hi = after
	}
	rows, err := m.r.Scan(ctx, l.family, l.p, lo, hi, m.dir, l.chunk)
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.family, err)
	}
	m.has(l, rows)
	return nil
}

// has stores the rows that were read for a list.
func (m *merge) has(l *list, rows []store.Row) {
	l.rows, l.more = rows, len(rows) == l.chunk
	// Long reads mostly skip rows, so chunks grow.
	l.chunk = min(2*l.chunk, m.most, scanRows)
}

// next returns a row and its list. It returns false after the last row.
func (m *merge) next(ctx context.Context) (one store.Row, from *list, ok bool, err error) {
	if m.used {
		l := m.lists[0]
		last := l.rows[0].K
		if l.rows = l.rows[1:]; len(l.rows) == 0 && l.more {
			if err := m.read(ctx, l, last); err != nil {
				return store.Row{}, nil, false, err
			}
		}
		if m.used = false; len(l.rows) == 0 {
			heap.Pop(m)
		} else {
			heap.Fix(m, 0)
		}
	}
	if len(m.lists) == 0 {
		return store.Row{}, nil, false, nil
	}
	m.used = true
	return m.lists[0].rows[0], m.lists[0], true, nil
}

// Len implements heap.Interface.
func (m *merge) Len() int { return len(m.lists) }

// Less implements heap.Interface.
func (m *merge) Less(i, j int) bool {
	c := bytes.Compare(m.lists[i].rows[0].K, m.lists[j].rows[0].K)
	if m.dir == store.Ascending {
		return c < 0
	}
	return c > 0
}

// Swap implements heap.Interface.
func (m *merge) Swap(i, j int) { m.lists[i], m.lists[j] = m.lists[j], m.lists[i] }

// Push implements heap.Interface.
func (m *merge) Push(x any) { m.lists = append(m.lists, x.(*list)) }

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := m.lists[len(m.lists)-1]
	m.lists = m.lists[:len(m.lists)-1]
	return last
}
