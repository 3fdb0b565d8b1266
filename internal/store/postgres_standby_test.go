package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// TestStandbys reads from a standby while it follows, not while it lags, and from the primary when it
// is gone.
func TestStandbys(t *testing.T) {
	primary := pgserver.Run(t)
	s := openPostgres(t, primary.URL())
	defer s.Close()
	other, err := primary.Standby()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()

	// It can only be read.
	_, err = store.OpenPostgres(t.Context(), store.PostgresOptions{URL: other.URL()})
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "standby")

	r, err := store.OpenStandbys(t.Context(), s, store.StandbyOptions{
		URLs: []string{other.URL()}, MaxLag: 2 * time.Second, Every: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	used := func(want bool) func() bool { return func() bool { return r.Stats()[0].Used == want } }
	const timeout, tick = 2 * time.Minute, 20 * time.Millisecond
	next := uint64(0)
	commit := func() {
		require.NoError(t, s.Commit(t.Context(), crashBatch(next)))
		next++
	}
	seen := func() uint64 {
		v, err := r.View(t.Context())
		require.NoError(t, err)
		defer v.Close()
		at, err := store.ReadCursor(t.Context(), v, "crash")
		require.NoError(t, err)
		return at.Next
	}
	commit()
	require.Eventually(t, used(true), timeout, tick, "standby that follows: used")
	require.Eventually(t, func() bool { return seen() == next }, timeout, tick, "what was committed is seen")

	// Held up, it answers with old rows until it is too far behind.
	require.NoError(t, other.Exec(t.Context(), "SELECT pg_wal_replay_pause()"))
	commit()
	require.Eventually(t, func() bool { return r.Stats()[0].Lag > 0 }, timeout, tick, "lag")
	require.Eventually(t, used(false), timeout, tick, "standby that is held up: not used")
	require.Equal(t, next, seen(), "read from the store")
	require.NoError(t, other.Exec(t.Context(), "SELECT pg_wal_replay_resume()"))
	require.Eventually(t, used(true), timeout, tick, "standby that has caught up: used")
	require.Equal(t, next, seen())

	// Gone, it is not missed; back, it is used.
	other.Crash()
	require.Equal(t, next, seen())
	require.Eventually(t, used(false), timeout, tick, "standby that is gone: not used")
	require.Error(t, r.Stats()[0].Err)
	require.NoError(t, other.Restart())
	require.Eventually(t, used(true), timeout, tick, "standby that is back: used")

	// Another store is not taken for a standby, even if its cursors are further.
	place, err := primary.Place(t.Context())
	require.NoError(t, err)
	stranger := openPostgres(t, place)
	defer stranger.Close()
	for at := range next + 10 {
		require.NoError(t, stranger.Commit(t.Context(), crashBatch(at)))
	}
	wrong, err := store.OpenStandbys(t.Context(), s, store.StandbyOptions{URLs: []string{place}, MaxLag: 2 * time.Second, Every: 50 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, wrong.Close()) }()
	time.Sleep(200 * time.Millisecond)
	require.False(t, wrong.Stats()[0].Used)
	require.ErrorContains(t, wrong.Stats()[0].Err, "it does not follow the store")

	_, err = store.OpenStandbys(t.Context(), s, store.StandbyOptions{URLs: []string{"postgres://x:secret/"}})
	require.ErrorIs(t, err, store.ErrInvalid)
}

// TestOneServer has two standbys, and one of them lags. Reads of one context never go back to older rows.
func TestOneServer(t *testing.T) {
	primary := pgserver.Run(t)
	s := openPostgres(t, primary.URL())
	defer s.Close()
	var urls []string
	var servers []*pgserver.Server
	for range 2 {
		server, err := primary.Standby()
		require.NoError(t, err)
		defer func() { require.NoError(t, server.Close()) }()
		servers, urls = append(servers, server), append(urls, server.URL())
	}
	r, err := store.OpenStandbys(t.Context(), s, store.StandbyOptions{URLs: urls, MaxLag: time.Hour, Every: 50 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	const timeout, tick = 2 * time.Minute, 20 * time.Millisecond
	seen := func(ctx context.Context) uint64 {
		v, err := r.View(ctx)
		require.NoError(t, err)
		defer v.Close()
		at, err := store.ReadCursor(ctx, v, "crash")
		require.NoError(t, err)
		return at.Next
	}
	// alternates reports whether successive reads see the rows of the two blocks.
	alternates := func(a, b uint64) func() bool {
		return func() bool {
			return min(seen(t.Context()), seen(t.Context())) == a && max(seen(t.Context()), seen(t.Context())) == b
		}
	}
	require.NoError(t, s.Commit(t.Context(), crashBatch(0)))
	require.Eventually(t, func() bool { return r.Stats()[0].Used && r.Stats()[1].Used }, timeout, tick)
	require.Eventually(t, alternates(1, 1), timeout, tick)
	require.NoError(t, servers[0].Exec(t.Context(), "SELECT pg_wal_replay_pause()"))
	require.NoError(t, s.Commit(t.Context(), crashBatch(1)))
	require.Eventually(t, alternates(1, 2), timeout, tick, "reads go to both in turn")

	var old, young context.Context
	for old == nil || young == nil {
		ctx := store.OneServer(t.Context())
		require.Equal(t, ctx, store.OneServer(ctx))
		first := seen(ctx)
		for range 5 {
			require.Equal(t, first, seen(ctx), "reads of one context go to one server")
		}
		if first == 1 {
			old = ctx
		} else {
			young = ctx
		}
	}

	// Without the server, the context goes on with the store. It does not return: the server would be behind.
	require.NoError(t, s.Commit(t.Context(), crashBatch(2)))
	servers[0].Crash()
	require.EqualValues(t, 3, seen(old))
	require.NoError(t, servers[0].Restart())
	require.Eventually(t, func() bool { return r.Stats()[0].Used }, timeout, tick)
	require.EqualValues(t, 3, seen(old))
	require.GreaterOrEqual(t, seen(young), uint64(2))

	// The same with one server.
	require.NoError(t, r.Close())
	r, err = store.OpenStandbys(t.Context(), s, store.StandbyOptions{URLs: urls[:1], MaxLag: time.Hour, Every: 50 * time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.Stats()[0].Used && seen(t.Context()) == 3 }, timeout, tick)
	only := store.OneServer(t.Context())
	require.EqualValues(t, 3, seen(only))
	servers[0].Crash()
	require.NoError(t, s.Commit(t.Context(), crashBatch(3)))
	require.EqualValues(t, 4, seen(only), "read from the store")
	require.NoError(t, servers[0].Restart())
	require.NoError(t, servers[0].Exec(t.Context(), "SELECT pg_wal_replay_pause()"))
	require.Eventually(t, func() bool { return r.Stats()[0].Used }, timeout, tick)
	require.NoError(t, s.Commit(t.Context(), crashBatch(4)))
	require.EqualValues(t, 5, seen(only), "the server that failed is not read again")
}
