package contracts

import (
	"math/rand/v2"

	"github.com/holiman/uint256"
	"github.com/maypok86/otter/v2"

	"github.com/ava-labs/libevm/common"

	chain "quorate/chain/evm"
	"quorate/index/evm"
)

// Remembered is the contract at an address, nil if there is none, as far as that is in
// memory: ok is false if Contracts has to be asked. It waits for nothing.
func (b *Book) Remembered(address common.Address) (found *evm.Contract, ok bool) {
	c, ok := glance(b.contracts, address)
	if ok && c.exists {
		found = &c.Contract
	}
	return found, ok
}

// RememberedURI is what TokenURI tells, as far as that is in memory: ok is false if
// TokenURI has to be asked. It waits for nothing.
func (b *Book) RememberedURI(standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, ok bool) {
	u, ok := glance(b.uris, tokenKey{standard, contract, *tokenID})
	return u.text, ok
}

// noted is how many reads there are for one of which the cache takes note, to decide
// what it may forget: it does so in a goroutine, now and then, and an answer has a
// hundred reads. What is read often is noted often enough.
const noted = 16

func glance[K comparable, V any](cache *otter.Cache[K, V], k K) (V, bool) {
	if rand.IntN(noted) == 0 {
		return cache.GetIfPresent(k)
	}
	e, ok := cache.GetEntryQuietly(k)
	return e.Value, ok
}
