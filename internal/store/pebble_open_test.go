package store

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestReplayIsBounded writes many buffers, crashes at several moments, and sees how much
// of it the store replays: never more than the buffers that there may be.
func TestReplayIsBounded(t *testing.T) {
	disk := vfs.NewCrashableMem()
	options := PebbleOptions{Dir: "store", MemTableBytes: 1 << 20, fs: disk}
	s, err := OpenPebble(t.Context(), options)
	require.NoError(t, err)
	require.Zero(t, s.Opening().Replayed, "of a fresh store")
	defer func() { require.NoError(t, s.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 1000)
	n := uint64(0)
	for range 5 {
		for range 30 {
			var b Batch
			for range 100 {
				for i := range value {
					value[i] = byte(rng.Uint32())
				}
				b.Put(FamilyMessage, PK{P: binary.BigEndian.AppendUint64(nil, n)}, bytes.Clone(value))
				n++
			}
			require.NoError(t, s.Commit(t.Context(), &b))
		}
		crashed := options
		crashed.fs = disk.CrashClone(vfs.CrashCloneCfg{})
		again, err := OpenPebble(t.Context(), crashed)
		require.NoError(t, err)
		o := again.Opening()
		require.LessOrEqual(t, o.Replayed, uint64(fullBuffers+1)*1<<20, "replayed after %d rows, the buffers of growing sizes it began with included", n)
		require.Positive(t, o.Replay)
		rows, err := again.Get(t.Context(), FamilyMessage, []PK{{P: binary.BigEndian.AppendUint64(nil, n-1)}})
		require.NoError(t, err)
		require.NotNil(t, rows[0], "the last row before the crash")
		require.NoError(t, again.Close())
	}
}

// allowing is an engine that allows a number of compactions, and has some that wait.
type allowing struct {
	mu               sync.Mutex
	allowed, waiting int
	scheduled        int
	handle           pebble.CompactionGrantHandle
	whileAsked       func()
}

func (a *allowing) GetAllowedWithoutPermission() int { return a.allowed }

func (a *allowing) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whileAsked != nil {
		a.whileAsked()
		a.whileAsked = nil
	}
	return a.waiting > 0, pebble.WaitingCompaction{}
}

func (a *allowing) Schedule(handle pebble.CompactionGrantHandle) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == 0 {
		return false
	}
	a.waiting--
	a.scheduled++
	a.handle = handle
	return true
}

// TestCompactionsWaitUntilOpen: the engine waits for those under way before it is open.
func TestCompactionsWaitUntilOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, plan := &allowing{allowed: 1, waiting: 2}, newCompactionPlan()
		plan.Register(1, engine)
		granted, _ := plan.TrySchedule()
		require.False(t, granted, "while the store opens")
		plan.UpdateGetAllowedWithoutPermission() // after a flush
		synctest.Wait()
		require.Zero(t, engine.scheduled, "compactions while the store opens")
		plan.begin()
		synctest.Wait()
		require.Equal(t, 1, engine.scheduled, "compactions once it is open, of one allowed and two that wait")
		granted, _ = plan.TrySchedule()
		require.False(t, granted, "a second one")
		engine.handle.Done()
		synctest.Wait()
		require.Equal(t, 2, engine.scheduled, "after the first one's end")
		engine.handle.Done()
		synctest.Wait()
		granted, handle := plan.TrySchedule()
		require.True(t, granted, "when none runs")
		// What is refused while the plan asks in vain what waits is not forgotten.
		handle.Done()
		synctest.Wait()
		engine.mu.Lock()
		engine.whileAsked = func() {
			granted, _ := plan.TrySchedule()
			require.False(t, granted, "while the only one is about to be granted")
			engine.waiting = 0
		}
		engine.mu.Unlock()
		plan.UpdateGetAllowedWithoutPermission()
		synctest.Wait()
		require.False(t, plan.refused, "asked again after what was refused")
		plan.Unregister()
		granted, _ = plan.TrySchedule()
		require.False(t, granted, "after the end")
	})
}
