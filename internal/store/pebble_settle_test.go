package store

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A store is settled once much was written and nothing is any more, and not again before
// much was written again.
func TestSettler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		const all = 800
		var written, settled atomic.Uint64
		s := &settler{
			stats:  func() (uint64, uint64) { return written.Load(), all },
			settle: func(context.Context) error { settled.Add(1); written.Add(1); return nil }, // what waits is flushed
			log:    slog.New(slog.DiscardHandler),
		}
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		pass := func(looks int) {
			time.Sleep(time.Duration(looks)*settleEvery + time.Millisecond)
			synctest.Wait()
		}
		pass(10)
		require.Zero(t, settled.Load(), "nothing was written")
		for range 20 { // as much as there is, and it goes on
			written.Add(40)
			pass(1)
		}
		require.Zero(t, settled.Load(), "while it is written to")
		pass(settleQuiet)
		require.EqualValues(t, 1, settled.Load())
		pass(20)
		require.EqualValues(t, 1, settled.Load(), "settling is no reason to settle")
		written.Add(all/settleShare - 1)
		pass(20)
		require.EqualValues(t, 1, settled.Load(), "not worth while")
		written.Add(1)
		pass(20)
		require.EqualValues(t, 2, settled.Load())
		cancel()
		<-ended
	})
}

// Settling leaves what is there as it is, in one place, while it is written to and read.
func TestPebbleSettles(t *testing.T) {
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
	settled := make(chan error, 1)
	go func() { settled <- s.Settle(t.Context()) }()
	write(5)
	require.NoError(t, <-settled)
	require.NoError(t, s.Settle(t.Context()))
	require.LessOrEqual(t, s.Stats().ReadAmplification, 1, "levels with tables")
	all := func(r Reader) (rows []Record) {
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
	require.ErrorIs(t, s.Settle(ctx), context.Canceled)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Settle(t.Context()), ErrClosed)
}
