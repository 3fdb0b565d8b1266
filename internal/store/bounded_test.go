package store_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// stalling is a store whose commits wait until their context ends, once it stalls.
type stalling struct {
	store.Store
	stalls bool
}

func (s *stalling) Commit(ctx context.Context, b *store.Batch) error {
	if s.stalls {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Commit(ctx, b)
}

// TestBoundedSizeDoesNotWait reads the size, which metrics do, while a commit hangs.
func TestBoundedSizeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalling{Store: store.NewMemory()}
		b, err := store.NewBounded(t.Context(), s, store.FamilyMessage, 1<<20)
		require.NoError(t, err)
		put := func(ctx context.Context, key string) error {
			return b.Put(ctx, store.Entry{PK: store.PK{P: []byte(key)}, V: []byte("value")})
		}
		require.NoError(t, put(t.Context(), "a"))
		bytes, rows := b.Size()
		require.NotZero(t, bytes)
		require.Equal(t, uint64(1), rows)
		s.stalls = true
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- put(ctx, "b") }()
		synctest.Wait()
		now, rows := b.Size()
		require.Equal(t, bytes, now)
		require.Equal(t, uint64(1), rows)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
