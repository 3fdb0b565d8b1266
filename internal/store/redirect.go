package store

import (
	"context"
	"slices"
)

// Redirection maps rows as readers and writers name them to rows as they are stored.
// The methods may be called from any goroutine.
type Redirection interface {
	// Family returns the family that a family is stored as.
	Family(family Family) Family
	// Stored returns the partition under which a row of FamilyMeta, FamilyCursor or
	// FamilyIndexed is stored.
	Stored(family Family, p string) string
	// Named does the reverse. It returns false for a row that is hidden. It must keep the
	// order of partitions.
	Named(family Family, p string) (string, bool)
}

// Redirect returns a store whose rows are stored in s as a Redirection says. It calls current for each operation. A view
// keeps the Redirection with which it was opened. Stats and Close are those of s.
func Redirect(s Store, current func() Redirection) Store { return &redirected{s, current} }

// RedirectViews does the same for views alone.
func RedirectViews(v Viewer, current func() Redirection) Viewer { return redirectedViewer{v, current} }

type redirected struct {
	Store
	current func() Redirection
}

var _ Store = (*redirected)(nil)

func (s *redirected) reader() *redirectedReader { return &redirectedReader{s.Store, s.current()} }

// Get implements Reader.
func (s *redirected) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	return s.reader().Get(ctx, family, keys)
}

// Scan implements Reader.
func (s *redirected) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	return s.reader().Scan(ctx, family, p, lo, hi, dir, limit)
}

// Floor implements Reader.
func (s *redirected) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	return s.reader().Floor(ctx, family, p, ranges)
}

// Walk implements Reader.
func (s *redirected) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	return s.reader().Walk(ctx, family, after, limit)
}

// Commit implements Store.
func (s *redirected) Commit(ctx context.Context, b *Batch) error {
	return s.Store.Commit(ctx, b.redirected(s.current()))
}

// View implements Store.
func (s *redirected) View(ctx context.Context) (View, error) {
	v, _, err := s.viewScans(ctx, nil)
	return v, err
}

func (s *redirected) viewScans(ctx context.Context, queries []Query) (View, [][]Row, error) {
	return redirectedViewer{s.Store, s.current}.viewScans(ctx, queries)
}

type redirectedViewer struct {
	Viewer
	current func() Redirection
}

// View implements Viewer.
func (r redirectedViewer) View(ctx context.Context) (View, error) {
	v, _, err := r.viewScans(ctx, nil)
	return v, err
}

func (r redirectedViewer) viewScans(ctx context.Context, queries []Query) (View, [][]Row, error) {
	to := r.current()
	v, found, err := ViewScans(ctx, r.Viewer, redirectedQueries(to, queries)...)
	if err != nil {
		return nil, nil, err
	}
	own := &redirectedView{redirectedReader{v, to}, v}
	if IsRemote(v) {
		return redirectedScanner{own}, found, nil
	}
	return own, found, nil
}

func redirectedQueries(to Redirection, queries []Query) []Query {
	all := make([]Query, len(queries))
	for i, q := range queries {
		q.P, q.Family = storedPartition(to, q.Family, q.P), to.Family(q.Family)
		all[i] = q
	}
	return all
}

type redirectedView struct {
	redirectedReader
	view View
}

// Close implements View.
func (v *redirectedView) Close() error { return v.view.Close() }

// redirectedScanner is a view of a remote store.
type redirectedScanner struct{ *redirectedView }

func (v redirectedScanner) scans(ctx context.Context, queries []Query) ([][]Row, error) {
	return Scans(ctx, v.view, redirectedQueries(v.to, queries)...)
}

type redirectedReader struct {
	from Reader
	to   Redirection
}

// named reports whether the partitions of a family are names.
func named(family Family) bool {
	return family == FamilyMeta || family == FamilyCursor || family == FamilyIndexed
}

func storedPartition(to Redirection, family Family, p []byte) []byte {
	if !named(family) {
		return p
	}
	return []byte(to.Stored(family, string(p)))
}

// Get implements Reader.
func (r *redirectedReader) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	if named(family) {
		stored := make([]PK, len(keys))
		for i, key := range keys {
			stored[i] = PK{P: storedPartition(r.to, family, key.P), K: key.K}
		}
		keys = stored
	}
	return r.from.Get(ctx, r.to.Family(family), keys)
}

// Scan implements Reader.
func (r *redirectedReader) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	return r.from.Scan(ctx, r.to.Family(family), storedPartition(r.to, family, p), lo, hi, dir, limit)
}

// Floor implements Reader.
func (r *redirectedReader) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	return r.from.Floor(ctx, r.to.Family(family), storedPartition(r.to, family, p), ranges)
}

// Walk implements Reader.
func (r *redirectedReader) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	if !named(family) {
		return r.from.Walk(ctx, r.to.Family(family), after, limit)
	}
	if after != nil {
		after = &PK{P: storedPartition(r.to, family, after.P), K: after.K}
	}
	var found []Entry
	for len(found) < limit {
		rows, err := r.from.Walk(ctx, family, after, limit)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			after = &PK{P: row.P, K: row.K}
			if name, ok := r.to.Named(family, string(row.P)); ok && len(found) < limit {
				row.P = []byte(name)
				found = append(found, row)
			}
		}
		if len(rows) < limit {
			break
		}
	}
	return found, nil
}

// redirected returns the batch as it is stored: b if nothing differs, otherwise a batch that shares its rows.
func (b *Batch) redirected(to Redirection) *Batch {
	same := func(o op) bool {
		return to.Family(o.family) == o.family && (!named(o.family) || to.Stored(o.family, string(o.pk.P)) == string(o.pk.P))
	}
	moved := func(m move) bool { return to.Stored(FamilyCursor, m.name) != m.name }
	if !slices.ContainsFunc(b.moves, moved) && !slices.ContainsFunc(b.ops, func(o op) bool { return !same(o) }) {
		return b
	}
	c := &Batch{NoSync: b.NoSync, ops: make([]op, len(b.ops)), moves: make([]move, len(b.moves)), bytes: b.bytes}
	for i, o := range b.ops {
		o.pk.P, o.family = storedPartition(to, o.family, o.pk.P), to.Family(o.family)
		c.ops[i] = o
	}
	for i, m := range b.moves {
		m.name = to.Stored(FamilyCursor, m.name)
		c.moves[i] = m
	}
	return c
}
