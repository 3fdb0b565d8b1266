package node

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/accounts/abi"
	"github.com/ava-labs/libevm/crypto"
)

func TestSendWarpMessageTopic(t *testing.T) {
	require.Equal(t, sendWarpMessage, "0x"+hex.EncodeToString(crypto.Keccak256([]byte("SendWarpMessage(address,bytes32,bytes)"))))
}

func packBytes(t testing.TB, b []byte) []byte {
	kind, err := abi.NewType("bytes", "", nil)
	require.NoError(t, err)
	packed, err := abi.Arguments{{Type: kind}}.Pack(b)
	require.NoError(t, err)
	return packed
}

func TestSentMessages(t *testing.T) {
	var asked map[string]any
	logs := []map[string]any{
		{"blockNumber": "0x10", "logIndex": "0x2", "transactionHash": fmt.Sprintf("0x%064x", 7), "data": fmt.Sprintf("0x%x", packBytes(t, []byte("one")))},
		{"blockNumber": "0x11", "logIndex": "0x0", "transactionHash": fmt.Sprintf("0x%064x", 8), "data": fmt.Sprintf("0x%x", packBytes(t, make([]byte, 1000))), "removed": false},
		{"blockNumber": "0x12", "logIndex": "0x0", "transactionHash": "0x", "data": "0x", "removed": true},
	}
	height, block := "0x1000", "{}"
	url := ethereum(t, func(method string, params []json.RawMessage) string {
		switch method {
		case heightMethod:
			return fmt.Sprintf(`"result":%q`, height)
		case blockMethod:
			return `"result":` + block
		}
		_ = json.Unmarshal(params[0], &asked)
		all, _ := json.Marshal(logs)
		return `"result":` + string(all)
	})
	sent, last, err := newClient(t, url).SentMessages(t.Context(), CChainRPC, 16, 20)
	require.NoError(t, err)
	require.Equal(t, []SentMessage{
		{Block: 16, Index: 2, TxHash: [32]byte{31: 7}, Message: []byte("one")},
		{Block: 17, TxHash: [32]byte{31: 8}, Message: make([]byte, 1000)},
	}, sent)
	require.Equal(t, uint64(20), last)
	require.Equal(t, map[string]any{"fromBlock": "0x10", "toBlock": "0x14", "address": warpPrecompile, "topics": []any{sendWarpMessage}}, asked)

	for field, values := range map[string][]string{
		"blockNumber":     {"", "16", "0x", "0x11111111111111111"},
		"logIndex":        {"x"},
		"transactionHash": {"0x12", "00", "0xzz"},
		"data":            {"", "0x", "0x00", "zz", fmt.Sprintf("0x%x", packBytes(t, []byte("one"))[:64])},
	} {
		for _, value := range values {
			good := logs[0][field]
			logs[0][field] = value
			_, _, err := newClient(t, url).SentMessages(t.Context(), CChainRPC, 16, 20)
			require.ErrorIs(t, err, ErrMalformed, "%s %q", field, value)
			logs[0][field] = good
		}
	}

	// Blocks that the node has not executed have no logs, or only some of them.
	height = "0x10"
	sent, last, err = newClient(t, url).SentMessages(t.Context(), CChainRPC, 16, 20)
	require.NoError(t, err)
	require.Equal(t, uint64(16), last)
	require.Len(t, sent, 1)
	height = "0xf"
	_, _, err = newClient(t, url).SentMessages(t.Context(), CChainRPC, 16, 20)
	require.ErrorIs(t, err, ErrBeyondTip)
	// A node that was state-synced on the SAE C-Chain has blocks without logs. It says so of the first such block in a range.
	height = "0x1000"
	synced := ethereum(t, func(method string, _ []json.RawMessage) string {
		switch method {
		case heightMethod:
			return `"result":"0x1000"`
		case blockMethod:
			return `"result":{}`
		}
		return `"error":{"code":-32000,"message":"failed to get logs for block #16 (0xab..cd)"}`
	})
	_, _, err = newClient(t, synced).SentMessages(t.Context(), CChainRPC, 16, 16)
	require.ErrorIs(t, err, ErrPruned)
	_, _, err = newClient(t, synced).SentMessages(t.Context(), CChainRPC, 16, 20)
	require.NotErrorIs(t, err, ErrPruned, "the block may be another one")
	require.True(t, RefusesBatch(err), "so that fewer are asked for")
	_, _, err = newClient(t, synced, url).SentMessages(t.Context(), CChainRPC, 16, 16)
	require.NoError(t, err, "another node has them")
	height, block = "0x1000", "null"
	_, _, err = newClient(t, url).SentMessages(t.Context(), CChainRPC, 16, 20)
	require.ErrorIs(t, err, ErrPruned)
}

func TestEVMHeight(t *testing.T) {
	url, _ := serve(t, 200, `{"result":"0x1f"}`)
	height, err := newClient(t, url).EVMHeight(t.Context(), CChainRPC)
	require.NoError(t, err)
	require.Equal(t, uint64(31), height)
}

// abiBytes neither panics nor reads beyond the data, whatever it contains.
func FuzzABIBytes(f *testing.F) {
	f.Add(packBytes(f, []byte("message")))
	f.Add(packBytes(f, nil))
	f.Add([]byte{})
	f.Add(make([]byte, 31))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := abiBytes(data)
		if err == nil && len(b) > len(data) {
			t.Fatalf("got %d bytes out of %d", len(b), len(data))
		}
	})
}
