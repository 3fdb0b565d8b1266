package ledger

import (
	"slices"
	"sync"

	"github.com/ava-labs/avalanchego/ids"
)

const (
	// seenAddresses is about how many addresses are remembered, of those with up to
	// seenAccounts accounts, of which seenTotal are in all, of a few hundred bytes each.
	seenAddresses = 2048
	seenAccounts  = 32
	seenTotal     = 10_000
)

// seen remembers which accounts addresses had, so that an engine that is elsewhere can be
// asked for what is in them together with whether there are others. Safe for concurrent
// use; the zero value remembers nothing yet.
type seen struct {
	mu         sync.Mutex
	young, old map[seenAt][]owned // guarded by mu
	accounts   int                // in young, with those replaced; guarded by mu
}

type seenAt struct {
	chainID ids.ID
	address ids.ShortID
}

// of returns what is remembered of addresses, which is not to be changed; nil if it is
// nothing, or they are several.
func (s *seen) of(chainID ids.ID, addresses []ids.ShortID) []owned {
	if len(addresses) != 1 {
		return nil
	}
	at := seenAt{chainID, addresses[0]}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, ok := s.young[at]
	if !ok {
		if all, ok = s.old[at]; ok {
			s.put(at, all)
		}
	}
	return all
}

// note remembers accounts, if they are few.
func (s *seen) note(chainID ids.ID, addresses []ids.ShortID, all []owned) {
	if len(addresses) != 1 || len(all) == 0 || len(all) > seenAccounts {
		return
	}
	at := seenAt{chainID, addresses[0]}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sameAccounts(s.young[at], all) {
		s.put(at, slices.Clone(all))
	}
}

// put is called with mu.
func (s *seen) put(at seenAt, all []owned) {
	if s.young == nil || len(s.young) >= seenAddresses/2 || s.accounts >= seenTotal/2 {
		s.old, s.young, s.accounts = s.young, make(map[seenAt][]owned), 0
	}
	s.young[at] = all
	s.accounts += len(all)
}

func sameAccounts(a, b []owned) bool {
	return slices.EqualFunc(a, b, func(a, b owned) bool { return a.id == b.id })
}
