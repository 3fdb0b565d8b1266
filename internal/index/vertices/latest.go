package vertices

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/xchain"
	"quorate/internal/index/container"
)

// Vertex returns the vertex with an ID, or nil without an error if there is none. Errors are ErrIncomplete or the store's.
func (r *Index) Vertex(ctx context.Context, id ids.ID) (*Vertex, error) {
	if _, err := r.counts(ctx); err != nil {
		return nil, err
	}
	c, err := r.chain().ByID(ctx, r.o.Store, id)
	if errors.Is(err, container.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading vertex %s: %w", id, err)
	}
	parsed, err := xchain.ParseVertex(c.Bytes)
	if err != nil {
		return nil, fmt.Errorf("vertex %s: %w", id, err)
	}
	v := listed(c.Height, parsed)
	return &v, nil
}

// Latest returns at most limit vertices, at least 1, with an index below a bound (nil: all), the highest index first. more
// reports that there are further ones. Errors are ErrIncomplete or the store's.
func (r *Index) Latest(ctx context.Context, limit int, below *uint64) (page []Vertex, more bool, err error) {
	all, err := r.counts(ctx)
	if err != nil {
		return nil, false, err
	}
	end := all.vertices
	if below != nil {
		end = min(end, *below)
	}
	from := end - min(end, uint64(limit))
	found := make(map[uint64]*xchain.Vertex)
	for number := from; number < end; number++ {
		if found[number] == nil {
			if err := r.readVertices(ctx, number, int(end-number), found); err != nil {
				return nil, false, err
			}
		}
		page = append(page, listed(number, found[number]))
	}
	slices.Reverse(page)
	return page, from > 0, nil
}

func listed(number uint64, v *xchain.Vertex) Vertex {
	return Vertex{ID: v.ID, ParentIDs: v.ParentIDs, Height: v.Height, Index: number, TxIDs: v.TxIDs, Size: v.Size}
}
