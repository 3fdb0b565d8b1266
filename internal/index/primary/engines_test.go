package primary_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// TestEnginesAgree indexes the same history on every engine and requires equal rows.
func TestEnginesAgree(t *testing.T) {
	n := newTestNode(t, 3, 1200)
	require.NoError(t, n.Grow(t.Context(), 1200))
	server := pgserver.Run(t)
	sums := make(map[string][32]byte)
	for name, open := range map[string]func() (store.Store, error){
		"memory": func() (store.Store, error) { return store.NewMemory(), nil },
		"pebble": func() (store.Store, error) {
			return store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir()})
		},
		"postgres": func() (store.Store, error) {
			url, err := server.Place(t.Context())
			require.NoError(t, err)
			return store.OpenPostgres(t.Context(), store.PostgresOptions{URL: url})
		},
	} {
		s, err := open()
		require.NoError(t, err)
		record(t, n, s)
		sums[name] = digest(t, s)
		require.NoError(t, s.Close())
	}
	require.Equal(t, sums["memory"], sums["pebble"], "rows in memory and on Pebble")
	require.Equal(t, sums["memory"], sums["postgres"], "rows in memory and on PostgreSQL")
}
