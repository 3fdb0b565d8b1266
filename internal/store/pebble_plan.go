package store

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactionPlan lets as many compactions run as the engine allows, as its own scheduler
// does, but none until the store is open. What was replayed is flushed while it opens,
// after which a compaction is often due, and before it is open the engine waits for those
// that are under way: for seconds, in which nothing is served.
//
// Its mutex is taken after the engine's, so that it is not held in calls of the engine
// that take that one.
type compactionPlan struct {
	db   pebble.DBForCompaction // set by Register, before all else
	wake chan struct{}          // holds an element if there may be something to grant
	stop chan struct{}          // closed by Unregister

	granting sync.WaitGroup // one goroutine, from begin to Unregister

	mu      sync.Mutex
	open    bool // guarded by mu
	ended   bool // guarded by mu
	running int  // compactions granted; guarded by mu
	// refused says that the engine was refused one since it was last asked what waits.
	refused bool // guarded by mu
}

func newCompactionPlan() *compactionPlan {
	return &compactionPlan{wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// begin lets compactions run, of which there may be one that waits.
func (c *compactionPlan) begin() {
	c.mu.Lock()
	c.open = true
	c.mu.Unlock()
	c.granting.Go(func() {
		for {
			select {
			case <-c.stop:
				return
			case <-c.wake:
				c.grant()
			}
		}
	})
	c.poke()
}

func (c *compactionPlan) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// grant has the engine begin what waits, as far as it allows.
func (c *compactionPlan) grant() {
	for c.take(false) {
		if waiting, _ := c.db.GetWaitingCompaction(); waiting && c.db.Schedule(c) {
			continue
		}
		c.mu.Lock()
		c.running--
		again := c.refused // because of what was taken in vain
		c.mu.Unlock()
		if !again {
			return
		}
	}
}

// take counts one more compaction, unless there are as many as the engine allows.
func (c *compactionPlan) take(asked bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok := c.open && !c.ended && c.running < c.db.GetAllowedWithoutPermission()
	c.refused = asked && !ok
	if ok {
		c.running++
	}
	return ok
}

// Register implements pebble.CompactionScheduler.
func (c *compactionPlan) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler.
func (c *compactionPlan) Unregister() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	close(c.stop)
	c.granting.Wait()
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *compactionPlan) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.take(true) {
		return false, nil
	}
	return true, c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The engine
// calls it after each flush.
func (c *compactionPlan) UpdateGetAllowedWithoutPermission() { c.poke() }

// Started implements pebble.CompactionGrantHandle.
func (c *compactionPlan) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactionPlan) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactionPlan) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle: a compaction has ended.
func (c *compactionPlan) Done() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	c.poke()
}
