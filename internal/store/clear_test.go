package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

func TestClear(t *testing.T) {
	for name, s := range map[string]store.Store{"memory": store.NewMemory(), "pebble": openPebble(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			families := []store.Family{store.FamilyL1Subnet, store.FamilyL1Validation, store.FamilyPState}
			var b store.Batch
			for _, family := range families {
				for i := range 15_000 {
					b.Put(family, store.PK{P: []byte{byte(i), 0xff}, K: fmt.Append(nil, i)}, []byte("v"))
				}
			}
			require.NoError(t, s.Commit(t.Context(), &b))
			require.NoError(t, store.Clear(t.Context(), s, families[1], "", store.Cursor{}))
			for i, family := range families {
				n := 0
				for _, err := range store.Rows(t.Context(), s, family) {
					require.NoError(t, err)
					n++
				}
				if want := []int{15_000, 0, 15_000}[i]; n != want {
					t.Errorf("family %s: got %d rows, want %d", family, n, want)
				}
			}
			// Rows that are written afterwards stay.
			b.Reset()
			pk := store.PK{P: []byte{1, 0xff}, K: []byte("1")}
			b.Put(families[1], pk, []byte("new"))
			require.NoError(t, s.Commit(t.Context(), &b))
			values, err := s.Get(t.Context(), families[1], []store.PK{pk})
			require.NoError(t, err)
			require.Equal(t, "new", string(values[0]))
		})
	}
}

// suffixed redirects the cursors called guard.
type suffixed struct{}

func (suffixed) Family(family store.Family) store.Family { return family.Twin() }

func (suffixed) Stored(_ store.Family, p string) string {
	if p == "guard" {
		return "guard#b"
	}
	return p
}

func (suffixed) Named(_ store.Family, p string) (string, bool) { return p, true }

// TestClearIsFenced has another process move the cursor while a family is being cleared, also if rows are stored in
// another family and the cursor has another name.
func TestClearIsFenced(t *testing.T) {
	for name, redirect := range map[string]func(store.Store) store.Store{
		"plain": func(s store.Store) store.Store { return s },
		"redirected": func(s store.Store) store.Store {
			return store.Redirect(s, func() store.Redirection { return suffixed{} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for engine, raw := range map[string]store.Store{"memory": store.NewMemory(), "pebble": openPebble(t, t.TempDir())} {
				defer raw.Close()
				s := redirect(raw)
				at := store.Cursor{Next: 1, Epoch: 2}
				var b store.Batch
				b.Put(store.FamilyL1Subnet, store.PK{P: []byte("row")}, nil)
				b.Move("guard", store.Cursor{}, at)
				require.NoError(t, s.Commit(t.Context(), &b))
				rows := func() int {
					found, err := s.Walk(t.Context(), store.FamilyL1Subnet, nil, 10)
					require.NoError(t, err)
					return len(found)
				}
				require.ErrorIs(t, store.Clear(t.Context(), s, store.FamilyL1Subnet, "guard", store.Cursor{Next: 1, Epoch: 1}), store.ErrFenced, engine)
				require.Equal(t, 1, rows(), "%s: a fenced process deletes nothing", engine)
				require.NoError(t, store.Clear(t.Context(), s, store.FamilyL1Subnet, "guard", at), engine)
				require.Zero(t, rows(), engine)
			}
		})
	}
}
