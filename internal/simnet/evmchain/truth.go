package evmchain

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
)

// Truth holds what is true of a chain, as known to the generator and not read from blocks. Its
// results cover all blocks up to the newest generated one.
type Truth struct {
	g      *Generator
	blocks []*evm.Block // by number
	// The following are in the order of the chain.
	internals   []Internal
	transfers   []Transfer
	deployments []Deployment
}

// Internal is an internal transaction: a call or creation inside a transaction.
type Internal struct {
	Block   uint64
	TxIndex uint32
	TxHash  common.Hash
	evm.Frame
}

// Transfer is a transfer of a token by a token contract.
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
	// Contract was created by a transaction of Deployer. Creator is the contract that created
	// it inside the transaction; nil if the transaction itself did.
	Contract, Deployer common.Address
	Creator            *common.Address
	// Gone means that it destroyed itself in the same transaction, so it never had code.
	Gone bool
}

// Balance is a wallet's balance of an ERC-1155 token.
type Balance struct {
	Contract common.Address
	TokenID  uint256.Int
	Amount   uint256.Int
}

// Token is a token with an owner. Owner is nil for ERC-1155.
type Token struct {
	TokenID uint256.Int
	Owner   *common.Address
}

// Contract is a contract with its metadata.
type Contract struct {
	Address      common.Address
	Standard     evm.Standard
	Name, Symbol string
	// Decimals are those of an ERC-20, nil for others.
	Decimals *uint8
}

// decode returns a transaction as a decoder must return it.
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

// note adds a transaction.
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

// Blocks returns all blocks, the genesis first. The caller must not modify them.
func (t *Truth) Blocks() []*evm.Block {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	return slices.Clone(t.blocks)
}

// Deployments returns all created contracts, in the order in which their creations began,
// without those of the genesis.
func (t *Truth) Deployments() []Deployment {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	return slices.Clone(t.deployments)
}

// Internals returns the creations and the calls with value (CALL and CALLCODE) inside
// transactions from or to a wallet, in the order of the chain. A failed creation has no
// recipient.
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

// Transfers returns all transfers of tokens, in the order of the chain. An ERC-1155 batch has
// one for each entry.
func (t *Truth) Transfers() []Transfer {
	t.g.mu.RLock()
	defer t.g.mu.RUnlock()
	return slices.Clone(t.transfers)
}

// Balances returns a wallet's balances of ERC-1155 tokens at the end of a block, by contract
// and token ID.
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

// Tokens returns the tokens of an ERC-721 or ERC-1155 contract that have an owner at the end
// of a block, by ID.
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

// Contracts returns all contracts with code in the order of their creation, first one of the
// genesis.
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

// Day is the number of transactions of a UTC day.
type Day struct {
	Start        int64 // Unix seconds
	Transactions uint64
}

// Days returns the days from the first block after the genesis to the last block in order,
// including those without blocks.
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

// Native returns an account's balance at the end of a block, in wei.
func (t *Truth) Native(account common.Address, block uint64) uint256.Int {
	return t.g.nativeAt(account, uint32(block))
}

// Accounts returns all addresses that have or had AVAX, or that are contracts, in no order.
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
