package primary_test

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/store"
)

var quiet = slog.New(slog.DiscardHandler)

// raised are the forms of a version to come, so many later: all rows would look different.
func raised(by int) []index.Form {
	forms := primary.Forms()
	for i := range forms {
		if len(forms[i].Families) > 0 { // or else it is about containers, which are fetched again
			forms[i].Version += by
		}
	}
	return forms
}

// spoil adds wrong rows to each family of some forms, and changes some that are there.
func spoil(t testing.TB, s store.Store, forms []index.Form) {
	t.Helper()
	var b store.Batch
	for _, form := range forms {
		for _, family := range form.Families {
			n := 0
			for row, err := range store.Rows(t.Context(), s, family) {
				require.NoError(t, err)
				if n++; n%7 == 0 {
					b.Put(family, row.PK, append([]byte("wrong"), row.V...))
				}
			}
			b.Put(family, store.PK{P: []byte("wrong"), K: []byte(form.Name)}, []byte("row"))
		}
	}
	require.NoError(t, s.Commit(t.Context(), &b))
}

// TestOlderRecordsAreMadeAgain gives a store of an older version, whose rows are wrong,
// to this one, and finds the rows of a fresh record.
func TestOlderRecordsAreMadeAgain(t *testing.T) {
	for _, test := range []struct {
		name         string
		keep         primary.Keep
		withoutIndex bool // of the node
		asked        bool // whether the node must be asked again
	}{
		{"needed", primary.KeepNeeded, false, false},
		{"all", primary.KeepAll, false, false},
		{"without an index", primary.KeepNeeded, true, false},
		{"nothing kept", primary.KeepNone, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newTestNode(t, 2, 1500)
			n.withoutIndex.Store(test.withoutIndex)
			require.NoError(t, n.Grow(t.Context(), 1500))
			client, g := connect(t, n.url)
			run := func(s store.Store) {
				o := options(n.url, client, g, s)
				o.Keep = test.keep
				chains, err := primary.New(o)
				require.NoError(t, err)
				runUntil(t, n, chains, g, s)
			}
			fresh := store.NewMemory()
			defer fresh.Close()
			require.NoError(t, index.Upgrade(t.Context(), fresh, quiet, raised(1)...))
			run(fresh)

			s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir()})
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, index.Upgrade(t.Context(), s, quiet, primary.Forms()...))
			run(s)
			spoil(t, s, primary.Forms())
			require.NotEqual(t, digest(t, fresh), digest(t, s))
			require.NoError(t, index.Upgrade(t.Context(), s, quiet, raised(1)...))
			at, err := store.ReadCursor(t.Context(), s, index.Cursor(networkID, index.XChain, "ledger"))
			require.NoError(t, err)
			require.Zero(t, at.Next, "cursor of a record that begins anew")

			n.away.Store(!test.asked)
			run(s)
			n.away.Store(false)
			require.Equal(t, digest(t, fresh), digest(t, s), "dump of a record that was made again")

			require.ErrorIs(t, index.Upgrade(t.Context(), s, quiet, primary.Forms()...), index.ErrNewer)
			require.Equal(t, digest(t, fresh), digest(t, s), "a refused store is left alone")

			// It goes on as any other.
			require.NoError(t, n.Grow(t.Context(), 50))
			run(s)
			run(fresh)
			require.Equal(t, digest(t, fresh), digest(t, s), "dump after more blocks")
		})
	}
}

// TestRebuildingIsKilled kills what makes a record again, which goes on where it was.
func TestRebuildingIsKilled(t *testing.T) {
	kills := 10
	if testing.Short() {
		kills = 3
	}
	n := newTestNode(t, 3, 3000)
	require.NoError(t, n.Grow(t.Context(), 3000))
	dir := t.TempDir()
	s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, index.Upgrade(t.Context(), s, quiet, primary.Forms()...))
	record(t, n, s)
	spoil(t, s, primary.Forms())
	require.NoError(t, s.Close())

	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 3)) // any will do
	inside, version := 0, 0
	for kill := range kills {
		o := order{Dir: dir, URL: n.url}
		s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
		require.NoError(t, err)
		if kill%2 == 0 {
			// All is made anew, and those are too few commits, however fast it is.
			version++
			require.NoError(t, index.Upgrade(t.Context(), s, quiet, raised(version)...))
			o.Commits = 1 + rng.Int64N(6)
		}
		require.NoError(t, s.Close())
		killed(t, o, n.tips(), 1+rng.IntN(6), time.Duration(rng.IntN(8000))*time.Microsecond)
		s, err = store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
		require.NoError(t, err)
		if at := cursors(t, s); at[index.PChain] < n.tips()[index.PChain] {
			inside++
		}
		// A version that is already there changes nothing.
		before := digest(t, s)
		require.NoError(t, index.Upgrade(t.Context(), s, quiet, raised(version)...))
		require.Equal(t, before, digest(t, s))
		require.NoError(t, s.Close())
	}
	if inside < kills/2 {
		t.Errorf("got %d of %d kills before all was made again, want at least half of them", inside, kills)
	}
	s, err = store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
	require.NoError(t, err)
	defer s.Close()
	record(t, n, s)
	fresh := store.NewMemory()
	defer fresh.Close()
	require.NoError(t, index.Upgrade(t.Context(), fresh, quiet, raised(version)...))
	record(t, n, fresh)
	require.Equal(t, digest(t, fresh), digest(t, s), "dump after %d kills, %d of them inside", kills, inside)
	t.Logf("%d kills, %d of them before all was made again", kills, inside)
}
