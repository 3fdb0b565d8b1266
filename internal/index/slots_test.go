package index_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// TestReadableRowsServeUntilRebuilt upgrades a form whose older rows this program reads, and
// one whose older rows it does not read.
func TestReadableRowsServeUntilRebuilt(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, test := range []struct {
		reads, kept int
		stage       index.Stage
	}{{reads: 2, kept: 1, stage: index.RebuildAsked}, {reads: 3, kept: 0, stage: index.NoRebuild}, {reads: 0, kept: 0, stage: index.NoRebuild}} {
		form := func(version, reads int) index.Form {
			return index.Form{Name: "one", Version: version, Reads: reads, Families: []store.Family{store.FamilyL1Tx}, Cursor: index.CursorOf("one")}
		}
		raw := store.NewMemory()
		slots, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, form(2, 0))
		require.NoError(t, err)
		require.NoError(t, index.Upgrade(t.Context(), slots.Store(), log, form(2, 0)))
		var b store.Batch
		b.Put(store.FamilyL1Tx, store.PK{P: []byte("row")}, nil)
		b.Move(index.Cursor(5, "P", "one"), store.Cursor{}, store.Cursor{Next: 9, Epoch: 1})
		require.NoError(t, slots.Store().Commit(t.Context(), &b))

		now := form(4, test.reads)
		slots, err = index.OpenSlots(t.Context(), raw, index.PrimarySlots, now)
		require.NoError(t, err)
		for range 2 { // the second time nothing is left to do
			require.NoError(t, index.Upgrade(t.Context(), slots.Store(), log, now))
			require.NoError(t, slots.AskIfOlder(t.Context()))
		}
		rows, err := slots.Store().Walk(t.Context(), store.FamilyL1Tx, nil, 10)
		require.NoError(t, err)
		require.Len(t, rows, test.kept, "rows of version 2 where versions from %d on are read", test.reads)
		stage, err := slots.Stage(t.Context())
		require.NoError(t, err)
		require.Equal(t, test.stage, stage)
		require.NoError(t, index.Check(t.Context(), slots.Store(), now))
		require.ErrorIs(t, index.Upgrade(t.Context(), slots.Store(), log, form(2, 0)), index.ErrNewer, "the older program must not add rows")
	}
}
