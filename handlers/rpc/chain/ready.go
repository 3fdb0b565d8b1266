package chain

import (
	"sync/atomic"

	"quorate/internal/index"
)

// Ready returns a function that reports whether the chain can be asked: its index has reached the last block once and
// has not stopped for good. The function is safe for concurrent use.
func Ready(status func() index.Status) func() bool {
	var once atomic.Bool
	return func() bool {
		s := status()
		if s.State == index.Stopped {
			return false // the index is no longer updated
		}
		if once.Load() {
			return true
		}
		if s.TipKnown && s.Lag() == 0 && s.Next >= s.Kept {
			once.Store(true)
		}
		return once.Load()
	}
}
