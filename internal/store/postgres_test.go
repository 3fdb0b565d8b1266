package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/store/storetest"
	"quorate/internal/store/storetest/pgserver"
)

// openPostgres opens a store in a place of a server.
func openPostgres(t testing.TB, url string) *store.Postgres {
	t.Helper()
	s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: url, Connections: 60})
	require.NoError(t, err)
	return s
}

func TestPostgres(t *testing.T) {
	server := pgserver.Run(t)
	storetest.Run(t, storetest.Engine{
		Place: func(t testing.TB) func() store.Store {
			url, err := server.Place(t.Context())
			require.NoError(t, err)
			return func() store.Store { return openPostgres(t, url) }
		},
		Persistent: true,
	})
}
