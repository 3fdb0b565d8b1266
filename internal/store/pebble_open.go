package store

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Opening is what opening a store took, part by part.
type Opening struct {
	// Replay is reading the list of tables and the log of what was in no table, and
	// Flush writing that to tables, which comes before anything is served. Rest is what
	// came after. Replay has everything if there was nothing to flush.
	Replay, Flush, Rest time.Duration
	// Replayed is how much was in no table, in bytes of write buffers. It has a bound:
	// see PebbleOptions.MemTableBytes.
	Replayed uint64
}

// Opening tells what OpenPebble took.
func (s *Pebble) Opening() Opening { return s.opening }

// openingWatch follows the opening of a store by the engine's events.
type openingWatch struct {
	listener pebble.EventListener
	begun    time.Time
	plan     *compactionPlan

	mu            sync.Mutex
	done          bool      // guarded by mu
	replayed      uint64    // guarded by mu
	first, latest time.Time // when flushing began and ended; guarded by mu
}

func watchOpening(log *slog.Logger) *openingWatch {
	w := &openingWatch{listener: pebbleEvents(log), begun: time.Now(), plan: newCompactionPlan()}
	w.listener.FlushBegin = func(info pebble.FlushInfo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.done {
			return
		}
		if w.first.IsZero() {
			w.first = time.Now()
		}
		w.replayed += info.InputBytes
	}
	w.listener.FlushEnd = func(pebble.FlushInfo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.done {
			w.latest = time.Now()
		}
	}
	return w
}

// end is called once the store is open.
func (w *openingWatch) end() Opening {
	w.plan.begin()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	now := time.Now()
	if w.first.IsZero() || w.latest.IsZero() {
		return Opening{Replay: now.Sub(w.begun)}
	}
	return Opening{Replay: w.first.Sub(w.begun), Flush: w.latest.Sub(w.first), Rest: now.Sub(w.latest), Replayed: w.replayed}
}
