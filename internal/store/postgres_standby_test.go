package store_test

import (
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
