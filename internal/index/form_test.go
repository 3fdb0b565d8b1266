package index_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// faltering fails from some commit on.
type faltering struct {
	*store.Memory
	left int
}

var errFalters = errors.New("the store falters")

func (s *faltering) Commit(ctx context.Context, b *store.Batch) error {
	if s.left--; s.left < 0 {
		return errFalters
	}
	return s.Memory.Commit(ctx, b)
}

// TestUpgradeIsEndedAnywhere has an upgrade fail after each of its commits, and continue.
func TestUpgradeIsEndedAnywhere(t *testing.T) {
	form := func(name string, version int) index.Form {
		families := map[string][]store.Family{"one": {store.FamilyL1Tx, store.FamilyL1Height}, "other": {store.FamilyVertex}}
		return index.Form{Name: name, Version: version, Families: families[name], Cursor: index.CursorOf(name)}
	}
	log := slog.New(slog.DiscardHandler)
	for commits := range 20 {
		s := &faltering{Memory: store.NewMemory(), left: 1000}
		require.NoError(t, index.Upgrade(t.Context(), s, log, form("one", 1), form("other", 7)))
		var b store.Batch
		for i := range 30_000 {
			b.Put(store.FamilyL1Tx, store.PK{P: []byte{byte(i), byte(i >> 8)}}, nil)
		}
		b.Put(store.FamilyL1Height, store.PK{P: []byte("p")}, nil)
		b.Put(store.FamilyVertex, store.PK{P: []byte("kept")}, nil)
		for _, name := range []string{index.Cursor(5, "P", "one+two"), index.Cursor(1, "X", "one"), index.Cursor(5, "P", "other")} {
			b.Move(name, store.Cursor{}, store.Cursor{Next: 9, Epoch: 3})
			b.Put(store.FamilyIndexed, store.PK{P: []byte(name)}, []byte{1, 0})
		}
		require.NoError(t, s.Commit(t.Context(), &b))

		s.left = commits
		err := index.Upgrade(t.Context(), s, log, form("one", 2), form("other", 7))
		s.left = 1000
		switch {
		case err != nil:
			require.ErrorIs(t, err, errFalters)
			// The old program must not go on with what is left.
			if commits > 0 {
				require.ErrorIs(t, index.Upgrade(t.Context(), s, log, form("one", 1)), index.ErrNewer)
			}
			require.NoError(t, index.Upgrade(t.Context(), s, log, form("one", 2), form("other", 7)))
		case commits < 5:
			t.Errorf("after %d commits: got success, want it to take more", commits)
		}
		for family, want := range map[store.Family]int{store.FamilyL1Tx: 0, store.FamilyL1Height: 0, store.FamilyVertex: 1, store.FamilyIndexed: 1} {
			rows, err := s.Walk(t.Context(), family, nil, 10)
			require.NoError(t, err)
			require.Len(t, rows, want, "rows of family %s", family)
		}
		for name, want := range map[string]uint64{index.Cursor(5, "P", "one+two"): 0, index.Cursor(1, "X", "one"): 0, index.Cursor(5, "P", "other"): 9} {
			at, err := store.ReadCursor(t.Context(), s, name)
			require.NoError(t, err)
			require.Equal(t, want, at.Next, "cursor %s", name)
			if want == 0 {
				require.Greater(t, at.Epoch, uint64(3), "the writer before must be fenced")
			}
		}
	}
}

// overtaken lets something happen before its first commit that deletes rows.
type overtaken struct {
	*store.Memory
	between func()
}

func (s *overtaken) Commit(ctx context.Context, b *store.Batch) error {
	if b.Len() > 1000 && s.between != nil {
		between := s.between
		s.between = nil
		between()
	}
	return s.Memory.Commit(ctx, b)
}

// TestUpgradeIsFenced has a process stop while it deletes rows. Another one takes over and indexes the first blocks again.
// The first process must not delete their rows when it goes on.
func TestUpgradeIsFenced(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	form := func(version int) index.Form {
		return index.Form{Name: "one", Version: version, Families: []store.Family{store.FamilyL1Tx}, Cursor: index.CursorOf("one")}
	}
	cursor := index.Cursor(5, "P", "one")
	s := &overtaken{Memory: store.NewMemory()}
	// As in a service, the slots of an index are between the index and the store.
	slots, err := index.OpenSlots(t.Context(), s, index.PrimarySlots, form(2))
	require.NoError(t, err)
	require.NoError(t, index.Upgrade(t.Context(), slots.Store(), log, form(1)))
	var b store.Batch
	for i := range 2000 {
		b.Put(store.FamilyL1Tx, store.PK{P: []byte{byte(i), byte(i >> 8)}}, []byte("old"))
	}
	b.Move(cursor, store.Cursor{}, store.Cursor{Next: 9, Epoch: 3})
	require.NoError(t, s.Commit(t.Context(), &b))

	row := store.PK{P: []byte{1, 0}}
	s.between = func() {
		require.NoError(t, index.Upgrade(t.Context(), slots.Store(), log, form(2)))
		at, err := store.ReadCursor(t.Context(), s, cursor)
		require.NoError(t, err)
		var b store.Batch
		b.Put(store.FamilyL1Tx, row, []byte("new"))
		b.Move(cursor, at, store.Cursor{Next: 1, Epoch: at.Epoch + 1})
		require.NoError(t, s.Commit(t.Context(), &b))
	}
	require.ErrorIs(t, index.Upgrade(t.Context(), slots.Store(), log, form(2)), store.ErrFenced)
	values, err := s.Get(t.Context(), store.FamilyL1Tx, []store.PK{row})
	require.NoError(t, err)
	require.Equal(t, "new", string(values[0]), "the row that was indexed again")
}
