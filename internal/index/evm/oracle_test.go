package evm_test

import (
	"bytes"
	"cmp"
	"math/big"
	"slices"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

// The oracle answers from the blocks up to one, by the words of the contract.

func (p *past) upTo(tip uint64) []*chain.Block {
	for i, b := range p.blocks {
		if b.Number > tip {
			return p.blocks[:i]
		}
	}
	return p.blocks
}

func (p *past) at(number uint64) *chain.Block { return p.blocks[number-p.blocks[0].Number] }

// within reports whether a block lies in a query's bounds.
func within(number uint64, q *evm.WalletQuery) bool {
	return (q.Start == nil || number >= *q.Start) && (q.End == nil || number < *q.End)
}

func indexed(b *chain.Block, i int, full bool) evm.Transaction {
	tx := evm.Transaction{Block: ref(b), Index: uint32(i), Transaction: b.Transactions[i]}
	tx.Logs, tx.Frames = nil, nil
	if tx.To == nil {
		tx.Recipient = tx.Created
	} else {
		tx.Recipient = *tx.To
	}
	if !full {
		tx.Input = tx.Input[:min(len(tx.Input), 4)]
		if tx.To == nil {
			tx.Input = nil
		}
	}
	return tx
}

func (p *past) latest(tip uint64, success *bool) (all []evm.Transaction) {
	for _, b := range p.upTo(tip) {
		for i := range b.Transactions {
			if success == nil || *success == b.Transactions[i].Success {
				all = append(all, indexed(b, i, false))
			}
		}
	}
	slices.Reverse(all)
	return all
}

func listedFrame(f *chain.Frame) bool {
	switch f.Type {
	case chain.FrameCall, chain.FrameCallCode:
		return !f.Value.IsZero()
	case chain.FrameCreate, chain.FrameCreate2:
		return true
	}
	return false
}

func (p *past) internals(tip uint64, q *evm.WalletQuery) (all []evm.Internal) {
	for _, b := range p.upTo(tip) {
		for i := range b.Transactions {
			for _, f := range b.Transactions[i].Frames {
				to := f.To == q.Wallet && !(f.Creates() && f.To == common.Address{})
				if listedFrame(&f) && within(b.Number, q) && (f.From == q.Wallet || to) {
					all = append(all, evm.Internal{Block: ref(b), TxHash: b.Transactions[i].Hash, Frame: f})
				}
			}
		}
	}
	slices.Reverse(all)
	return all
}

func (p *past) transfersOf(tip uint64, q *evm.WalletQuery) (all []evm.TokenTransfer) {
	for _, t := range p.transfers {
		if t.Block.Number <= tip && within(t.Block.Number, q) && t.Standard == chain.ERC1155 &&
			standards[t.Contract] == chain.ERC1155 && (t.From == q.Wallet || t.To == q.Wallet) {
			all = append(all, t)
		}
	}
	slices.Reverse(all)
	return all
}

type oracleToken struct {
	contract common.Address
	id       uint256.Int
}

type oracleHolding struct {
	wallet common.Address
	token  oracleToken
}

var most = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))

// holdings replays all ERC-1155 transfers.
func (p *past) holdings(tip uint64) map[oracleHolding]*big.Int {
	all := make(map[oracleHolding]*big.Int)
	change := func(wallet common.Address, t *evm.TokenTransfer, by *big.Int) {
		if wallet == (common.Address{}) {
			return
		}
		k := oracleHolding{wallet, oracleToken{t.Contract, t.TokenID}}
		if all[k] == nil {
			all[k] = new(big.Int)
		}
		all[k].Add(all[k], by)
		if all[k].Sign() < 0 {
			all[k].SetInt64(0)
		}
		if all[k].Cmp(most) > 0 {
			all[k].Set(most)
		}
	}
	for i := range p.transfers {
		t := &p.transfers[i]
		if t.Block.Number <= tip && t.Standard == chain.ERC1155 {
			change(t.From, t, new(big.Int).Neg(t.Amount.ToBig()))
			change(t.To, t, t.Amount.ToBig())
		}
	}
	return all
}

func (p *past) balances(tip uint64, q *evm.BalanceQuery) (all []evm.TokenBalance) {
	for k, amount := range p.holdings(tip) {
		if k.wallet != q.Wallet || amount.Sign() == 0 || standards[k.token.contract] != chain.ERC1155 ||
			q.Contract != nil && *q.Contract != k.token.contract {
			continue
		}
		all = append(all, evm.TokenBalance{Contract: k.token.contract, TokenID: k.token.id, Amount: *uint256.MustFromBig(amount)})
	}
	slices.SortFunc(all, func(a, b evm.TokenBalance) int {
		return cmp.Or(bytes.Compare(a.Contract[:], b.Contract[:]), a.TokenID.Cmp(&b.TokenID))
	})
	return all
}

func (p *past) tokens(tip uint64, contract common.Address, standard chain.Standard) (all []evm.Token) {
	switch standard {
	case chain.ERC721:
		owners := make(map[uint256.Int]common.Address)
		for _, t := range p.transfers {
			if t.Block.Number <= tip && t.Standard == standard && t.Contract == contract {
				owners[t.TokenID] = t.To
			}
		}
		for id, owner := range owners {
			if owner != (common.Address{}) {
				all = append(all, evm.Token{Contract: contract, TokenID: id, Owner: &owner})
			}
		}
	case chain.ERC1155:
		seen := make(map[uint256.Int]bool)
		for k, amount := range p.holdings(tip) {
			if k.token.contract == contract && amount.Sign() > 0 && !seen[k.token.id] {
				seen[k.token.id] = true
				all = append(all, evm.Token{Contract: contract, TokenID: k.token.id})
			}
		}
	}
	slices.SortFunc(all, func(a, b evm.Token) int { return a.TokenID.Cmp(&b.TokenID) })
	return all
}

// made is a deployment and where its transaction is.
type made struct {
	evm.Deployment
	block *chain.Block
	index int
}

func (p *past) deployments(tip uint64) (all []made) {
	for _, b := range p.upTo(tip) {
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			if !tx.Success {
				continue
			}
			if tx.To == nil {
				all = append(all, made{evm.Deployment{Contract: tx.Created, TxHash: tx.Hash, Deployer: tx.From}, b, i})
			}
			for j := range tx.Frames {
				if f := &tx.Frames[j]; f.Creates() && !f.Reverted && f.To != (common.Address{}) {
					all = append(all, made{evm.Deployment{Contract: f.To, TxHash: tx.Hash, Deployer: tx.From, Creator: &f.From}, b, i})
				}
			}
		}
	}
	slices.Reverse(all)
	return all
}

func (p *past) deploymentsBy(tip uint64, who common.Address) (all []evm.Deployment) {
	for _, d := range p.deployments(tip) {
		if d.Deployer == who || d.Creator != nil && *d.Creator == who {
			all = append(all, d.Deployment)
		}
	}
	return all
}

// deployment is nil for what was not deployed.
func (p *past) deployment(tip uint64, contract common.Address) *evm.TransactionDetails {
	for _, d := range p.deployments(tip) {
		if d.Contract != contract {
			continue
		}
		details := &evm.TransactionDetails{Transaction: indexed(d.block, d.index, true), Message: p.messages[d.TxHash], Traced: d.block.Traced}
		for _, t := range p.transfers {
			if t.TxHash == d.TxHash && t.Standard == standards[t.Contract] {
				details.Transfers = append(details.Transfers, t)
			}
		}
		for _, f := range d.block.Transactions[d.index].Frames {
			if listedFrame(&f) {
				details.Internals = append(details.Internals, evm.Internal{Block: ref(d.block), TxHash: d.TxHash, Frame: f})
			}
		}
		return details
	}
	return nil
}

func (p *past) known(tip uint64, who common.Address) bool {
	for _, t := range p.transfers {
		if t.Block.Number <= tip && t.Contract == who {
			return true
		}
	}
	return slices.ContainsFunc(p.deployments(tip), func(d made) bool { return d.Contract == who })
}

func (p *past) days(tip uint64) (all []evm.Day) {
	counts := make(map[int64]uint64)
	first := int64(-1)
	for _, b := range p.upTo(tip) {
		day := int64(b.Time) / 86_400 * 86_400
		counts[day] += uint64(len(b.Transactions))
		if first < 0 && len(b.Transactions) > 0 {
			first = day
		}
	}
	if first < 0 {
		return nil
	}
	for day := int64(p.at(tip).Time) / 86_400 * 86_400; day >= first; day -= 86_400 {
		all = append(all, evm.Day{Start: day, Transactions: counts[day]})
	}
	return all
}
