package store

import "context"

// Query is what a Scan is asked for.
type Query struct {
	Family    Family
	P, Lo, Hi []byte
	Dir       Direction
	Limit     int
}

// Scans returns what Scan does for each query, in their order: from an engine that is
// elsewhere in one exchange, if r is its view. Queries are best a few, as their rows are
// in memory together.
func Scans(ctx context.Context, r Reader, queries ...Query) ([][]Row, error) {
	if s, ok := r.(scanner); ok {
		return s.scans(ctx, queries)
	}
	found := make([][]Row, len(queries))
	for i, q := range queries {
		var err error
		if found[i], err = r.Scan(ctx, q.Family, q.P, q.Lo, q.Hi, q.Dir, q.Limit); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Elsewhere tells whether r is a view of an engine that is elsewhere, so that it may be
// better to ask it in one exchange for what may not be needed than to ask twice.
func Elsewhere(r Reader) bool {
	_, ok := r.(scanner)
	return ok
}

// scanner is a view that does Scans in one exchange.
type scanner interface {
	scans(ctx context.Context, queries []Query) ([][]Row, error)
}

// Viewer is what opens views.
type Viewer interface {
	View(ctx context.Context) (View, error)
}

// ViewScans opens a view and returns what Scans does in it: from an engine that is
// elsewhere in one exchange.
func ViewScans(ctx context.Context, from Viewer, queries ...Query) (View, [][]Row, error) {
	if s, ok := from.(interface {
		viewScans(ctx context.Context, queries []Query) (View, [][]Row, error)
	}); ok {
		return s.viewScans(ctx, queries)
	}
	v, err := from.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := Scans(ctx, v, queries...)
	if err != nil {
		_ = v.Close()
		return nil, nil, err
	}
	return v, found, nil
}
