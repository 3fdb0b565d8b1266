package ledger

import (
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/bounded"
)

const (
	// accountCache holds at most cachedTotal accounts of addresses that have at most cachedAccounts each. An account takes
	// a few hundred bytes.
	cachedAccounts = 32
	cachedTotal    = 10_000
)

// accountCache holds the accounts of addresses. It lets a query read the rows of known accounts and search for new
// accounts in one exchange with a remote store. It is safe for concurrent use.
type accountCache struct {
	accounts *bounded.Cache[cacheKey, []owned]
}

type cacheKey struct {
	chainID ids.ID
	address ids.ShortID
}

func newAccountCache() accountCache {
	return accountCache{bounded.New(bounded.Options[cacheKey, []owned]{
		Weight: cachedTotal,
		Weigh:  func(_ cacheKey, all []owned) uint32 { return uint32(len(all)) },
	})}
}

// of returns the cached accounts of a single address, or nil. The result must not be modified.
func (s *accountCache) of(chainID ids.ID, addresses []ids.ShortID) []owned {
	if len(addresses) != 1 {
		return nil
	}
	all, _ := s.accounts.Get(cacheKey{chainID, addresses[0]})
	return all
}

// note caches the accounts of a single address if there are few.
func (s *accountCache) note(chainID ids.ID, addresses []ids.ShortID, all []owned) {
	if len(addresses) != 1 || len(all) == 0 || len(all) > cachedAccounts {
		return
	}
	at := cacheKey{chainID, addresses[0]}
	if cached, _ := s.accounts.Get(at); !sameAccounts(cached, all) {
		s.accounts.Set(at, slices.Clone(all))
	}
}

func sameAccounts(a, b []owned) bool {
	return slices.EqualFunc(a, b, func(a, b owned) bool { return a.id == b.id })
}
