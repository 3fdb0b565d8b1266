package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

func TestKeyStore(t *testing.T) {
	rows := store.NewMemory()
	s := NewKeyStore(rows)
	ctx, now := t.Context(), time.Unix(1_700_000_000, 5)
	keys, err := s.List(ctx)
	require.NoError(t, err)
	require.Empty(t, keys)
	key, err := s.Add(ctx, "one", "partner", now)
	require.NoError(t, err)
	require.Regexp(t, `^qk_[A-Za-z0-9_-]{43}$`, key)
	_, err = s.Add(ctx, "one", "partner", now)
	require.ErrorIs(t, err, ErrKeyExists)
	_, err = s.Add(ctx, "a b", "partner", now)
	require.ErrorIs(t, err, ErrKeyName)
	require.ErrorIs(t, s.Revoke(ctx, "two", now), ErrNoKey)
	require.NoError(t, s.Revoke(ctx, "one", now))
	require.NoError(t, s.Revoke(ctx, "one", now.Add(time.Hour)))
	keys, err = s.List(ctx)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, now.UTC().Truncate(time.Second), keys[0].Revoked, "the first time counts")
	require.Equal(t, "partner", keys[0].Class)
	for record, err := range store.Rows(ctx, rows, store.FamilyMeta) {
		require.NoError(t, err)
		require.NotContains(t, string(record.V), strings.TrimPrefix(key, keyPrefix))
	}
}

func TestKeyStoreIsChangedByManyAtOnce(t *testing.T) {
	rows := store.NewMemory()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := NewKeyStore(rows).Add(t.Context(), fmt.Sprintf("key-%d", i), DefaultClass, time.Now()); err != nil {
				t.Errorf("adding key %d: %v", i, err)
			}
		})
	}
	all.Wait()
	keys, err := NewKeyStore(rows).List(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 8)
}

func TestKeysOfAFileMoveToTheStore(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	s := NewKeyStore(store.NewMemory())
	ctx, now := t.Context(), time.Now()
	changed, err := s.Import(ctx, f)
	require.NoError(t, err)
	require.Zero(t, changed, "no file")
	for _, name := range []string{"one", "two", "three"} {
		_, err = f.Add(name, "partner", now)
		require.NoError(t, err)
	}
	changed, err = s.Import(ctx, f)
	require.NoError(t, err)
	require.Equal(t, 3, changed)
	require.NoError(t, s.Revoke(ctx, "one", now))
	require.NoError(t, f.Revoke("two", now))
	changed, err = s.Import(ctx, f)
	require.NoError(t, err)
	require.Equal(t, 1, changed, "what was revoked in the file meanwhile")
	keys, err := s.List(ctx)
	require.NoError(t, err)
	var good []string
	for _, k := range keys {
		if k.Revoked.IsZero() {
			good = append(good, k.Name)
		}
	}
	require.Equal(t, []string{"three"}, good)
}

// gone is a store whose server does not answer while away is set.
type gone struct {
	store.Store
	away atomic.Bool
}

func (g *gone) Get(ctx context.Context, f store.Family, keys []store.PK) ([][]byte, error) {
	if g.away.Load() {
		return nil, errors.New("no connection")
	}
	return g.Store.Get(ctx, f, keys)
}

// All processes see changes of API keys within seconds. While the store is away, the known keys stay
// as they are.
func TestKeysInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rows := &gone{Store: store.NewMemory()}
		var log bytes.Buffer
		said := slog.New(slog.NewTextHandler(&log, nil)) // one for both, which takes turns
		var watching sync.WaitGroup
		guards := make([]*Guard, 2)
		for i := range guards {
			g, err := New(Options{Keys: "keys.json", Stored: NewKeyStore(rows), Log: said, Classes: map[string]Class{"partner": {PerSecond: .001, Burst: 100}}})
			require.NoError(t, err)
			require.NoError(t, g.Load(ctx))
			watching.Go(func() { g.Watch(ctx) })
			guards[i] = g
		}
		status := func(g *Guard, key string) string {
			name, _, err := g.admit(key, "192.0.2.1")
			if err != nil {
				return err.Error()
			}
			return name
		}
		all := func(key, want string) {
			t.Helper()
			time.Sleep(2 * looksEvery)
			synctest.Wait()
			for i, g := range guards {
				require.Contains(t, status(g, key), want, "process %d", i)
			}
		}
		all("qk_whatever", "")
		key, err := NewKeyStore(rows).Add(ctx, "one", "partner", time.Now())
		require.NoError(t, err)
		all(key, "one")
		all("qk_whatever", "not known")
		_, left, err := guards[0].admit(key, "192.0.2.1")
		require.NoError(t, err)
		require.True(t, left.take(1, time.Now()).allowed)
		_, err = NewKeyStore(rows).Add(ctx, "two", "partner", time.Now())
		require.NoError(t, err)
		all(key, "one")
		_, again, err := guards[0].admit(key, "192.0.2.1")
		require.NoError(t, err)
		require.Same(t, left, again, "what was used stays used")

		rows.away.Store(true)
		all(key, "one")
		require.Equal(t, len(guards), strings.Count(log.String(), "cannot be read"), "each logs it once")
		require.NotContains(t, log.String(), "keys.json", "the file is not used")
		rows.away.Store(false)
		require.NoError(t, NewKeyStore(rows).Revoke(ctx, "one", time.Now()))
		all(key, "revoked")
		require.NotContains(t, log.String(), strings.TrimPrefix(key, keyPrefix)[:16])
		cancel()
		watching.Wait()
	})
}
