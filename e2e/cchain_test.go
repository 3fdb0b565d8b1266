package e2e

import (
	"context"
	"crypto/ecdsa"
	_ "embed"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/vms/evm/predicate"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/ethclient"
)

//go:embed contracts/Messenger.json
var messengerArtefact []byte

// ewoq is the key that holds the funds of every local network.
const ewoq = "56289e99c94b6912bfc12adc093c9b51124f0dc54ac7a766b2bc5ccf558d8027"

var warpPrecompile = common.HexToAddress("0x0200000000000000000000000000000000000005")

// cChain sends transactions on the C-Chain, or on another EVM chain, from one account.
type cChain struct {
	t         testing.TB
	client    *ethclient.Client
	key       *ecdsa.PrivateKey
	account   common.Address
	chainID   *big.Int
	sending   sync.Mutex // of send, which several tests may call
	nonce     uint64
	messenger common.Address
	abi       abi.ABI
}

func newCChain(t testing.TB, ctx context.Context, base string) *cChain {
	t.Helper()
	return newEVMChain(t, ctx, base, "C")
}

// newEVMChain deploys the messenger contract on a chain that a node runs.
func newEVMChain(t testing.TB, ctx context.Context, base, chain string) *cChain {
	t.Helper()
	client, err := ethclient.DialContext(ctx, base+"/ext/bc/"+chain+"/rpc")
	require.NoError(t, err)
	t.Cleanup(client.Close)
	key, err := crypto.HexToECDSA(ewoq)
	require.NoError(t, err)
	c := &cChain{t: t, client: client, key: key, account: crypto.PubkeyToAddress(key.PublicKey)}
	c.chainID, err = client.ChainID(ctx)
	require.NoError(t, err)
	c.nonce, err = client.NonceAt(ctx, c.account, nil)
	require.NoError(t, err)

	messenger := readArtefact(t, messengerArtefact)
	c.abi = messenger.abi
	receipt := c.await(ctx, c.send(ctx, nil, messenger.code, nil))
	c.messenger = receipt.ContractAddress
	return c
}

// artefact is a compiled contract.
type artefact struct {
	abi  abi.ABI
	code []byte
}

func readArtefact(t testing.TB, content []byte) artefact {
	t.Helper()
	var a struct {
		ABI      json.RawMessage `json:"abi"`
		Bytecode string          `json:"bytecode"`
	}
	require.NoError(t, json.Unmarshal(content, &a))
	parsed, err := abi.JSON(strings.NewReader(string(a.ABI)))
	require.NoError(t, err)
	return artefact{abi: parsed, code: common.FromHex(a.Bytecode)}
}

// send issues a transaction with a gas limit of its own: an estimate would not
// see what is still pending.
func (c *cChain) send(ctx context.Context, to *common.Address, data []byte, access types.AccessList) common.Hash {
	c.t.Helper()
	c.sending.Lock()
	defer c.sending.Unlock()
	price := c.price(ctx)
	return c.issue(ctx, &types.DynamicFeeTx{
		ChainID:    c.chainID,
		Nonce:      c.nonce,
		GasTipCap:  big.NewInt(1),
		GasFeeCap:  price,
		Gas:        1_500_000,
		To:         to,
		Data:       data,
		AccessList: access,
	})
}

// price is enough for the next blocks.
func (c *cChain) price(ctx context.Context) *big.Int {
	c.t.Helper()
	price, err := c.client.SuggestGasPrice(ctx)
	require.NoError(c.t, err)
	return price.Add(price.Mul(price, big.NewInt(4)), big.NewInt(10))
}

// issue signs and sends a transaction that has the next nonce.
func (c *cChain) issue(ctx context.Context, content types.TxData) common.Hash {
	c.t.Helper()
	tx, err := types.SignNewTx(c.key, types.LatestSignerForChainID(c.chainID), content)
	require.NoError(c.t, err)
	require.NoError(c.t, c.client.SendTransaction(ctx, tx))
	c.nonce++
	return tx.Hash()
}

// await waits for a transaction, which must succeed.
func (c *cChain) await(ctx context.Context, hash common.Hash) *types.Receipt {
	c.t.Helper()
	receipt := c.accepted(ctx, hash)
	require.Equal(c.t, types.ReceiptStatusSuccessful, receipt.Status, "transaction %s was reverted", hash)
	return receipt
}

func (c *cChain) accepted(ctx context.Context, hash common.Hash) *types.Receipt {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		receipt, err := c.client.TransactionReceipt(ctx, hash)
		if err == nil {
			return receipt
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("transaction %s is not accepted: %v", hash, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sendByContract has the contract send a message through the precompile.
func (c *cChain) sendByContract(ctx context.Context, content []byte) common.Hash {
	c.t.Helper()
	data, err := c.abi.Pack("send", content)
	require.NoError(c.t, err)
	return c.send(ctx, &c.messenger, data, nil)
}

// sendByAccount sends a message from the account itself.
func (c *cChain) sendByAccount(ctx context.Context, content []byte) common.Hash {
	c.t.Helper()
	// The precompile's sendWarpMessage(bytes) takes what the contract's send
	// takes, under another selector.
	packed, err := c.abi.Methods["send"].Inputs.Pack(content)
	require.NoError(c.t, err)
	selector := crypto.Keccak256([]byte("sendWarpMessage(bytes)"))[:4]
	return c.send(ctx, &warpPrecompile, slices.Concat(selector, packed), nil)
}

// message is the unsigned message that a transaction sent, and the log data it
// was found in.
func (c *cChain) message(ctx context.Context, hash common.Hash) (*warp.UnsignedMessage, []byte) {
	c.t.Helper()
	for _, l := range c.await(ctx, hash).Logs {
		if l.Address != warpPrecompile {
			continue
		}
		values, err := c.abi.Methods["send"].Inputs.Unpack(l.Data) // one bytes value, as in the event
		require.NoError(c.t, err)
		m, err := warp.ParseUnsignedMessage(values[0].([]byte))
		require.NoError(c.t, err)
		return m, l.Data
	}
	c.t.Fatalf("transaction %s sent no message", hash)
	return nil, nil
}

// read carries a signed message into the chain as a predicate and returns what
// the precompile says of it.
func (c *cChain) read(ctx context.Context, signed *warp.Message) (valid bool, content []byte) {
	c.t.Helper()
	data, err := c.abi.Pack("read", uint32(0))
	require.NoError(c.t, err)
	receipt := c.await(ctx, c.send(ctx, &c.messenger, data, types.AccessList{{
		Address:     warpPrecompile,
		StorageKeys: predicate.New(signed.Bytes()),
	}}))
	require.Len(c.t, receipt.Logs, 1)
	values, err := c.abi.Events["Verified"].Inputs.Unpack(receipt.Logs[0].Data)
	require.NoError(c.t, err)
	return values[0].(bool), values[3].([]byte)
}
