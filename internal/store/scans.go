package store

import "context"

// Query has the arguments of a Scan.
type Query struct {
	Family    Family
	P, Lo, Hi []byte
	Dir       Direction
	Limit     int
}

// Scans returns the result of Scan for each query, in order. A view of a remote store takes
// one exchange for all of them. Their rows are in memory together: pass few queries.
func Scans(ctx context.Context, r Reader, queries ...Query) ([][]Row, error) {
	if s, ok := r.(batchScanner); ok {
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

// IsRemote reports whether r is a view of a remote store: one exchange that reads too much
// is faster than two.
func IsRemote(r Reader) bool {
	_, ok := r.(batchScanner)
	return ok
}

// batchScanner is a view that does Scans in one exchange.
type batchScanner interface {
	scans(ctx context.Context, queries []Query) ([][]Row, error)
}

// Viewer opens views.
type Viewer interface {
	View(ctx context.Context) (View, error)
}

// ViewScans opens a view and returns the result of Scans in it. A remote store takes one
// exchange for both.
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
