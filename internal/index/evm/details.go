package evm

import (
	"context"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// Details returns the transaction with a hash, or nil if it is not indexed. The index holds all effects of transactions
// that deployed contracts. Of others it has only Transaction, as in lists; whole is then false, and DetailsOf returns
// the rest.
func (r *Index) Details(ctx context.Context, hash common.Hash) (d *TransactionDetails, whole bool, err error) {
	d, err = classified(ctx, r, func(s *state, c *classifier) (d *TransactionDetails, err error) {
		d, whole, err = s.details(ctx, c, hash)
		return d, err
	})
	return d, whole, err
}

func (s *state) details(ctx context.Context, c *classifier, hash common.Hash) (d *TransactionDetails, whole bool, err error) {
	tx, err := s.transaction(ctx, hash)
	if tx == nil || err != nil {
		return nil, false, err
	}
	at := place{number: tx.Block.Number, major: tx.Index}
	rows, err := s.Scan(ctx, store.FamilyEVMDeployment, s.chain.deploymentPartition(at), nil, nil, store.Ascending, 1)
	if err != nil {
		return nil, false, fmt.Errorf("reading a deployment: %w", err)
	}
	if len(rows) == 0 {
		return &TransactionDetails{Transaction: *tx}, false, nil
	}
	d, err = s.deployment(ctx, c, at)
	return d, true, err
}

// DetailsOf returns a transaction of a block. Its transfers are those of all contracts, including contracts that do not
// follow the standard of their events.
func DetailsOf(block *evm.Block, index int) *TransactionDetails {
	tx := &block.Transactions[index]
	ref := refOf(block)
	d := &TransactionDetails{Transaction: Transaction{Block: ref, Index: uint32(index), Recipient: tx.Created, Transaction: *tx}, Traced: block.Traced, Message: messageOf(tx.Logs)}
	d.Transaction.Logs, d.Transaction.Frames = nil, nil
	if tx.To != nil {
		d.Transaction.Recipient = *tx.To
	}
	for i := range tx.Logs {
		for _, t := range evm.Transfers(&tx.Logs[i]) {
			d.Transfers = append(d.Transfers, TokenTransfer{Block: ref, TxHash: tx.Hash, Transfer: t})
		}
	}
	for i := range tx.Frames {
		if f := &tx.Frames[i]; indexed(f) {
			d.Internals = append(d.Internals, Internal{Block: ref, TxHash: tx.Hash, Frame: *f})
		}
	}
	return d
}
