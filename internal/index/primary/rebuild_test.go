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

// raised returns the formats of a future version, in which all rows differ and which reads no older ones.
func raised(by int) []index.Form {
	forms := primary.Forms()
	for i := range forms {
		if len(forms[i].Families) > 0 { // a format without families describes containers, which would be fetched again
			forms[i].Version, forms[i].Reads = forms[i].Version+by, 0
		}
	}
	return forms
}

// spoil adds wrong rows to each family of some formats and changes existing ones.
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

// TestOlderIndexesAreRebuilt opens a store of an older version with wrong rows and requires the rows of a fresh index.
//
//test:plain
func TestOlderIndexesAreRebuilt(t *testing.T) {
	for _, test := range []struct {
		name         string
		keep         primary.Keep
		withoutIndex bool // setting of the node
		asked        bool // the node must be asked again
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
			require.Zero(t, at.Next, "cursor of an index that is rebuilt")

			n.away.Store(!test.asked)
			run(s)
			n.away.Store(false)
			require.Equal(t, digest(t, fresh), digest(t, s), "dump of a rebuilt index")

			require.ErrorIs(t, index.Upgrade(t.Context(), s, quiet, primary.Forms()...), index.ErrNewer)
			require.Equal(t, digest(t, fresh), digest(t, s), "a refused store is unchanged")

			// Indexing continues normally.
			require.NoError(t, n.Grow(t.Context(), 50))
			run(s)
			run(fresh)
			require.Equal(t, digest(t, fresh), digest(t, s), "dump after more blocks")
		})
	}
}

// TestRebuildingIsKilled kills processes that rebuild an index. Each continues where the last one stopped.
//
//test:plain
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

	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 3)) // any seed
	inside, version := 0, 0
	for kill := range kills {
		o := order{Dir: dir, URL: n.url}
		s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
		require.NoError(t, err)
		if kill%2 == 0 {
			// Rebuild everything; these commits are too few to finish.
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
		// Upgrading to the current version changes nothing.
		before := digest(t, s)
		require.NoError(t, index.Upgrade(t.Context(), s, quiet, raised(version)...))
		require.Equal(t, before, digest(t, s))
		require.NoError(t, s.Close())
	}
	if inside < kills/2 {
		t.Errorf("got %d of %d kills before the rebuild ended, want at least half of them", inside, kills)
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
	t.Logf("%d kills, %d of them before the rebuild ended", kills, inside)
}
