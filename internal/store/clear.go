package store

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// clearRows is the number of rows of one read, and of one batch of an engine that cannot delete a family at once.
const clearRows = 10_000

// Clear deletes all rows of a family: at once if the engine can, otherwise batch by batch. An error may then leave some
// rows. Nothing may write to the family meanwhile, except a process that moves the cursor called guard: each batch
// requires that the cursor is at a position, otherwise Clear returns ErrFenced. An empty guard stands for none.
func Clear(ctx context.Context, s Store, family Family, guard string, at Cursor) error {
	if err := family.check(); err != nil {
		return err
	}
	if r, ok := s.(*redirected); ok {
		to := r.current()
		if guard != "" {
			guard = to.Stored(FamilyCursor, guard)
		}
		return Clear(ctx, r.Store, to.Family(family), guard, at)
	}
	whole, _ := s.(clearer)
	limit := clearRows
	if whole != nil {
		limit = 1
	}
	// Continue after the last deleted rows: a server steps over deleted rows one by one.
	for after := (*PK)(nil); ; {
		rows, err := s.Walk(ctx, family, after, limit)
		if err != nil {
			return fmt.Errorf("clearing family %s: %w", family, err)
		}
		if len(rows) == 0 {
			return nil
		}
		var b Batch
		if guard != "" {
			b.Move(guard, at, at)
		}
		if whole == nil {
			for _, row := range rows {
				b.Delete(family, row.PK)
			}
		}
		if err := s.Commit(ctx, &b); err != nil {
			return fmt.Errorf("clearing family %s: %w", family, err)
		}
		if whole != nil {
			return whole.clear(ctx, family)
		}
		after = &rows[len(rows)-1].PK
	}
}

// clearer is an engine that deletes a family at once.
type clearer interface {
	clear(ctx context.Context, family Family) error
}

// clear deletes a family without looking at its rows.
func (s *Pebble) clear(ctx context.Context, family Family) error {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.db.DeleteRange([]byte{byte(family)}, []byte{byte(family) + 1}, pebble.Sync); err != nil {
		return fmt.Errorf("clearing family %s: %w", family, s.wrap(err))
	}
	return nil
}
