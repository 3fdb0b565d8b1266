package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// copyPlace is somewhere that a copy can go to, again and again.
type copyPlace func(t *testing.T) (open func(t *testing.T, unfinished bool) (store.Store, error))

func copyPlaces(t *testing.T) map[string]copyPlace {
	server := pgserver.Run(t)
	return map[string]copyPlace{
		"pebble": func(t *testing.T) func(*testing.T, bool) (store.Store, error) {
			dir := t.TempDir()
			return func(t *testing.T, unfinished bool) (store.Store, error) {
				return store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir, Unfinished: unfinished})
			}
		},
		"postgres": func(t *testing.T) func(*testing.T, bool) (store.Store, error) {
			url, err := server.Place(t.Context())
			require.NoError(t, err)
			return func(t *testing.T, unfinished bool) (store.Store, error) {
				return store.OpenPostgres(t.Context(), store.PostgresOptions{URL: url, Unfinished: unfinished})
			}
		},
	}
}

// fill writes rows of all sizes into many families.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 9))
	for n := range uint64(2) {
		var b store.Batch
		for _, family := range store.Families()[2:] {
			for i := range 10 + rng.IntN(400) {
				b.Put(family, store.PK{P: fmt.Appendf(nil, "p%d", rng.IntN(40)), K: fmt.Appendf(nil, "%d/%d", n, i)}, make([]byte, rng.IntN(300)))
			}
		}
		b.Put(store.FamilyMessage, store.PK{P: []byte("big"), K: []byte{byte(n)}}, make([]byte, 5<<20))
		b.Put(store.FamilyMeta, store.PK{P: []byte("note")}, []byte{byte(n)})
		b.Move("c", store.Cursor{Next: n}, store.Cursor{Next: n + 1})
		require.NoError(t, s.Commit(t.Context(), &b))
	}
}

// TestCopy copies from engine to engine, with interruptions.
func TestCopy(t *testing.T) {
	places := copyPlaces(t)
	for _, names := range [][2]string{{"pebble", "postgres"}, {"postgres", "pebble"}} {
		t.Run(names[0]+" to "+names[1], func(t *testing.T) {
			from, err := places[names[0]](t)(t, false)
			require.NoError(t, err)
			defer from.Close()
			fill(t, from)
			want := hashOf(t, from)

			open := places[names[1]](t)
			ended, lasts, last := 0, 0, store.CopyProgress{}
			for {
				to, err := open(t, true)
				require.NoError(t, err)
				view, err := from.View(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				pages := 0
				err = store.Copy(ctx, view, to, func(p store.CopyProgress) {
					last = p
					if p.Step == store.Copying {
						if pages++; pages == 4+ended*9 {
							cancel()
						}
					}
				}, func() error {
					if lasts++; lasts == 1 {
						return context.Canceled // in the last moment
					}
					return nil
				})
				cancel()
				require.NoError(t, view.Close())
				if err == nil {
					require.Equal(t, want, hashOf(t, to), "dump hash of the copy")
					require.NoError(t, to.Close())
					break
				}
				require.ErrorIs(t, err, context.Canceled)
				require.NoError(t, to.Close())
				ended++
				// Before the copy is complete, it cannot be opened.
				_, err = open(t, false)
				require.ErrorIs(t, err, store.ErrFormat)
				require.ErrorContains(t, err, "store copy")
			}
			require.Greater(t, ended, 2, "times that the copy was ended")
			require.Equal(t, 2, lasts)
			require.Equal(t, store.Comparing, last.Step)
			require.Equal(t, [2]uint64{last.TotalRows, last.TotalBytes}, [2]uint64{last.Rows, last.Bytes}, "compared at the end")
			to, err := open(t, false)
			require.NoError(t, err)
			defer to.Close()
			require.ErrorIs(t, store.Copy(t.Context(), from, to, nil, nil), store.ErrContent, "into a store with content")
			require.Equal(t, want, hashOf(t, to))
		})
	}
}

// TestCopyRefuses refuses sources that change, and two copies at a time.
func TestCopyRefuses(t *testing.T) {
	from, to := store.NewMemory(), store.NewMemory()
	fill(t, from)
	begin := func(end bool, during func()) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pages := 0
		return store.Copy(ctx, from, to, func(p store.CopyProgress) {
			if p.Step == store.Copying {
				if pages++; pages == 3 {
					during()
					if end {
						cancel()
					}
				}
			}
		}, nil)
	}
	require.ErrorIs(t, begin(true, func() {}), context.Canceled)
	// Another copy takes over: the first one fails.
	var second error
	err := begin(false, func() { second = begin(true, func() {}) })
	require.ErrorIs(t, err, store.ErrFenced)
	require.ErrorIs(t, second, context.Canceled)
	// The source goes on: the copy would be of two states.
	var b store.Batch
	b.Move("c", store.Cursor{Next: 2}, store.Cursor{Next: 3})
	require.NoError(t, from.Commit(t.Context(), &b))
	require.ErrorIs(t, store.Copy(t.Context(), from, to, nil, nil), store.ErrContent)
	require.ErrorContains(t, store.Copy(t.Context(), from, to, nil, nil), "start again")
	// Something else writes to the destination meanwhile.
	to = store.NewMemory()
	once := false
	err = store.Copy(t.Context(), from, to, func(p store.CopyProgress) {
		if p.Step == store.Copying && !once {
			once = true
			var b store.Batch
			b.Put(store.FamilyMessage, store.PK{P: []byte("other")}, nil)
			if err := to.Commit(t.Context(), &b); err != nil {
				t.Error(err)
			}
		}
	}, nil)
	require.ErrorIs(t, err, store.ErrContent)
}
