package container

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/store"
)

func TestContainersComeBack(t *testing.T) {
	s := store.NewMemory()
	c := Chain{NetworkID: 5, Name: "P"}
	at := time.Unix(1_600_000_000, 123456789).UTC()
	want := []Container{
		{Height: 1022, Form: Bare, Bytes: []byte("bare")},
		{Height: 1023, Form: Accepted, ID: hashing.ComputeHash256Array([]byte("hashed")), Time: at, Bytes: []byte("hashed"), Digest: hashing.ComputeHash256Array([]byte("hashed"))},
		{Height: 1024, Form: Accepted, ID: ids.ID{7}, Time: at, Kept: at.Add(time.Hour), Bytes: []byte("known by another ID")},
		{Height: 1025, Form: Part, Kept: at, Bytes: []byte{}},
		{Height: 1027, Form: Bare, Bytes: []byte("after a gap")},
	}
	var b store.Batch
	for i := range want {
		c.Put(&b, &want[i])
		Chain{NetworkID: 5, Name: "X"}.Put(&b, &Container{Height: want[i].Height, Form: Bare, Bytes: []byte("another chain's")})
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	for _, test := range []struct {
		from uint64
		n    int
		want []Container
	}{
		{1022, 10, want[0:2]}, // at the end of a partition
		{1024, 10, want[2:4]},
		{1024, 1, want[2:3]},
		{1026, 10, nil},
		{5, 10, nil},
	} {
		got, err := c.Range(t.Context(), s, test.from, test.n)
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%d from %d on", test.n, test.from)
	}
	one, err := c.Get(t.Context(), s, 1024)
	require.NoError(t, err)
	require.Equal(t, want[2], one)
	for _, one := range want {
		require.Equal(t, ids.ID(hashing.ComputeHash256Array(one.Bytes)), one.Hash())
	}
	_, err = c.Get(t.Context(), s, 1026)
	require.ErrorIs(t, err, ErrMissing)
	one, err = c.ByID(t.Context(), s, ids.ID{7})
	require.NoError(t, err)
	require.Equal(t, want[2], one)
	one, err = c.ByID(t.Context(), s, want[1].ID)
	require.NoError(t, err)
	require.Equal(t, want[1], one)
	for _, missing := range []ids.ID{{8}, {7, 31: 1}, {7, 20: 1}} {
		_, err = c.ByID(t.Context(), s, missing)
		require.ErrorIs(t, err, ErrMissing, "%s", missing)
	}

	// The key format of older stores.
	whole := Container{Height: 77, Form: Accepted, ID: ids.ID{9}, Time: at, Bytes: []byte("found by its whole ID")}
	b.Reset()
	c.Put(&b, &whole)
	b.Delete(store.FamilyContainerID, c.idKey(ids.ID{9}))
	b.Put(store.FamilyContainerID, c.wholeIDKey(ids.ID{9}), []byte{77})
	require.NoError(t, s.Commit(t.Context(), &b))
	one, err = c.ByID(t.Context(), s, ids.ID{9})
	require.NoError(t, err)
	require.Equal(t, whole, one)
}

func TestLacks(t *testing.T) {
	at := time.Unix(1_600_000_000, 0).UTC()
	p, x := Chain{NetworkID: 5, Name: "P"}, Chain{NetworkID: 5, Name: "X"}
	write := func(restarts ...uint64) *store.Memory {
		s := store.NewMemory()
		onP, onX := NewWriter(p), NewWriter(x)
		for height := range uint64(3000) {
			var b store.Batch
			if slices.Contains(restarts, height) {
				onP = NewWriter(p)
				require.NoError(t, onP.Resume(t.Context(), s, height))
			}
			one := Container{Height: height, Form: Accepted, ID: ids.ID{byte(height), byte(height >> 8), 1}, Time: at}
			onX.Put(&b, &one)
			switch {
			case height == 0 || height >= 1500 && height < 1600:
				one = Container{Height: height, Form: Bare, Bytes: []byte("bare")}
			case height >= 1600 && height < 1700:
				one = Container{Height: height, Form: Part}
			}
			onP.Put(&b, &one)
			require.NoError(t, s.Commit(t.Context(), &b))
		}
		return s
	}
	s := write()
	for _, test := range []struct {
		chain       string
		from, until uint64
		want        bool
	}{
		{"P", 0, 3000, true},
		{"P", 1, 3000, true},
		{"P", 1, 1500, false},
		{"P", 1, 1501, true},
		{"P", 1550, 1551, true},
		{"P", 1600, 3000, true},
		{"P", 1700, 3000, false},
		{"X", 0, 3000, false},
		{"V", 0, 3000, false}, // without any
	} {
		got, err := Chain{NetworkID: 5, Name: test.chain}.Lacks(t.Context(), s, test.from, test.until)
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%+v", test)
	}
	want, err := store.DumpHash(t.Context(), s)
	require.NoError(t, err)
	got, err := store.DumpHash(t.Context(), write(0, 1, 1500, 1501, 1600, 1650, 1700, 2000))
	require.NoError(t, err)
	require.Equal(t, want, got, "rows that depend on restarts")

	// A store that was begun without these rows.
	var b store.Batch
	b.Delete(store.FamilyContainerID, p.lackKey(0))
	require.NoError(t, s.Commit(t.Context(), &b))
	lacks, err := p.Lacks(t.Context(), s, 1700, 3000)
	require.NoError(t, err)
	require.True(t, lacks)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Add(append([]byte{0x11, 0}, make([]byte, 40)...))
	f.Add(append([]byte{0x42, 0}, make([]byte, 90)...))
	f.Fuzz(func(t *testing.T, v []byte) {
		c := Chain{NetworkID: 1, Name: "P"}
		s := store.NewMemory()
		var b store.Batch
		b.Put(store.FamilyContainer, c.key(3), v)
		require.NoError(t, s.Commit(t.Context(), &b))
		one, err := c.Get(t.Context(), s, 3)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			return
		}
		b.Reset()
		c.Put(&b, &one)
		require.NoError(t, s.Commit(t.Context(), &b))
		again, err := c.Get(t.Context(), s, 3)
		require.NoError(t, err)
		require.Equal(t, one.Form, again.Form)
		require.Equal(t, one.ID, again.ID)
		require.Equal(t, one.Kept, again.Kept)
		require.Equal(t, string(one.Bytes), string(again.Bytes))
	})
}
