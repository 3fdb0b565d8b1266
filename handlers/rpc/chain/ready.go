package chain

import (
	"sync/atomic"

	"quorate/internal/index"
)

// Ready makes of a chain's status what says whether the chain can be asked: from when
// it was recorded up to its end for the first time on, as
// long as recording has not ended for good. It is safe for concurrent use.
func Ready(status func() index.Status) func() bool {
	var once atomic.Bool
	return func() bool {
		s := status()
		if s.State == index.Stopped {
			return false // what there is gets old, and nobody adds to it
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
