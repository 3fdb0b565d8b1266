package xchain

import (
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
)

// assets collects the assets that a transaction moves.
type assets struct {
	txID ids.ID
	all  []ids.ID
}

var _ txs.Visitor = (*assets)(nil)

// Assets returns the assets of the outputs that a transaction consumes and creates, each once. It is faster than Read,
// because it encodes nothing.
func Assets(tx *txs.Tx) ([]ids.ID, error) {
	a := assets{txID: tx.ID()}
	err := tx.Unsigned.Visit(&a)
	return a.all, err
}

func (a *assets) add(id ids.ID) {
	if !slices.Contains(a.all, id) {
		a.all = append(a.all, id)
	}
}

func (a *assets) consume(ins []*avax.TransferableInput) {
	for _, in := range ins {
		a.add(in.AssetID())
	}
}

func (a *assets) create(outs []*avax.TransferableOutput) {
	for _, out := range outs {
		a.add(out.AssetID())
	}
}

func (a *assets) BaseTx(tx *txs.BaseTx) error {
	a.consume(tx.Ins)
	a.create(tx.Outs)
	return nil
}

// CreateAssetTx counts as moving the new asset even if it creates no output of it.
func (a *assets) CreateAssetTx(tx *txs.CreateAssetTx) error {
	a.add(a.txID)
	return a.BaseTx(&tx.BaseTx)
}

func (a *assets) OperationTx(tx *txs.OperationTx) error {
	for _, op := range tx.Ops {
		a.add(op.AssetID())
	}
	return a.BaseTx(&tx.BaseTx)
}

func (a *assets) ImportTx(tx *txs.ImportTx) error {
	a.consume(tx.ImportedIns)
	return a.BaseTx(&tx.BaseTx)
}

func (a *assets) ExportTx(tx *txs.ExportTx) error {
	a.create(tx.ExportedOuts)
	return a.BaseTx(&tx.BaseTx)
}
