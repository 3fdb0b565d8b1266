package evmchain

import (
	"math"
	"sort"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
)

// version is the value of a number from a block on. A value of up to 95 bits is in high and
// low; for others, low is the index in state.wide.
type version struct {
	block uint32
	high  uint32
	low   uint64
}

// isWide is the version.high of a value that is in state.wide.
const isWide = math.MaxUint32

// series is a number at every block: 0 before the first version. Versions are in order of
// their blocks, at most one for each block.
type series []version

// account is an address, whether it was ever used or not.
type account struct {
	address common.Address
	nonce   uint64
	balance series // wei
	code    *contract
	// key is the secret key times the x coordinate of secp256k1's generator; nil if there is
	// no key.
	key *uint256.Int
}

// holding identifies a number of a contract: a holder's balance of a token, or with the holder
// supply the total supply. For ERC-721, the ID 0 has the number of tokens of a holder. With the
// holder owner, the number is 1 plus the index of the token's owner in state.owners.
type holding struct {
	contract *contract
	holder   *account
	id       uint256.Int
}

// state is the balances of accounts and contracts at every generated block.
type state struct {
	block    uint32 // the number of the block that is being generated
	wide     []uint256.Int
	accounts map[common.Address]*account
	holdings map[holding]*series
	// owners are accounts that ever owned an ERC-721 token.
	owners  []*account
	ownerOf map[*account]uint64
	// supply and owner stand for no account; see holding.
	supply, owner account
	journal       []change
	// wallets are the holdings of each account; nil without Options.Record.
	wallets map[*account][]holding
}

// change is how to undo a change.
type change struct {
	of    *series
	old   version
	grown bool
	undo  func() // if it is not a change of a series
}

func newState(record bool) *state {
	s := &state{
		accounts: make(map[common.Address]*account), holdings: make(map[holding]*series), ownerOf: make(map[*account]uint64),
	}
	if record {
		s.wallets = make(map[*account][]holding)
	}
	return s
}

func (s *state) account(address common.Address) *account {
	a := s.accounts[address]
	if a == nil {
		a = &account{address: address}
		s.accounts[address] = a
	}
	return a
}

// holding returns the number of a holding; it creates one of 0 if there is none.
func (s *state) holding(c *contract, holder *account, id *uint256.Int) *series {
	h := holding{contract: c, holder: holder, id: *id}
	of := s.holdings[h]
	if of == nil {
		of = new(series)
		s.holdings[h] = of
		if s.wallets != nil && holder != &s.supply && holder != &s.owner {
			s.wallets[holder] = append(s.wallets[holder], h)
		}
	}
	return of
}

// at returns a number at the end of a block.
func (s *state) at(of *series, block uint32) uint256.Int {
	if of == nil {
		return uint256.Int{}
	}
	i := sort.Search(len(*of), func(i int) bool { return (*of)[i].block > block })
	if i == 0 {
		return uint256.Int{}
	}
	return s.number((*of)[i-1])
}

func (s *state) number(v version) uint256.Int {
	if v.high == isWide {
		return s.wide[v.low]
	}
	return uint256.Int{v.low, uint64(v.high)}
}

func (s *state) now(of *series) uint256.Int {
	if len(*of) == 0 {
		return uint256.Int{}
	}
	return s.number((*of)[len(*of)-1])
}

func (s *state) set(of *series, n *uint256.Int) {
	v := version{block: s.block, high: uint32(n[1]), low: n[0]}
	if n[3] != 0 || n[2] != 0 || n[1] >= isWide {
		v.high, v.low = isWide, uint64(len(s.wide))
		s.wide = append(s.wide, *n)
	}
	if last := len(*of) - 1; last >= 0 && (*of)[last].block == s.block {
		s.journal = append(s.journal, change{of: of, old: (*of)[last]})
		(*of)[last] = v
		return
	}
	s.journal = append(s.journal, change{of: of, grown: true})
	*of = append(*of, v)
}

// add and sub return false, and change nothing, on overflow.
func (s *state) add(of *series, n *uint256.Int) bool {
	old := s.now(of)
	sum, overflow := new(uint256.Int).AddOverflow(&old, n)
	if overflow {
		return false
	}
	s.set(of, sum)
	return true
}

func (s *state) sub(of *series, n *uint256.Int) bool {
	old := s.now(of)
	if old.Lt(n) {
		return false
	}
	s.set(of, new(uint256.Int).Sub(&old, n))
	return true
}

// move transfers wei. It returns false if from has less.
func (s *state) move(from, to *account, wei *uint256.Int) bool {
	if wei.IsZero() {
		return true
	}
	return s.sub(&from.balance, wei) && s.add(&to.balance, wei)
}

// undo undoes the changes since the journal had the given length.
func (s *state) undo(length int) {
	for i := len(s.journal) - 1; i >= length; i-- {
		switch c := &s.journal[i]; {
		case c.undo != nil:
			c.undo()
		case c.grown:
			*c.of = (*c.of)[:len(*c.of)-1]
		default:
			(*c.of)[len(*c.of)-1] = c.old
		}
	}
	clear(s.journal[length:])
	s.journal = s.journal[:length]
}

// setOwner sets the owner of an ERC-721 token; nil means none.
func (s *state) setOwner(c *contract, id *uint256.Int, to *account) {
	var n uint256.Int
	if to != nil {
		place, ok := s.ownerOf[to]
		if !ok {
			place = uint64(len(s.owners))
			s.owners = append(s.owners, to)
			s.ownerOf[to] = place
		}
		n.SetUint64(place + 1)
	}
	s.set(s.holding(c, &s.owner, id), &n)
}

// ownerAt returns the owner of an ERC-721 token at the end of a block; nil if it has none.
func (s *state) ownerAt(c *contract, id *uint256.Int, block uint32) *account {
	n := s.at(s.holdings[holding{contract: c, holder: &s.owner, id: *id}], block)
	if n.IsZero() {
		return nil
	}
	return s.owners[n.Uint64()-1]
}

// balanceAt returns a holder's balance of a token at the end of a block.
func (s *state) balanceAt(c *contract, holder *account, id *uint256.Int, block uint32) uint256.Int {
	return s.at(s.holdings[holding{contract: c, holder: holder, id: *id}], block)
}
