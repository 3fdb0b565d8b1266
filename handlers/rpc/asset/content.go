package asset

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/utils/timer/mockable"
	"github.com/ava-labs/avalanchego/vms/avm/block"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// content decodes and formats blocks and transactions of the X-Chain.
type content struct {
	parser block.Parser
	// types maps types to the feature extension that they belong to, by number.
	types map[reflect.Type]int
	// context is nil until New sets it.
	context *snow.Context
}

// extensions lists the IDs of the feature extensions of the X-Chain, in their order.
var extensions = [...]ids.ID{secp256k1fx.ID, nftfx.ID, propertyfx.ID}

func newContent() (*content, error) {
	c := &content{types: make(map[reflect.Type]int)}
	var err error
	c.parser, err = block.NewCustomParser(c.types, new(mockable.Clock), logging.NoLog{}, []fxs.Fx{&secp256k1fx.Fx{}, &nftfx.Fx{}, &propertyfx.Fx{}})
	if err != nil {
		return nil, fmt.Errorf("preparing to read the X-Chain: %w", err)
	}
	return c, nil
}

// Block implements chain.Content. The block at height 0 has an empty list of transactions, and a genesis transaction
// an empty list of credentials, as in a node that has read them from disk. A node that created them has null until it
// restarts.
func (c *content) Block(b []byte) ([]byte, error) {
	parsed, err := c.parser.ParseBlock(b)
	if err != nil {
		return nil, fmt.Errorf("reading a block: %w", err)
	}
	parsed.InitCtx(c.context)
	for _, tx := range parsed.Txs() {
		if err := c.complete(tx); err != nil {
			return nil, err
		}
	}
	return json.Marshal(parsed)
}

// Tx implements chain.Content.
func (c *content) Tx(b []byte, i int, early bool) (tx []byte, proposed bool, err error) {
	if early {
		return b, false, nil
	}
	parsed, err := c.parser.ParseBlock(b)
	if err != nil {
		return nil, false, fmt.Errorf("reading a block: %w", err)
	}
	all := parsed.Txs()
	if i >= len(all) {
		return nil, false, fmt.Errorf("a block has %d transactions, and should have one at %d", len(all), i)
	}
	return all[i].Bytes(), false, nil
}

// TxJSON implements chain.Content.
func (c *content) TxJSON(b []byte, genesis bool) ([]byte, error) {
	parse := c.parser.ParseTx
	if genesis {
		parse = c.parser.ParseGenesisTx
	}
	tx, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading a transaction: %w", err)
	}
	if err := c.complete(tx); err != nil {
		return nil, err
	}
	return json.Marshal(tx)
}

// complete sets the fields of a transaction that are not in its bytes: the feature extensions of inputs, outputs,
// operations and credentials, and addresses as text (avalanchego's vms/avm does not export this).
func (c *content) complete(tx *txs.Tx) error {
	return tx.Unsigned.Visit(&completion{content: c, tx: tx})
}

// completion visits one transaction.
type completion struct {
	*content
	tx *txs.Tx
}

var _ txs.Visitor = (*completion)(nil)

var errExtension = errors.New("of no feature extension")

func (c *completion) extension(v any) (ids.ID, error) {
	n, ok := c.types[reflect.TypeOf(v)]
	if !ok || n >= len(extensions) {
		return ids.Empty, fmt.Errorf("%w: %T", errExtension, v)
	}
	return extensions[n], nil
}

func (c *completion) inputs(all []*avax.TransferableInput) (err error) {
	for _, in := range all {
		if in.FxID, err = c.extension(in.In); err != nil {
			return err
		}
	}
	return nil
}

func (c *completion) outputs(all []*avax.TransferableOutput) (err error) {
	for _, out := range all {
		if out.FxID, err = c.extension(out.Out); err != nil {
			return err
		}
	}
	return nil
}

// BaseTx implements txs.Visitor.
func (c *completion) BaseTx(tx *txs.BaseTx) (err error) {
	c.tx.Unsigned.InitCtx(c.context)
	for _, one := range c.tx.Creds {
		if one.FxID, err = c.extension(one.Credential); err != nil {
			return err
		}
	}
	return errors.Join(c.inputs(tx.Ins), c.outputs(tx.Outs))
}

// CreateAssetTx implements txs.Visitor.
func (c *completion) CreateAssetTx(tx *txs.CreateAssetTx) error {
	for _, state := range tx.States {
		if int(state.FxIndex) >= len(extensions) {
			return fmt.Errorf("%w: number %d", errExtension, state.FxIndex)
		}
		state.FxID = extensions[state.FxIndex]
	}
	return c.BaseTx(&tx.BaseTx)
}

// OperationTx implements txs.Visitor.
func (c *completion) OperationTx(tx *txs.OperationTx) (err error) {
	for _, op := range tx.Ops {
		if op.FxID, err = c.extension(op.Op); err != nil {
			return err
		}
	}
	return c.BaseTx(&tx.BaseTx)
}

// ImportTx implements txs.Visitor.
func (c *completion) ImportTx(tx *txs.ImportTx) error {
	return errors.Join(c.inputs(tx.ImportedIns), c.BaseTx(&tx.BaseTx))
}

// ExportTx implements txs.Visitor.
func (c *completion) ExportTx(tx *txs.ExportTx) error {
	return errors.Join(c.outputs(tx.ExportedOuts), c.BaseTx(&tx.BaseTx))
}
