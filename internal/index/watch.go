package index

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/internal/store"
)

// Watch reports in Status the progress of another process that indexes the chain in the same store, and what that
// process publishes about it. It writes nothing. It returns nil when ctx ends. It reads the tip from tips, because the pipeline's own source may write to the store.
// Run and Watch exclude each other.
func (p *Pipeline[B]) Watch(ctx context.Context, tips Source[B]) error {
	return p.alone(ctx, func(ctx context.Context) error {
		r := &running[B]{Pipeline: p, source: tips, reached: newReached()}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return p.watch(ctx) })
		group.Go(func() error { return r.poll(ctx) })
		return group.Wait()
	})
}

// watch follows the cursors in the store.
func (p *Pipeline[B]) watch(ctx context.Context) error {
	ticker := time.NewTicker(p.options.Poll)
	defer ticker.Stop()
	defer p.reported.Store(nil)
	if err := p.readCaughtUp(ctx); err != nil {
		return err
	}
	var read time.Time // when the report was read
	for last, known := uint64(0), false; ; {
		var now stand
		if err := p.retry(ctx, "reading how far the chain is indexed", func() (err error) {
			if time.Since(read) >= publishEvery {
				said, err := readReport(ctx, p.options.Store, p.options.NetworkID, p.options.Chain)
				if err != nil {
					return err
				}
				p.reported.Store(said)
				read = time.Now()
			}
			now, err = p.stand(ctx)
			return err
		}); err != nil {
			return err
		}
		switch {
		case !known || now.next < last: // or rebuilt
			p.status.position(now.from, now.next, now.kept, now.lanes)
		case now.next > last:
			p.status.committed(now.next, now.lanes)
			p.options.Committed(now.next)
		}
		last, known = now.next, true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// stand holds the positions of the projections in the store.
type stand struct {
	from, next, kept uint64
	lanes            map[string]reach
}

func (p *Pipeline[B]) stand(ctx context.Context) (stand, error) {
	o := &p.options
	var projections []string
	for _, t := range o.Projections {
		projections = append(projections, t.Name())
	}
	if o.Keep {
		projections = append(projections, Containers)
	}
	keys := make([]store.PK, len(projections))
	for i, t := range projections {
		keys[i].P = []byte(Cursor(o.NetworkID, o.Chain, t))
	}
	cursors, err := o.Store.Get(ctx, store.FamilyCursor, keys)
	if err != nil {
		return stand{}, fmt.Errorf("reading cursors: %w", err)
	}
	marks, err := o.Store.Get(ctx, store.FamilyIndexed, keys)
	if err != nil {
		return stand{}, fmt.Errorf("reading where indexes begin: %w", err)
	}
	now := stand{lanes: make(map[string]reach, len(projections))}
	for i, t := range projections {
		at := reach{o.Start, o.Start}
		if marks[i] != nil { // otherwise the index has not begun
			c, err := store.ParseCursor(string(keys[i].P), cursors[i])
			if err != nil {
				return stand{}, err
			}
			m, err := parseMark(marks[i])
			if err != nil {
				return stand{}, fmt.Errorf("where %s begins: %w", keys[i].P, err)
			}
			at = reach{m.from, c.Next}
		}
		now.lanes[t] = at
	}
	now.next = math.MaxUint64
	for _, at := range now.lanes {
		now.from, now.next = max(now.from, at.from), min(now.next, at.next)
	}
	if o.Keep {
		now.kept = now.lanes[Containers].next
	}
	return now, nil
}
