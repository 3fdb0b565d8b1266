package ledger

import (
	"slices"
	"sync"

	"github.com/ava-labs/avalanchego/ids"
)

const (
	// accountCache holds about cachedAddresses addresses with at most cachedAccounts accounts each and cachedTotal accounts
	// together. An account takes a few hundred bytes.
	cachedAddresses = 2048
	cachedAccounts  = 32
	cachedTotal     = 10_000
)

// accountCache holds the accounts of addresses. It lets a query read the rows of known accounts and search for new
// accounts in one exchange with a remote store. It is safe for concurrent use. The zero value is an empty cache.
type accountCache struct {
	mu         sync.Mutex
	young, old map[cacheKey][]owned // guarded by mu
	accounts   int                  // in young, including replaced ones; guarded by mu
}

type cacheKey struct {
	chainID ids.ID
	address ids.ShortID
}

// of returns the cached accounts of a single address, or nil. The result must not be modified.
func (s *accountCache) of(chainID ids.ID, addresses []ids.ShortID) []owned {
	if len(addresses) != 1 {
		return nil
	}
	at := cacheKey{chainID, addresses[0]}
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

// note caches the accounts of a single address if there are few.
func (s *accountCache) note(chainID ids.ID, addresses []ids.ShortID, all []owned) {
	if len(addresses) != 1 || len(all) == 0 || len(all) > cachedAccounts {
		return
	}
	at := cacheKey{chainID, addresses[0]}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sameAccounts(s.young[at], all) {
		s.put(at, slices.Clone(all))
	}
}

// put requires mu.
func (s *accountCache) put(at cacheKey, all []owned) {
	if s.young == nil || len(s.young) >= cachedAddresses/2 || s.accounts >= cachedTotal/2 {
		s.old, s.young, s.accounts = s.young, make(map[cacheKey][]owned), 0
	}
	s.young[at] = all
	s.accounts += len(all)
}

func sameAccounts(a, b []owned) bool {
	return slices.EqualFunc(a, b, func(a, b owned) bool { return a.id == b.id })
}
