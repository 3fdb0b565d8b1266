package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// failover is a store whose calls go to another server after a failure.
type failover struct{ store.Store }

// copyOf returns a store with the present rows of another.
func copyOf(t testing.TB, s store.Store) store.Store {
	t.Helper()
	to := store.NewMemory()
	require.NoError(t, store.Copy(t.Context(), s, to, nil, nil))
	return to
}

// TestLogAfterFailover lets a server that lacks the newest entries take over.
//
//test:plain
func TestLogAfterFailover(t *testing.T) {
	for name, lost := range map[string]uint64{"nothing is lost": 0, "one entry is lost": 1, "several are lost": 5} {
		t.Run(name, func(t *testing.T) {
			const stored = 100
			ctx := t.Context()
			s := &failover{store.NewMemory()}
			open := func() *store.Log {
				return store.NewLog(s, store.FamilySigned, store.FamilySignedKey, []byte("p"), 1<<20)
			}
			l, other := open(), open()
			appendTo := func(l *store.Log, n int) {
				for i := range n {
					require.NoError(t, l.Append(ctx, store.LogEntry{V: fmt.Append(nil, i)}))
				}
			}
			appendTo(l, stored-int(lost))
			appendTo(other, 0)
			standby := copyOf(t, s)
			appendTo(l, int(lost))
			before, err := l.Ends(ctx)
			require.NoError(t, err)
			has := func(id, number uint64) bool {
				has, err := other.Has(ctx, id, number)
				require.NoError(t, err)
				return has
			}
			require.True(t, has(before.ID, stored))
			require.False(t, has(before.ID, stored+1))

			s.Store = standby
			require.Equal(t, lost == 0, has(before.ID, stored), "before the next append")
			require.True(t, has(before.ID, stored-lost))
			appendTo(l, int(lost)+1)
			for _, l := range []*store.Log{l, other, open()} {
				after, err := l.Ends(ctx)
				require.NoError(t, err)
				require.Equal(t, lost == 0, after.ID == before.ID)
				require.Equal(t, store.LogEnds{ID: after.ID, Oldest: 1, Newest: stored + 1}, after)
			}
			require.Equal(t, lost == 0, has(before.ID, stored), "the number may be that of another entry")
			appendTo(other, 1)
			rows, err := l.Read(context.WithoutCancel(ctx), stored, 10)
			require.NoError(t, err)
			require.Len(t, rows, 2)
		})
	}
}
