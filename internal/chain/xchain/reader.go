package xchain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"

	"quorate/internal/chain/ledger"
)

// reader converts one transaction to the ledger's form. It is a visitor so that a
// transaction type without a conversion does not compile.
type reader struct {
	chainID ids.ID
	codec   codec.Manager
	tx      ledger.Tx
}

var _ txs.Visitor = (*reader)(nil)

// Read converts a transaction of the X-Chain to the ledger's form. It encodes outputs with c.
func Read(tx *txs.Tx, chainID ids.ID, c codec.Manager) (*ledger.Tx, error) {
	r := reader{chainID: chainID, codec: c, tx: ledger.Tx{ID: tx.ID()}}
	if err := tx.Unsigned.Visit(&r); err != nil {
		return nil, err
	}
	return &r.tx, nil
}

func (r *reader) base(kind ledger.Kind, tx *txs.BaseTx) error {
	r.tx.Kind, r.tx.Memo = kind, tx.Memo
	if err := r.consume(tx.Ins, r.chainID); err != nil {
		return err
	}
	return r.transfer(ledger.Ordinary, r.chainID, tx.Outs)
}

func (r *reader) consume(ins []*avax.TransferableInput, sourceID ids.ID) error {
	inputs, err := ledger.InputsOf(ins, sourceID)
	if len(r.tx.Consumed) == 0 {
		r.tx.Consumed = inputs[:len(inputs):len(inputs)]
	} else {
		r.tx.Consumed = append(r.tx.Consumed, inputs...)
	}
	return err
}

func (r *reader) transfer(role ledger.Role, destinationID ids.ID, outs []*avax.TransferableOutput) error {
	r.tx.Made = slices.Grow(r.tx.Made, len(outs))
	for _, out := range outs {
		if err := r.make(role, destinationID, out.AssetID(), out.Out); err != nil {
			return err
		}
	}
	return nil
}

// make adds an output. Outputs are numbered in the order of these calls.
func (r *reader) make(role ledger.Role, destinationID, assetID ids.ID, out verify.State) error {
	made, err := ledger.OutputOf(r.codec, &avax.UTXO{
		UTXOID: avax.UTXOID{TxID: r.tx.ID, OutputIndex: uint32(len(r.tx.Made))},
		Asset:  avax.Asset{ID: assetID},
		Out:    out,
	}, role, destinationID)
	if err != nil {
		return err
	}
	r.tx.Made = append(r.tx.Made, made)
	return nil
}

func (r *reader) BaseTx(tx *txs.BaseTx) error { return r.base("BaseTx", tx) }

func (r *reader) CreateAssetTx(tx *txs.CreateAssetTx) error {
	if err := r.base("CreateAssetTx", &tx.BaseTx); err != nil {
		return err
	}
	r.tx.Asset = &ledger.Asset{ID: r.tx.ID, Name: tx.Name, Symbol: tx.Symbol, Denomination: tx.Denomination}
	for _, state := range tx.States {
		for _, out := range state.Outs {
			if err := r.make(ledger.Ordinary, r.chainID, r.tx.ID, out); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) OperationTx(tx *txs.OperationTx) error {
	if err := r.base("OperationTx", &tx.BaseTx); err != nil {
		return err
	}
	for _, op := range tx.Ops {
		for _, utxo := range op.UTXOIDs {
			r.tx.Consumed = append(r.tx.Consumed, ledger.Input{
				OutputID: utxo.InputID(), SourceChainID: r.chainID, AssetID: op.AssetID(),
			})
		}
		if op.Op == nil {
			return errors.New("operation without content")
		}
		for i, out := range op.Op.Outs() {
			if err := r.make(ledger.Ordinary, r.chainID, op.AssetID(), out); err != nil {
				return fmt.Errorf("output %d of an operation: %w", i, err)
			}
		}
	}
	return nil
}

func (r *reader) ImportTx(tx *txs.ImportTx) error {
	if err := r.base("ImportTx", &tx.BaseTx); err != nil {
		return err
	}
	return r.consume(tx.ImportedIns, tx.SourceChain)
}

func (r *reader) ExportTx(tx *txs.ExportTx) error {
	if err := r.base("ExportTx", &tx.BaseTx); err != nil {
		return err
	}
	return r.transfer(ledger.Exported, tx.DestinationChain, tx.ExportedOuts)
}
