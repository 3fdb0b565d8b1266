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

// KeyStore keeps the keys in a store, the same for all processes that share it. Safe for
// concurrent use, by any number of processes.
//
// Each key is a row of its own, and each change moves a cursor: of two processes that
// change something at a time one tries again, and a glance at the cursor tells whether
// there is anything new.
type KeyStore struct{ store store.Store }

// NewKeyStore is for the keys in s.
func NewKeyStore(s store.Store) *KeyStore { return &KeyStore{s} }

const (
	// keyRows is the partition of the rows of keys, and their cursor's name.
	keyRows = "api_keys"
	// changeTries is how often a change is tried that others came before.
	changeTries = 16
	// looksEvery is how often a running service looks for changes, and lookTime bounds how
	// long it waits for the store.
	looksEvery = time.Second
	lookTime   = 5 * time.Second
)

// Add is KeyFile.Add.
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

// Revoke is KeyFile.Revoke.
func (s *KeyStore) Revoke(ctx context.Context, name string, now time.Time) error {
	return s.change(ctx, func(keys []KeyInfo) ([]KeyInfo, error) { return withoutKey(keys, name, now) })
}

// List is KeyFile.List.
func (s *KeyStore) List(ctx context.Context) ([]KeyInfo, error) {
	_, keys, err := s.read(ctx)
	return keys, err
}

// Import adds those keys of a file that the store does not know, and revokes those that
// the file says are; it tells how many it changed. To do so again is of no effect: what
// was revoked in the store stays so.
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

// read returns the keys, by name, and where their cursor is.
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

// change writes what edit makes of the keys: those that differ.
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
