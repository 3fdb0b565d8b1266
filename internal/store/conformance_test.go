package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"quorate/internal/store"
	"quorate/internal/store/storetest"
)

func TestMain(m *testing.M) {
	runChild()
	goleak.VerifyTestMain(m)
}

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Engine{
		Place: func(testing.TB) func() store.Store {
			return func() store.Store { return store.NewMemory() }
		},
	})
}

func TestPebble(t *testing.T) {
	storetest.Run(t, storetest.Engine{
		Place: func(t testing.TB) func() store.Store {
			dir := t.TempDir()
			return func() store.Store { return openPebble(t, dir) }
		},
		Persistent: true,
	})
}

// openPebble opens a store whose buffers are small, so that tests see flushes.
func openPebble(t testing.TB, dir string) *store.Pebble {
	t.Helper()
	s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir, CacheBytes: 4 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	return s
}
