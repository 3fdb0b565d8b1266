package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"quorate/handlers/query/page"
	"quorate/internal/store"
)

// pageKey returns the key that seals page tokens from the data directory, and creates it if there is none.
func pageKey(dataDir string) ([]byte, error) {
	const size = 32
	path := filepath.Join(dataDir, "page.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == size {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the key of page tokens: %w", err)
	}
	key = make([]byte, size)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("storing the key of page tokens: %w", err)
	}
	return key, nil
}

// sharedPageKey returns the key that seals page tokens for all processes that share a store, and creates it if there
// is none.
func sharedPageKey(ctx context.Context, s store.Store) ([]byte, error) {
	const size = 32
	row := store.PK{P: []byte(page.KeyRow)}
	for {
		values, err := s.Get(ctx, store.FamilyMeta, []store.PK{row})
		if err != nil {
			return nil, fmt.Errorf("reading the key of page tokens: %w", err)
		}
		if len(values[0]) == size {
			return values[0], nil
		}
		if values[0] != nil {
			return nil, fmt.Errorf("reading the key of page tokens: %w: it has %d bytes", store.ErrCorrupt, len(values[0]))
		}
		key := make([]byte, size)
		_, _ = rand.Read(key) // never fails
		var batch store.Batch
		batch.Put(store.FamilyMeta, row, key)
		batch.Move(page.KeyRow, store.Cursor{}, store.Cursor{Epoch: 1})
		if err := s.Commit(ctx, &batch); err != nil && !errors.Is(err, store.ErrFenced) {
			return nil, fmt.Errorf("storing the key of page tokens: %w", err)
		}
	}
}
