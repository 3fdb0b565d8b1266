package node

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

func TestMessageSent(t *testing.T) {
	id, other := ids.ID{1, 2, 3}, ids.ID{9}
	for _, test := range []struct {
		name      string
		sentAt    uint64
		most      uint64 // blocks that eth_getLogs allows
		ignorant  bool   // the node ignores the third topic
		want      bool
		wantError bool
	}{
		{name: "recently", sentAt: 2000, most: 10_000, want: true},
		{name: "long ago", sentAt: 100, most: 10_000},
		{name: "in one of the last 10 blocks, with a small range", sentAt: 1995, most: 10, want: true},
		{name: "before, with a small range", sentAt: 1980, most: 10},
		{name: "the node returns other logs", sentAt: 0, most: 10_000, ignorant: true},
		{name: "no range is allowed", most: 0, wantError: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := ethereum(t, func(method string, params []json.RawMessage) string {
				if method == heightMethod {
					return `"result":"0x7d0"` // 2000
				}
				require.Equal(t, "eth_getLogs", method)
				var filter struct {
					FromBlock, ToBlock, Address string
					Topics                      []*string
				}
				require.NoError(t, json.Unmarshal(params[0], &filter))
				var from, to uint64
				_, err := fmt.Sscanf(filter.FromBlock+" "+filter.ToBlock, "0x%x 0x%x", &from, &to)
				require.NoError(t, err)
				require.Equal(t, warpPrecompile, filter.Address)
				if to-from+1 > test.most {
					return `"error":{"code":-32005,"message":"range is too large"}`
				}
				topic := "0x" + other.Hex()
				switch {
				case test.ignorant:
				case from <= test.sentAt && test.sentAt <= to && *filter.Topics[2] == "0x"+id.Hex():
					topic = "0x" + id.Hex()
				default:
					return `"result":[]`
				}
				return fmt.Sprintf(`"result":[{"topics":[%q,"0x0",%q]}]`, sendWarpMessage, topic)
			})
			sent, err := newClient(t, url).MessageSent(t.Context(), CChainRPC, id)
			if test.wantError {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, sent)
		})
	}
}

func TestBlockAccepted(t *testing.T) {
	known := ids.ID{1}
	url := ethereum(t, func(method string, params []json.RawMessage) string {
		require.Equal(t, "eth_getBlockByHash", method)
		if string(params[0]) == `"0x`+known.Hex()+`"` {
			return `"result":{"number":"0x1"}`
		}
		return `"result":null`
	})
	client := newClient(t, url)
	for hash, want := range map[ids.ID]bool{known: true, {2}: false} {
		accepted, err := client.BlockAccepted(t.Context(), CChainRPC, hash)
		require.NoError(t, err)
		require.Equal(t, want, accepted)
	}
}

func TestSentBy(t *testing.T) {
	hash := ids.ID{0xaa, 31: 1}
	// sent is a log of the precompile in block 9.
	sent := func(index int, content string) string {
		data := fmt.Sprintf("%064x%064x", 32, len(content)) + hex.EncodeToString([]byte(content))
		return fmt.Sprintf(`{"address":%q,"topics":[%q,"0x0","0x0"],"data":"0x%s","blockNumber":"0x9","logIndex":"0x%x","transactionHash":"0x%s","removed":false}`,
			warpPrecompile, sendWarpMessage, data, index, hash.Hex())
	}
	receipt := func(status string, logs ...string) string {
		return fmt.Sprintf(`{"transactionHash":"0x%s","blockNumber":"0x9","status":%q,"logs":[%s]}`, hash.Hex(), status, strings.Join(logs, ","))
	}
	two := receipt("0x1", sent(3, "one"), strings.Replace(sent(4, "not one"), warpPrecompile, "0x0200000000000000000000000000000000000006", 1),
		strings.Replace(sent(5, "nor this"), sendWarpMessage, "0x01", 1), strings.Replace(sent(6, "removed"), "false", "true", 1), sent(7, "two"))
	const accepted, pending = `{"blockNumber":"0x9"}`, `{"blockNumber":null}`
	for _, test := range []struct {
		name                         string
		transaction, receipt, height string
		want                         []string
		fail                         error
	}{
		{"two messages among other logs", accepted, two, `"0x9"`, []string{"one", "two"}, nil},
		{"no messages", accepted, receipt("0x1"), `"0x9"`, nil, nil},
		{"accepted between the calls", pending, receipt("0x1", sent(0, "one")), `"0x9"`, []string{"one"}, nil},
		{"unknown", "null", "null", `"0x9"`, nil, ErrUnknownTransaction},
		{"in the pool", pending, "null", `"0x9"`, nil, ErrPendingTransaction},
		{"accepted but not executed", accepted, "null", `"0x8"`, nil, ErrPendingTransaction},
		{"in a block that is processing", accepted, two, `"0x8"`, nil, ErrPendingTransaction},
		{"without its receipt", accepted, "null", `"0x9"`, nil, ErrPruned},
		{"reverted", accepted, receipt("0x0", sent(0, "one")), `"0x9"`, nil, ErrReverted},
		{"another status", accepted, receipt("0x2", sent(0, "one")), `"0x9"`, nil, ErrMalformed},
		{"no status", accepted, receipt("", sent(0, "one")), `"0x9"`, nil, ErrMalformed},
		{"receipt of another transaction", accepted, strings.Replace(two, hash.Hex(), ids.ID{9}.Hex(), 1), `"0x9"`, nil, ErrMalformed},
		{"log of another transaction", accepted, receipt("0x1", strings.Replace(sent(0, "one"), hash.Hex(), ids.ID{9}.Hex(), 1)), `"0x9"`, nil, ErrMalformed},
		{"log of another block", accepted, receipt("0x1", strings.Replace(sent(0, "one"), `"0x9"`, `"0xa"`, 1)), `"0x9"`, nil, ErrMalformed},
		{"logs out of order", accepted, receipt("0x1", sent(1, "one"), sent(0, "two")), `"0x9"`, nil, ErrMalformed},
		{"log data that ends early", accepted, receipt("0x1", strings.Replace(sent(0, "one"), "6f6e65", "", 1)), `"0x9"`, nil, ErrMalformed},
		{"not a receipt", accepted, "[]", `"0x9"`, nil, ErrMalformed},
		{"no height", accepted, two, `"9"`, nil, ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := ethereum(t, func(method string, params []json.RawMessage) string {
				if method != heightMethod {
					require.Equal(t, []json.RawMessage{json.RawMessage(`"0x` + hash.Hex() + `"`)}, params)
				}
				return `"result":` + map[string]string{transactionMethod: test.transaction, receiptMethod: test.receipt, heightMethod: test.height}[method]
			})
			got, err := newClient(t, url).SentBy(t.Context(), CChainRPC, hash)
			if test.fail != nil {
				require.ErrorIs(t, err, test.fail)
				return
			}
			require.NoError(t, err)
			var contents []string
			for _, m := range got {
				require.EqualValues(t, 9, m.Block)
				contents = append(contents, string(m.Message))
			}
			require.Equal(t, test.want, contents)
		})
	}
}

// If a node lacks the transaction, or has it in no block yet, other nodes are asked.
func TestSentByAsksOtherNodes(t *testing.T) {
	hash := ids.ID{1}
	node := func(transaction, receipt string) string {
		return ethereum(t, func(method string, _ []json.RawMessage) string {
			return `"result":` + map[string]string{transactionMethod: transaction, receiptMethod: receipt, heightMethod: `"0x9"`}[method]
		})
	}
	unknown, pending := node("null", "null"), node(`{"blockNumber":null}`, "null")
	has := node(`{"blockNumber":"0x9"}`, fmt.Sprintf(`{"transactionHash":"0x%s","blockNumber":"0x9","status":"0x1","logs":[]}`, hash.Hex()))
	for _, test := range []struct {
		name string
		urls []string
		fail error
	}{
		{"the second has it", []string{unknown, has}, nil},
		{"the third has it", []string{pending, away, has}, nil},
		{"none has it", []string{unknown, unknown}, ErrUnknownTransaction},
		{"one does not answer", []string{unknown, away}, ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newClient(t, test.urls...).SentBy(t.Context(), CChainRPC, hash)
			require.ErrorIs(t, err, test.fail)
		})
	}
}
