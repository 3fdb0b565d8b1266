package platform

import (
	"encoding/json"
	"fmt"

	"github.com/ava-labs/avalanchego/snow"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/pchain"
)

// content decodes and formats blocks and transactions of the P-Chain.
type content struct {
	// context is nil until New sets it.
	context *snow.Context
}

// Block implements chain.Content.
func (c *content) Block(b []byte) ([]byte, error) {
	parsed, err := block.Parse(block.Codec, b)
	if err != nil {
		return nil, fmt.Errorf("reading a block: %w", err)
	}
	parsed.InitCtx(c.context)
	return json.Marshal(parsed)
}

// Tx implements chain.Content.
func (c *content) Tx(b []byte, i int, _ bool) (tx []byte, proposed bool, err error) {
	block, err := pchain.ParseBlock(b)
	switch {
	case err != nil:
		return nil, false, err
	case i < len(block.Txs):
		return block.Txs[i].Bytes(), false, nil
	case i == len(block.Txs) && block.Proposal != nil:
		return block.Proposal.Bytes(), true, nil
	}
	return nil, false, fmt.Errorf("a block has %d transactions, and should have one at %d", len(block.Txs), i)
}

// TxJSON implements chain.Content.
func (c *content) TxJSON(b []byte, genesis bool) ([]byte, error) {
	codec := txs.Codec
	if genesis {
		codec = txs.GenesisCodec
	}
	tx, err := txs.Parse(codec, b)
	if err != nil {
		return nil, fmt.Errorf("reading a transaction: %w", err)
	}
	tx.Unsigned.InitCtx(c.context)
	return json.Marshal(tx)
}
