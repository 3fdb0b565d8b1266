package store

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// clearRows is how many rows are deleted in one batch where there is no other way.
const clearRows = 10_000

// Clear deletes all rows of a family: at once where the engine can, else bit by bit,
// in which case an error may leave some of them. Nothing must write to the family
// meanwhile.
func Clear(ctx context.Context, s Store, family Family) error {
	if err := family.check(); err != nil {
		return err
	}
	if whole, ok := s.(clearer); ok {
		return whole.clear(ctx, family)
	}
	return ClearGuarded(ctx, s, family, "", Cursor{})
}

// ClearGuarded does as Clear, bit by bit where the engine cannot do it at once; each bit
// only while the cursor of a name is at a place, if it has a name. Else the error is
// ErrFenced.
func ClearGuarded(ctx context.Context, s Store, family Family, guard string, at Cursor) error {
	// Going on where the last rows were: a server steps over deleted ones one by one.
	for after := (*PK)(nil); ; {
		rows, err := s.Walk(ctx, family, after, clearRows)
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
		if _, ok := s.(clearer); ok {
			if err := s.Commit(ctx, &b); err != nil {
				return fmt.Errorf("clearing family %s: %w", family, err)
			}
			return Clear(ctx, s, family)
		}
		for _, row := range rows {
			b.Delete(family, row.PK)
		}
		if err := s.Commit(ctx, &b); err != nil {
			return fmt.Errorf("clearing family %s: %w", family, err)
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
