package contracts

import (
	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/chain/evm"
	"quorate/index/evm"
)

// Remembered is the contract at an address, nil if there is none, as far as that is in
// memory: ok is false if Contracts has to be asked. It waits for nothing.
func (b *Book) Remembered(address common.Address) (found *evm.Contract, ok bool) {
	c, ok := b.contracts.GetIfPresent(address)
	if ok && c.exists {
		found = &c.Contract
	}
	return found, ok
}

// RememberedURI is what TokenURI tells, as far as that is in memory: ok is false if
// TokenURI has to be asked. It waits for nothing.
func (b *Book) RememberedURI(standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, ok bool) {
	u, ok := b.uris.GetIfPresent(tokenKey{standard, contract, *tokenID})
	return u.text, ok
}
