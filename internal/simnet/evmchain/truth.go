package evmchain

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// Truth is what is true of a chain, as the generator knows it without reading its
// blocks. What it returns is as it was up to the newest block that was made.
type Truth struct {
	g      *Generator
	blocks []*evm.Block // by number
	// The following are in the order of the chain.
	internals   []Internal
	transfers   []Transfer
	deployments []Deployment
}

// Internal is a call inside a transaction, or a creation.
type Internal struct {
	Block   uint64
	TxIndex uint32
	TxHash  common.Hash
	evm.Frame
}

// Transfer is a transfer of a token: of a contract that is one.
type Transfer struct {
	Block   uint64
	TxIndex uint32
	TxHash  common.Hash
	evm.Transfer
}

// Deployment is a contract that was created.
type Deployment struct {
	Block   uint64
	TxIndex uint32
	TxHash  common.Hash
	// Contract was created by a transaction of the Deployer, or inside of one, by the
	// contract Creator.
	Contract, Deployer common.Address
	Creator            *common.Address
	// Gone says that it destroyed itself in the same transaction, so that it never had
	// code.
	Gone bool
}

// Balance is what a wallet has of a token of an ERC-1155 contract.
type Balance struct {
	Contract common.Address
	TokenID  uint256.Int
	Amount   uint256.Int
}

// Token is a token that somebody has. Owner is nil for ERC-1155.
type Token struct {
	TokenID uint256.Int
	Owner   *common.Address
}

// Contract is what a contract says of itself.
type Contract struct {
	Address      common.Address
	Standard     evm.Standard
	Name, Symbol string
	// Decimals are those of an ERC-20, nil for others.
	Decimals *uint8
}

// decode is a transaction as whoever reads it should have it.
func (g *Generator) decode(t *transaction, p *plan, hash common.Hash, nonce uint64, firstLog int) evm.Transaction {
	x := &g.x
	own := &x.frames[0]
	d := evm.Transaction{
		Hash: hash, Type: t.kind, Nonce: nonce, From: p.from.address, Value: p.value, Input: p.input,
		GasLimit: p.limit, GasUsed: own.used, GasPrice: t.price, Success: own.failure == "",
		Frames: []evm.Frame{},
	}
	if p.to != nil {
		to := p.to.address
		d.To = &to
	} else {
		d.Created = own.to.address
	}
	if t.kind == 2 {
		d.MaxFee, d.MaxPriorityFee = t.fee.Clone(), t.tip.Clone()
	}
	for i := range x.logs {
		l := &x.logs[i]
		d.Logs = append(d.Logs, evm.Log{Index: uint32(firstLog + i), Address: l.address, Topics: l.topics, Data: l.data})
	}
	failed := make([]bool, len(x.frames))
	var around []int
	for i := range x.frames {
		f := &x.frames[i]
		around = append(around[:f.depth], i)
		failed[i] = f.failure != "" || f.depth > 0 && failed[around[f.depth-1]]
		if i == 0 {
			continue
		}
		e := evm.Frame{Type: f.op, From: f.from.address, To: f.to.address, Value: f.value, Gas: f.gas, GasUsed: f.used, Reverted: failed[i], Depth: uint16(f.depth)}
		if f.failure != "" && creates(f.op) {
			e.To = common.Address{}
		}
		if f.op == evm.FrameDelegateCall || f.op == evm.FrameStaticCall {
			e.Value.Clear()
		}
		d.Frames = append(d.Frames, e)
	}
	return d
}

// note takes in a transaction.
func (t *Truth) note(g *Generator, d *evm.Transaction, index int) {
	x := &g.x
	for i := range d.Frames {
		t.internals = append(t.internals, Internal{Block: g.number, TxIndex: uint32(index), TxHash: d.Hash, Frame: d.Frames[i]})
	}
	for _, c := range x.made {
		if c.failed {
			continue
		}
		made := Deployment{Block: g.number, TxIndex: uint32(index), TxHash: d.Hash, Contract: c.at.address, Deployer: d.From, Gone: c.gone}
		if c.maker != nil {
			by := c.maker.address
			made.Creator = &by
		}
		t.deployments = append(t.deployments, made)
	}
	for i := range x.moved {
		m := x.moved[i]
		m.LogIndex = d.Logs[m.log].Index
		t.transfers = append(t.transfers, Transfer{Block: g.number, TxIndex: uint32(index), TxHash: d.Hash, Transfer: m.Transfer})
	}
}

func (t *Truth) block(b *evm.Block) { t.blocks = append(t.blocks, b) }

// Blocks are all blocks, the genesis first. They must not be changed.
func (t *Truth) Blocks() []*evm.Block {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	return slices.Clone(t.blocks)
}

// Deployments are all contracts that were created, in the order in which their
// creation began. Those of the genesis are not among them.
func (t *Truth) Deployments() []Deployment {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	return slices.Clone(t.deployments)
}

// Internals are the calls with value (CALL and CALLCODE) and the creations inside of
// transactions that a wallet had a part in, in the order of the chain. A creation that
// failed is its creator's alone.
func (t *Truth) Internals(wallet common.Address) (found []Internal) {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	for i := range t.internals {
		f := &t.internals[i]
		counts := f.Creates() || (f.Type == evm.FrameCall || f.Type == evm.FrameCallCode) && !f.Value.IsZero()
		if counts && (f.From == wallet || f.To == wallet) {
			found = append(found, *f)
		}
	}
	return found
}

// Transfers are all transfers of tokens, in the order of the chain. A batch of ERC-1155
// makes several.
func (t *Truth) Transfers() []Transfer {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	return slices.Clone(t.transfers)
}

// Balances are the ERC-1155 tokens that a wallet has at the end of a block, by contract
// and number.
func (t *Truth) Balances(wallet common.Address, block uint64) (found []Balance) {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	a := t.g.accounts[wallet]
	if a == nil {
		return nil
	}
	for _, h := range t.g.wallets[a] {
		if h.contract.kind != erc1155 {
			continue
		}
		if n := t.g.at(t.g.holdings[h], uint32(block)); !n.IsZero() {
			found = append(found, Balance{Contract: h.contract.at.address, TokenID: h.id, Amount: n})
		}
	}
	slices.SortFunc(found, func(a, b Balance) int {
		return cmp.Or(bytes.Compare(a.Contract[:], b.Contract[:]), a.TokenID.Cmp(&b.TokenID))
	})
	return found
}

// Tokens are the tokens of an ERC-721 or ERC-1155 contract that somebody has at the end
// of a block, by number.
func (t *Truth) Tokens(contract common.Address, block uint64) (found []Token) {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	a := t.g.accounts[contract]
	if a == nil || a.code == nil {
		return nil
	}
	seen := make(map[uint256.Int]bool)
	for h := range t.g.holdings {
		if h.contract != a.code || seen[h.id] {
			continue
		}
		switch {
		case a.code.kind == erc721 && h.holder == &t.g.owner:
			if owner := t.g.ownerAt(a.code, &h.id, uint32(block)); owner != nil {
				found = append(found, Token{TokenID: h.id, Owner: &owner.address})
			}
		case a.code.kind == erc1155:
			if n := t.g.at(t.g.holdings[h], uint32(block)); !n.IsZero() {
				seen[h.id] = true
				found = append(found, Token{TokenID: h.id})
			}
		}
	}
	slices.SortFunc(found, func(a, b Token) int { return a.TokenID.Cmp(&b.TokenID) })
	return found
}

// Contracts are all contracts that have code, in the order in which they were created,
// one of the genesis first.
func (t *Truth) Contracts() (all []Contract) {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	for _, c := range t.g.all {
		one := Contract{Address: c.at.address, Standard: c.standard(), Name: c.name, Symbol: c.symbol}
		if one.Standard == evm.ERC20 {
			decimals := c.decimals
			one.Decimals = &decimals
		}
		all = append(all, one)
	}
	return all
}

// Day is how many transactions the blocks of a UTC day have.
type Day struct {
	Start        int64 // Unix seconds
	Transactions uint64
}

// Days are the days from the first block after the genesis to the last block, those
// without blocks included, in their order.
func (t *Truth) Days() (days []Day) {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	const day = 24 * 60 * 60
	for _, b := range t.blocks[min(1, len(t.blocks)):] {
		start := int64(b.Time) / day * day
		for len(days) == 0 || days[len(days)-1].Start < start {
			next := start
			if len(days) > 0 {
				next = days[len(days)-1].Start + day
			}
			days = append(days, Day{Start: next})
		}
		days[len(days)-1].Transactions += uint64(len(b.Transactions))
	}
	return days
}

// Native is what an account has at the end of a block, in wei.
func (t *Truth) Native(account common.Address, block uint64) uint256.Int {
	return t.g.nativeAt(account, uint32(block))
}

// Accounts are all addresses that have or had AVAX, or that are contracts, in no
// order.
func (t *Truth) Accounts() (all []common.Address) {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	for address := range t.g.accounts {
		all = append(all, address)
	}
	return all
}

func (g *Generator) nativeAt(address common.Address, block uint32) uint256.Int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	a := g.accounts[address]
	if a == nil {
		return uint256.Int{}
	}
	return g.at(&a.balance, block)
}
