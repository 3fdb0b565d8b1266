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
			require.NoError(t, store.Clear(t.Context(), s, families[1]))
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
			// What is written afterwards stays.
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
