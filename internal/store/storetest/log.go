package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

func newLog(s store.Store, maxBytes uint64) *store.Log {
	return store.NewLog(s, store.FamilySigned, store.FamilySignedKey, []byte("p"), maxBytes)
}

// readLog returns the values after a number, page by page.
func readLog(t testing.TB, l *store.Log, after uint64) (values []string) {
	t.Helper()
	for {
		rows, err := l.Read(t.Context(), after, 7)
		require.NoError(t, err)
		if len(rows) == 0 {
			return values
		}
		for _, row := range rows {
			after++
			require.Equal(t, after, row.Number)
			values = append(values, string(row.V))
		}
	}
}

func testLog(t *testing.T, engine Engine) {
	open := engine.Place(t)
	s := open()
	l := newLog(s, 1<<20)
	ends, err := l.Ends(t.Context())
	require.NoError(t, err)
	require.NotZero(t, ends.ID)
	require.Equal(t, store.LogEnds{ID: ends.ID, Oldest: 1}, ends)
	changed := l.Changed()
	require.NoError(t, l.Append(t.Context(), store.LogEntry{Key: []byte("a"), V: []byte("1")}, store.LogEntry{V: []byte("2")},
		store.LogEntry{Key: []byte("a"), V: []byte("again")}, store.LogEntry{Key: []byte("b")}))
	<-changed
	changed = l.Changed()
	require.NoError(t, l.Append(t.Context(), store.LogEntry{Key: []byte("b"), V: []byte("again")}))
	select {
	case <-changed:
		t.Error("an append that added nothing was announced")
	default:
	}
	require.Equal(t, []string{"1", "2", ""}, readLog(t, l, 0))
	require.Equal(t, []string{""}, readLog(t, l, 2))
	require.Empty(t, readLog(t, l, 3))
	other := store.NewLog(s, store.FamilySigned, store.FamilySignedKey, []byte("q"), 1<<20)
	require.NoError(t, other.Append(t.Context(), store.LogEntry{Key: []byte("a"), V: []byte("other")}))
	require.Equal(t, []string{"other"}, readLog(t, other, 0))
	otherEnds, err := other.Ends(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, ends.ID, otherEnds.ID)
	if engine.Persistent {
		require.NoError(t, s.Close())
		s = open()
		l = newLog(s, 1<<20)
	}
	require.NoError(t, l.Append(t.Context(), store.LogEntry{Key: []byte("a"), V: []byte("again")}, store.LogEntry{V: []byte("4")}))
	require.Equal(t, []string{"1", "2", "", "4"}, readLog(t, l, 0))
	again, err := l.Ends(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.LogEnds{ID: ends.ID, Oldest: 1, Newest: 4}, again)
	require.NoError(t, s.Close())
}

// testLogIsBounded also checks that the rows of keys go with their entries.
func testLogIsBounded(t *testing.T, engine Engine) {
	s := engine.Place(t)()
	l := newLog(s, 4000)
	last := uint64(0)
	for i := range 300 {
		v := bytes.Repeat([]byte{byte(i)}, i%200)
		require.NoError(t, l.Append(t.Context(), store.LogEntry{Key: fmt.Appendf(nil, "%d", i), V: v}))
		last++
	}
	ends, err := l.Ends(t.Context())
	require.NoError(t, err)
	require.Equal(t, last, ends.Newest)
	require.Greater(t, ends.Oldest, uint64(200))
	_, err = l.Read(t.Context(), ends.Oldest-2, 10)
	require.ErrorIs(t, err, store.ErrTruncated)
	require.Len(t, readLog(t, l, ends.Oldest-1), int(ends.Newest-ends.Oldest+1))
	for _, family := range []store.Family{store.FamilySigned, store.FamilySignedKey} {
		rows, err := s.Walk(t.Context(), family, nil, 1000)
		require.NoError(t, err)
		require.Len(t, rows, int(ends.Newest-ends.Oldest+1), family)
	}
	// A removed entry may be appended again. One that exceeds the bound is there alone.
	require.NoError(t, l.Append(t.Context(), store.LogEntry{Key: []byte("0"), V: make([]byte, 5000)}))
	ends, err = l.Ends(t.Context())
	require.NoError(t, err)
	require.Equal(t, last+1, ends.Newest)
	require.Equal(t, ends.Newest, ends.Oldest)
	require.NoError(t, s.Close())
}

// testLogWriters has several processes append the same keys while another one follows.
func testLogWriters(t *testing.T, engine Engine) {
	const writers, keys = 4, 60
	s := engine.Place(t)()
	var running sync.WaitGroup
	for w := range writers {
		l := newLog(s, 1<<20)
		running.Go(func() {
			for i := range keys {
				key := fmt.Appendf(nil, "%d", (i+w)%keys)
				if err := l.Append(t.Context(), store.LogEntry{Key: key, V: key}, store.LogEntry{V: []byte("without a key")}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	reader, after, seen := newLog(s, 1<<20), uint64(0), make(map[string]int)
	for after < keys+writers*keys && !t.Failed() {
		rows, err := reader.Read(t.Context(), after, 10)
		require.NoError(t, err)
		for _, row := range rows {
			after++
			require.Equal(t, after, row.Number)
			seen[string(row.V)]++
		}
	}
	running.Wait()
	require.Equal(t, writers*keys, seen["without a key"])
	for i := range keys {
		require.Equal(t, 1, seen[fmt.Sprint(i)], "key %d", i)
	}
	require.NoError(t, s.Close())
}
