package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"time"

	"github.com/ava-labs/avalanchego/vms/evm/predicate"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
)

// warpPrecompile is the address of the Warp precompile on every EVM chain of Avalanche.
var warpPrecompile = common.HexToAddress("0x0200000000000000000000000000000000000005")

// deliverer sends signed messages to a contract.
type deliverer struct {
	rpc  string // URL of the chain's Ethereum API
	key  *ecdsa.PrivateKey
	to   common.Address
	data []byte
	gas  uint64
}

// deliver calls the contract with a signed message and waits for the transaction. The message travels in the access
// list, as storage keys of the precompile: its bytes, then 0xff, then zeros up to a multiple of 32. The chain verifies
// it before it executes the call; the contract gets the outcome from getVerifiedWarpMessage(0).
func (d *deliverer) deliver(ctx context.Context, signed []byte) (common.Hash, error) {
	var chainID, price hexutil.Big
	var nonce hexutil.Uint64
	account := crypto.PubkeyToAddress(d.key.PublicKey)
	err := errors.Join(
		d.call(ctx, &chainID, "eth_chainId"), d.call(ctx, &price, "eth_gasPrice"), d.call(ctx, &nonce, "eth_getTransactionCount", account, "pending"))
	if err != nil {
		return common.Hash{}, err
	}
	tx, err := types.SignNewTx(d.key, types.LatestSignerForChainID(chainID.ToInt()), &types.DynamicFeeTx{
		ChainID: chainID.ToInt(), Nonce: uint64(nonce), Gas: d.gas, To: &d.to, Data: d.data,
		GasTipCap: big.NewInt(1), GasFeeCap: new(big.Int).Add(big.NewInt(1), new(big.Int).Lsh(price.ToInt(), 1)),
		AccessList: types.AccessList{{Address: warpPrecompile, StorageKeys: predicate.New(signed)}},
	})
	if err != nil {
		return common.Hash{}, fmt.Errorf("signing the transaction: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return common.Hash{}, fmt.Errorf("encoding the transaction: %w", err)
	}
	var hash common.Hash
	if err := d.call(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
		return common.Hash{}, err
	}
	return hash, d.await(ctx, hash)
}

// await waits until a transaction has succeeded.
func (d *deliverer) await(ctx context.Context, hash common.Hash) error {
	for {
		var receipt *struct {
			Status hexutil.Uint64 `json:"status"`
		}
		err := d.call(ctx, &receipt, "eth_getTransactionReceipt", hash)
		switch {
		case err == nil && receipt != nil && uint64(receipt.Status) == types.ReceiptStatusSuccessful:
			return nil
		case err == nil && receipt != nil:
			return fmt.Errorf("transaction %s was reverted", hash)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for transaction %s: %w", hash, errors.Join(ctx.Err(), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// call is one JSON-RPC call.
func (d *deliverer) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.rpc, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = response.Body.Close() }()
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&reply); err != nil {
		return fmt.Errorf("%s: status %d: %w", method, response.StatusCode, err)
	}
	if reply.Error != nil {
		return fmt.Errorf("%s: %s", method, reply.Error.Message)
	}
	return json.Unmarshal(reply.Result, result)
}
