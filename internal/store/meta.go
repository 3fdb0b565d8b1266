package store

import (
	"context"
	"encoding/json"
	"fmt"
)

// GetMeta reads the first row of FamilyMeta that exists among rows, which has JSON, into to. It reports whether there is
// one. Errors are ErrCorrupt if it does not fit, or the store's.
func GetMeta(ctx context.Context, r Reader, to any, rows ...PK) (found bool, err error) {
	values, err := r.Get(ctx, FamilyMeta, rows)
	if err != nil {
		return false, err
	}
	for i, value := range values {
		if value == nil {
			continue
		}
		if err := json.Unmarshal(value, to); err != nil {
			return false, fmt.Errorf("%w: row %s: %w", ErrCorrupt, rows[i].P, err)
		}
		return true, nil
	}
	return false, nil
}

// PutMeta writes value as JSON to rows of FamilyMeta.
func PutMeta(ctx context.Context, s Store, value any, rows ...PK) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var b Batch
	for _, row := range rows {
		b.Put(FamilyMeta, row, text)
	}
	return s.Commit(ctx, &b)
}
