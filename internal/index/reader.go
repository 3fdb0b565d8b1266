package index

import (
	"context"

	"quorate/internal/store"
)

// retryReader is a store.Reader that repeats a read until it succeeds or retry gives up. A projection reads from it because a
// block that is partly applied cannot be applied again.
type retryReader struct {
	store.Reader
	// retry calls f at least once and returns its last error.
	retry func(ctx context.Context, f func() error) error
}

// Get implements store.Reader.
func (r retryReader) Get(ctx context.Context, family store.Family, keys []store.PK) (values [][]byte, err error) {
	err = r.retry(ctx, func() (err error) {
		values, err = r.Reader.Get(ctx, family, keys)
		return err
	})
	return values, err
}

// Scan implements store.Reader.
func (r retryReader) Scan(ctx context.Context, family store.Family, p, lo, hi []byte, dir store.Direction, limit int) (rows []store.Row, err error) {
	err = r.retry(ctx, func() (err error) {
		rows, err = r.Reader.Scan(ctx, family, p, lo, hi, dir, limit)
		return err
	})
	return rows, err
}

// Floor implements store.Reader.
func (r retryReader) Floor(ctx context.Context, family store.Family, p []byte, ranges []store.Range) (rows []store.Row, err error) {
	err = r.retry(ctx, func() (err error) {
		rows, err = r.Reader.Floor(ctx, family, p, ranges)
		return err
	})
	return rows, err
}

// Walk implements store.Reader.
func (r retryReader) Walk(ctx context.Context, family store.Family, after *store.PK, limit int) (rows []store.Entry, err error) {
	err = r.retry(ctx, func() (err error) {
		rows, err = r.Reader.Walk(ctx, family, after, limit)
		return err
	})
	return rows, err
}
