package evm

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// holdingKey identifies a wallet's holding of an ERC-1155 token.
type holdingKey [common.AddressLength + len(tokenKey{})]byte

func holdingKeyOf(wallet common.Address, token *tokenKey) (k holdingKey) {
	copy(k[:], wallet[:])
	copy(k[common.AddressLength:], token[:])
	return k
}

func (k *holdingKey) wallet() []byte { return k[:common.AddressLength] }
func (k *holdingKey) token() []byte  { return k[common.AddressLength:] }

// balanceAtSize is the length of the keys of FamilyEVMBalanceAt.
const balanceAtSize = len(tokenKey{}) + 8

// holding is a wallet's balance of a token.
type holding struct {
	amount uint256.Int
	// before is the balance before the last block that changed it.
	before  uint256.Int
	touched touch
}

// supply is an exact sum of transfers: that of all wallets' balances of an ERC-1155 token, or that of one wallet's
// transfers of an ERC-20 token. It may exceed 2^256-1, or be negative, if the contract's events are inconsistent.
type supply struct {
	total, before wide
	touched       touch
}

// touch is the last block that changed a row, if any.
type touch struct {
	number uint64
	ever   bool
}

// by marks block number and reports whether this is the block's first change.
func (t *touch) by(number uint64) bool {
	if t.ever && t.number == number {
		return false
	}
	t.number, t.ever = number, true
	return true
}

// wide is an integer modulo 2^320. Readers of sums that may be negative take its high part as signed.
type wide struct {
	low  uint256.Int
	high uint64
}

func (w *wide) add(n *uint256.Int) {
	if _, over := w.low.AddOverflow(&w.low, n); over {
		w.high++
	}
}

func (w *wide) plus(n *wide) {
	w.add(&n.low)
	w.high += n.high
}

func (w *wide) sub(n *uint256.Int) {
	if _, under := w.low.SubOverflow(&w.low, n); under {
		w.high--
	}
}

// sides returns the wallets of a transfer whose balances change.
func sides(t *evm.Transfer) (wallets [2]common.Address, n int) {
	for _, side := range [...]common.Address{t.From, t.To} {
		if side != (common.Address{}) {
			wallets[n] = side
			n++
		}
	}
	return wallets, n
}

// resolve reads the holdings and supplies that the block may change and that are not cached.
func (a *application) resolve(ctx context.Context, r store.Reader) error {
	var keys []store.PK
	var holdings []holdingKey
	var supplyKeys []store.PK
	var supplies []tokenKey
	for i := range a.transfers {
		t := &a.transfers[i]
		if t.Standard != evm.ERC1155 {
			continue
		}
		id := t.TokenID.Bytes32()
		token := tokenKeyOf(t.Contract, &id)
		if _, ok := a.supplies.Get(token); !ok {
			a.supplies.Put(token, new(supply), 0)
			supplies = append(supplies, token)
			supplyKeys = append(supplyKeys, a.supplyRow(&token))
		}
		wallets, n := sides(t)
		for _, wallet := range wallets[:n] {
			k := holdingKeyOf(wallet, &token)
			if _, ok := a.holdings.Get(k); ok {
				continue
			}
			a.holdings.Put(k, new(holding), 0)
			holdings = append(holdings, k)
			keys = append(keys, store.PK{P: a.in(k.wallet()), K: a.keep(k.token())})
		}
	}
	if len(holdings) > 0 {
		values, err := r.Get(ctx, store.FamilyEVMBalance, keys)
		if err != nil {
			return fmt.Errorf("reading balances: %w", err)
		}
		for i, v := range values {
			since, amount, err := parseBalance(v)
			if err != nil {
				return err
			}
			// A row from this block or later belongs to an earlier index of these blocks, and does not count.
			if h, _ := a.holdings.Get(holdings[i]); since < a.block.Number {
				h.amount = amount
			}
		}
	}
	if len(supplies) > 0 {
		values, err := r.Get(ctx, store.FamilyEVMSupply, supplyKeys)
		if err != nil {
			return fmt.Errorf("reading supplies: %w", err)
		}
		for i, v := range values {
			since, total, err := parseSupply(v)
			if err != nil {
				return err
			}
			if s, _ := a.supplies.Get(supplies[i]); since < a.block.Number {
				s.total = total
			}
		}
	}
	return nil
}

func (a *application) supplyRow(token *tokenKey) store.PK {
	return store.PK{P: a.in(token[:common.AddressLength]), K: a.keep(token[common.AddressLength:])}
}

// move changes the balances of both sides of an ERC-1155 transfer.
func (a *application) move(t *evm.Transfer) {
	id := t.TokenID.Bytes32()
	token := tokenKeyOf(t.Contract, &id)
	s, _ := a.supplies.Get(token)
	if s.touched.by(a.block.Number) {
		s.before = s.total
		a.changedSupplies = append(a.changedSupplies, token)
		a.supplies.Put(token, s, a.block.Number)
	}
	if t.From != (common.Address{}) {
		h := a.holding(t.From, &token)
		gone := t.Amount
		if h.amount.Lt(&gone) {
			gone = h.amount
		}
		h.amount.Sub(&h.amount, &gone)
		s.total.sub(&gone)
	}
	if t.To != (common.Address{}) {
		h := a.holding(t.To, &token)
		before := h.amount
		if _, over := h.amount.AddOverflow(&before, &t.Amount); over {
			h.amount.SetAllOne()
		}
		var come uint256.Int
		s.total.add(come.Sub(&h.amount, &before))
	}
}

// holding returns a holding that is about to change.
func (a *application) holding(wallet common.Address, token *tokenKey) *holding {
	k := holdingKeyOf(wallet, token)
	h, _ := a.holdings.Get(k)
	if h.touched.by(a.block.Number) {
		h.before = h.amount
		a.changed = append(a.changed, k)
		a.holdings.Put(k, h, a.block.Number)
	}
	return h
}

// balances writes the changes of the whole block.
func (a *application) balances() {
	for i := range a.changed {
		k := &a.changed[i]
		h, _ := a.holdings.Get(*k)
		if h.amount == h.before {
			continue
		}
		p := a.in(k.wallet())
		a.batch.Put(store.FamilyEVMBalance, store.PK{P: p, K: a.keep(k.token())}, a.kept(appendBalance(a.value(), a.block.Number, &h.amount)))
		key := binary.BigEndian.AppendUint64(append(a.reserve(balanceAtSize), k.token()...), a.block.Number)
		a.batch.Put(store.FamilyEVMBalanceAt, store.PK{P: p, K: key}, a.kept(appendUint256(a.value(), &h.amount)))
	}
	for i := range a.changedSupplies {
		token := &a.changedSupplies[i]
		s, _ := a.supplies.Get(*token)
		switch {
		case s.total == s.before:
		case s.total == wide{}:
			a.batch.Delete(store.FamilyEVMSupply, a.supplyRow(token))
		default:
			v := binary.AppendUvarint(a.value(), a.block.Number)
			v = binary.AppendUvarint(appendUint256(v, &s.total.low), s.total.high)
			a.batch.Put(store.FamilyEVMSupply, a.supplyRow(token), a.kept(v))
		}
	}
}

// appendBalance appends a balance and the block from which on it holds.
func appendBalance(b []byte, since uint64, amount *uint256.Int) []byte {
	return appendUint256(binary.AppendUvarint(b, since), amount)
}

// parseBalance decodes a balance. It returns zeros for a missing row.
func parseBalance(v []byte) (since uint64, amount uint256.Int, err error) {
	if v == nil {
		return 0, amount, nil
	}
	r := read(v)
	since, amount = r.Number(), r.uint256()
	return since, amount, r.End()
}

// parseSupply decodes a supply. It returns zeros for a missing row.
func parseSupply(v []byte) (since uint64, total wide, err error) {
	if v == nil {
		return 0, wide{}, nil
	}
	r := read(v)
	since = r.Number()
	total = wide{low: r.uint256(), high: r.Number()}
	return since, total, r.End()
}
