package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"quorate/internal/store"
)

// KeyStore stores API keys in a store that several processes may share. It is safe for concurrent use, also by several
// processes.
//
// Each API key is a row. Each change moves a cursor: if two processes change API keys at the same time, one of them
// retries. Reading the cursor shows whether there are changes.
type KeyStore struct{ store store.Store }

// NewKeyStore returns the KeyStore in s.
func NewKeyStore(s store.Store) *KeyStore { return &KeyStore{s} }

const (
	// keyRows is the partition of the API keys' rows and the name of their cursor.
	keyRows = "api_keys"
	// changeTries is how often a change is tried if other processes change the API keys at the same time.
	changeTries = 16
	// looksEvery is the interval at which a running service checks for changes. lookTime is the timeout of a check.
	looksEvery = time.Second
	lookTime   = 5 * time.Second
)

// Add does what KeyFile.Add does.
func (s *KeyStore) Add(ctx context.Context, name, class string, now time.Time) (string, error) {
	key, info, err := newKey(name, class, now)
	if err != nil {
		return "", err
	}
	if err := s.change(ctx, func(keys []KeyInfo) ([]KeyInfo, error) { return withKey(keys, info) }); err != nil {
		return "", err
	}
	return key, nil
}

// Revoke does what KeyFile.Revoke does.
func (s *KeyStore) Revoke(ctx context.Context, name string, now time.Time) error {
	return s.change(ctx, func(keys []KeyInfo) ([]KeyInfo, error) { return withoutKey(keys, name, now) })
}

// List does what KeyFile.List does.
func (s *KeyStore) List(ctx context.Context) ([]KeyInfo, error) {
	_, keys, err := s.read(ctx)
	return keys, err
}

// Import adds the API keys of a file that the store does not have, and revokes those that are revoked in the file. It
// returns the number of changes. Importing a file again has no effect: API keys that are revoked in the store stay
// revoked.
func (s *KeyStore) Import(ctx context.Context, from KeyFile) (changed int, err error) {
	others, err := from.List()
	if err != nil || len(others) == 0 {
		return 0, err
	}
	err = s.change(ctx, func(keys []KeyInfo) (merged []KeyInfo, err error) {
		merged, changed, err = withKeys(keys, others)
		return merged, err
	})
	return changed, err
}

// read returns the API keys, sorted by name, and their cursor.
func (s *KeyStore) read(ctx context.Context) (at store.Cursor, keys []KeyInfo, err error) {
	view, err := s.store.View(ctx)
	if err != nil {
		return at, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	defer func() { _ = view.Close() }()
	if at, err = store.ReadCursor(ctx, view, keyRows); err != nil {
		return at, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	rows, err := view.Scan(ctx, store.FamilyMeta, []byte(keyRows), nil, nil, store.Ascending, maxKeys+1)
	if err != nil {
		return at, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	keys = make([]KeyInfo, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row.V, &keys[i]); err != nil {
			return at, nil, fmt.Errorf("reading the API key %q: %w: %w", row.K, store.ErrCorrupt, err)
		}
	}
	if err := checkKeys(keys); err != nil {
		return at, nil, fmt.Errorf("reading the API keys: %w: %w", store.ErrCorrupt, err)
	}
	return at, keys, nil
}

// change writes those API keys that edit changes.
func (s *KeyStore) change(ctx context.Context, edit func([]KeyInfo) ([]KeyInfo, error)) error {
	for range changeTries {
		at, before, err := s.read(ctx)
		if err != nil {
			return err
		}
		after, err := edit(slices.Clone(before))
		if err != nil {
			return err
		}
		var batch store.Batch
		for _, key := range after {
			if slices.Contains(before, key) {
				continue
			}
			row, err := json.Marshal(key)
			if err != nil {
				return fmt.Errorf("writing the API key %s: %w", key.Name, err)
			}
			batch.Put(store.FamilyMeta, store.PK{P: []byte(keyRows), K: []byte(key.Name)}, row)
		}
		if batch.Len() == 0 {
			return nil
		}
		batch.Move(keyRows, at, store.Cursor{Next: at.Next + 1, Epoch: at.Epoch})
		if err = s.store.Commit(ctx, &batch); err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrFenced) {
			return fmt.Errorf("writing the API keys: %w", err)
		}
	}
	return errors.New("writing the API keys: too many processes change them at a time")
}
