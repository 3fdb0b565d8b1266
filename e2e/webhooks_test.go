package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/e2e/localnet"
)

// hookMessage is a message of a webhook for address activity.
type hookMessage struct {
	WebhookID, EventType, MessageID string
	Event                           struct {
		Transaction struct {
			BlockNumber, From, Gas, To, Nonce, Value, Input, ChainID, TxStatus, ContractAddress string
			BlockHash, TxHash, ReceiptRoot                                                      common.Hash
			ReceiptCumulativeGasUsed, ReceiptGasUsed, ReceiptEffectiveGasPrice                  string
			TransactionIndex, Type                                                              int
			BlockTimestamp                                                                      uint64
			InternalTransactions                                                                []json.RawMessage
		}
		Logs []struct {
			Address  common.Address
			Topic0   common.Hash
			Data     hexutil.Bytes
			LogIndex uint
		}
	}
}

// TestWebhooks compares messages about transactions of a real C-Chain with the node's blocks and receipts.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	chain := newCChain(t, ctx, node)
	messages := make(chan []byte, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			messages <- body
		}
	}))
	defer receiver.Close()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte("webhooks: {enabled: true, allow_private_addresses: true}\n"), 0o600))
	s := startService(t, program, node, "--ahead-rounds", "0", "--record", "all", "--config", file)
	tip, err := chain.client.BlockNumber(ctx)
	require.NoError(t, err)
	s.awaitEVM(ctx, tip)
	response, err := http.Post(s.url+"/v1/webhooks", "application/json", strings.NewReader(fmt.Sprintf(
		`{"eventType":"address_activity","url":%q,"chainId":"c-chain","includeLogs":true,"includeInternalTxs":true,"metadata":{"addresses":[%q]}}`, receiver.URL, chain.account)))
	require.NoError(t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode, "%s", content)

	stop, revert := []byte{0}, []byte{0x60, 0, 0x60, 0, 0xfd}
	hashes := []common.Hash{
		chain.send(ctx, nil, chain.sendAll(stop, "the first", "and the second"), nil),
		chain.send(ctx, nil, chain.sendAll(revert, "never sent"), nil),
		chain.send(ctx, &chain.account, []byte("a note"), nil),
	}
	seen := make(map[common.Hash]hookMessage)
	for len(seen) < len(hashes) {
		select {
		case body := <-messages:
			var m hookMessage
			require.NoError(t, json.Unmarshal(body, &m), "%s", body)
			seen[m.Event.Transaction.TxHash] = m
		case <-time.After(2 * time.Minute):
			t.Fatalf("got %d messages, want %d", len(seen), len(hashes))
		}
	}
	for _, hash := range hashes {
		requireHookMessage(t, chain, hash, seen[hash])
	}
	require.Len(t, seen[hashes[0]].Event.Logs, 2)
}

// requireHookMessage compares a message with what the node says about the transaction.
func requireHookMessage(t *testing.T, chain *cChain, hash common.Hash, m hookMessage) {
	t.Helper()
	receipt := chain.accepted(t.Context(), hash)
	tx, _, err := chain.client.TransactionByHash(t.Context(), hash)
	require.NoError(t, err)
	header, err := chain.client.HeaderByHash(t.Context(), receipt.BlockHash)
	require.NoError(t, err)
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	got := m.Event.Transaction
	require.Equal(t, "address_activity", m.EventType)
	require.Equal(t, receipt.BlockHash, got.BlockHash)
	require.Equal(t, receipt.BlockNumber.String(), got.BlockNumber)
	require.Equal(t, header.Time, got.BlockTimestamp)
	require.Equal(t, header.ReceiptHash, got.ReceiptRoot)
	require.Equal(t, chain.account.Hex(), got.From)
	require.Equal(t, hexutil.Encode(tx.Data()), got.Input)
	require.Equal(t, tx.Value().String(), got.Value)
	require.Equal(t, number(tx.Nonce()), got.Nonce)
	require.Equal(t, number(tx.Gas()), got.Gas)
	require.Equal(t, int(tx.Type()), got.Type)
	require.Equal(t, chain.chainID.String(), got.ChainID)
	require.Equal(t, number(receipt.Status), got.TxStatus)
	require.Equal(t, number(receipt.GasUsed), got.ReceiptGasUsed)
	require.Equal(t, number(receipt.CumulativeGasUsed), got.ReceiptCumulativeGasUsed)
	require.Equal(t, receipt.EffectiveGasPrice.String(), got.ReceiptEffectiveGasPrice)
	require.EqualValues(t, receipt.TransactionIndex, got.TransactionIndex)
	if tx.To() == nil {
		require.Empty(t, got.To)
		require.Equal(t, receipt.ContractAddress.Hex(), got.ContractAddress)
	} else {
		require.Equal(t, tx.To().Hex(), got.To)
	}
	require.Len(t, m.Event.Logs, len(receipt.Logs))
	for i, l := range receipt.Logs {
		require.Equal(t, l.Address, m.Event.Logs[i].Address)
		require.Equal(t, l.Index, m.Event.Logs[i].LogIndex)
		require.Equal(t, l.Data, []byte(m.Event.Logs[i].Data))
		require.Equal(t, l.Topics[0], m.Event.Logs[i].Topic0)
	}
}
