package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
)

const xChainPath = "/ext/bc/X"

// TxStatus is a node's decision about a P-Chain transaction.
type TxStatus struct {
	Status status.Status
	// Reason is the node's, if Status is Dropped.
	Reason string
}

// L1Validator is the current state of a validator of an L1 (ACP-77).
type L1Validator struct {
	Weight uint64
	// MinNonce is the smallest nonce that the next weight change may have: 0, or one more
	// than that of the latest change.
	MinNonce uint64
}

// TxStatus returns the status of a P-Chain transaction. Unknown is a status, not an error.
func (c *Client) TxStatus(ctx context.Context, txID ids.ID) (TxStatus, error) {
	var reply platformvm.GetTxStatusResponse
	err := c.Call(ctx, platformPath, "platform.getTxStatus", platformvm.GetTxStatusArgs{TxID: txID}, &reply)
	return TxStatus{Status: reply.Status, Reason: reply.Reason}, err
}

// Tx returns the bytes of an accepted P-Chain transaction. If the node does not have it,
// the error is an *RPCError.
func (c *Client) Tx(ctx context.Context, txID ids.ID) ([]byte, error) {
	return c.tx(ctx, platformPath, "platform.getTx", txID)
}

// HasXChainTx reports whether the X-Chain has accepted a transaction. It returns false if
// the node does not offer the X-Chain.
func (c *Client) HasXChainTx(ctx context.Context, txID ids.ID) (bool, error) {
	_, err := c.tx(ctx, xChainPath, "avm.getTx", txID)
	var refused *RPCError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

func (c *Client) tx(ctx context.Context, path, method string, txID ids.ID) ([]byte, error) {
	var reply api.GetTxReply
	if err := c.Call(ctx, path, method, api.GetTxArgs{TxID: txID, Encoding: formatting.Hex}, &reply); err != nil {
		return nil, err
	}
	var text string
	if err := json.Unmarshal(reply.Tx, &text); err != nil {
		return nil, fmt.Errorf("%s: %w: tx: %w", method, ErrMalformed, err)
	}
	return decodeBytes(method, reply.Encoding, text)
}

func (c *Client) blockByHeight(ctx context.Context, path, method string, height uint64) ([]byte, error) {
	var reply api.GetBlockResponse
	if err := c.Call(ctx, path, method, api.GetBlockByHeightArgs{
		Height: avajson.Uint64(height), Encoding: formatting.Hex,
	}, &reply); err != nil {
		// Every height up to the last accepted one has a block.
		return nil, beyondTip(err, "couldn't get block at height", "not found")
	}
	var text string
	if err := json.Unmarshal(reply.Block, &text); err != nil {
		return nil, fmt.Errorf("%s: %w: block: %w", method, ErrMalformed, err)
	}
	return decodeBytes(method, reply.Encoding, text)
}

// L1Validator returns the state of an L1 validator, or nil if there is no such validator
// now: it was removed or never existed.
func (c *Client) L1Validator(ctx context.Context, validationID ids.ID) (*L1Validator, error) {
	// The other fields may have any form.
	var reply struct {
		Weight   avajson.Uint64 `json:"weight"`
		MinNonce avajson.Uint64 `json:"minNonce"`
	}
	err := c.Call(ctx, platformPath, "platform.getL1Validator", platformvm.GetL1ValidatorArgs{ValidationID: validationID}, &reply)
	var refused *RPCError
	if errors.As(err, &refused) && refused.NotFound() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &L1Validator{Weight: uint64(reply.Weight), MinNonce: uint64(reply.MinNonce)}, nil
}
