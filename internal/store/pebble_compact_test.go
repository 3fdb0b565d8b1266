package store

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestCompact compacts a store during writes and compares it with one in memory.
func TestCompact(t *testing.T) {
	options := PebbleOptions{Dir: t.TempDir(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20}
	s, err := OpenPebble(t.Context(), options)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	want := NewMemory()
	defer func() { require.NoError(t, want.Close()) }()
	random := rand.New(rand.NewPCG(1, 2))
	write := func(rounds int) {
		for range rounds {
			var batch Batch
			for range 2000 {
				key := binary.BigEndian.AppendUint64(nil, random.Uint64N(50_000))
				if random.IntN(4) == 0 {
					batch.Delete(FamilyMessage, PK{P: key[6:], K: key})
				} else {
					batch.Put(FamilyMessage, PK{P: key[6:], K: key}, binary.BigEndian.AppendUint64(key, random.Uint64()))
				}
			}
			require.NoError(t, s.Commit(t.Context(), &batch))
			require.NoError(t, want.Commit(t.Context(), &batch))
		}
	}
	write(40)
	compacted := make(chan error, 1)
	go func() { compacted <- s.Compact(t.Context()) }()
	write(5)
	require.NoError(t, <-compacted)
	require.NoError(t, s.Compact(t.Context()))
	require.LessOrEqual(t, s.Stats().ReadAmplification, 1, "levels with tables")
	all := func(r Reader) (rows []Entry) {
		for row, err := range Rows(t.Context(), r, FamilyMessage) {
			require.NoError(t, err)
			rows = append(rows, row)
		}
		return rows
	}
	require.Equal(t, all(want), all(s))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write(1)
	require.ErrorIs(t, s.Compact(ctx), context.Canceled)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Compact(t.Context()), ErrClosed)
}

// TestCompactWhenIdle writes a store in one go: it is compacted once writing has stopped,
// and not again before much was written.
func TestCompactWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenPebble(t.Context(), PebbleOptions{Dir: "store", MemTableBytes: 1 << 20, fs: vfs.NewMem()})
		require.NoError(t, err)
		n, random := uint64(0), rand.NewChaCha8([32]byte{})
		write := func(rows int) {
			var b Batch
			for range rows {
				key := binary.BigEndian.AppendUint64(nil, n*0x9e3779b97f4a7c15) // anywhere
				value := make([]byte, 1000)
				_, _ = random.Read(value)
				b.Put(FamilyMessage, PK{P: key}, value)
				n++
			}
			require.NoError(t, s.Commit(t.Context(), &b))
			require.NoError(t, s.db.Flush())
		}
		pass := func(checks int) {
			time.Sleep(time.Duration(checks)*idleInterval + time.Millisecond)
			synctest.Wait()
		}
		for range 3 {
			write(100)
			pass(1)
		}
		pass(idleChecks + 1)
		require.Equal(t, 1, s.Stats().ReadAmplification, "levels with tables")
		write(1)
		pass(2 * idleChecks)
		require.Greater(t, s.Stats().ReadAmplification, 1, "after a single row")
		write(200)
		pass(idleChecks + 1)
		require.Equal(t, 1, s.Stats().ReadAmplification, "after as many rows again")
		require.NoError(t, s.Close())
	})
}
