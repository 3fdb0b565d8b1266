package times

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

// entries returns n sorted entries with random IDs.
func entries(n int) (all [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		entry := make([]byte, entrySize)
		for j := range 4 {
			binary.BigEndian.PutUint64(entry[8*j:], rng.Uint64())
		}
		binary.BigEndian.PutUint64(entry[ids.IDLen:], uint64(1_600_000_000+i))
		all = append(all, entry)
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}

func write(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "times")
	require.NoError(t, os.WriteFile(name, content, 0o600))
	return name
}

func TestTime(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1001} {
		all := entries(n)
		f, err := Open(write(t, slices.Concat(all...)))
		require.NoError(t, err)
		for _, entry := range all {
			at, ok := f.Time(ids.ID(entry[:ids.IDLen]))
			require.True(t, ok)
			require.Equal(t, time.Unix(int64(binary.BigEndian.Uint64(entry[ids.IDLen:])), 0).UTC(), at)
			other := ids.ID(entry[:ids.IDLen])
			other[ids.IDLen-1]++ // only the end differs
			_, ok = f.Time(other)
			require.False(t, ok)
		}
		for _, id := range []ids.ID{{}, ids.ID(bytes.Repeat([]byte{0xff}, ids.IDLen))} {
			_, ok := f.Time(id)
			require.False(t, ok)
		}
		require.NoError(t, f.Close())
		_, ok := f.Time(ids.ID{1})
		require.False(t, ok, "of a closed file")
	}
}

func TestOpenRefuses(t *testing.T) {
	all := entries(3)
	late := slices.Clone(all[2])
	binary.BigEndian.PutUint64(late[ids.IDLen:], 1<<40)
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"cut":         {slices.Concat(all[0], all[1][:20]), "entry 1: "},
		"unsorted":    {slices.Concat(all[1], all[0]), "entry 1: its ID does not follow the one before"},
		"doubled":     {slices.Concat(all[0], all[0]), "entry 1: its ID does not follow the one before"},
		"no time":     {slices.Concat(all[0], late), "entry 1: 1099511627776 s is not a time"},
		"another one": {[]byte("ID,time\n"), "entry 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(write(t, test.content))
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
