package evm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
)

// object is a JSON object that tests modify.
type object = map[string]any

func encode(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// headerOf returns a header without extra data fields, with its hash.
func headerOf(t testing.TB, number int64) object {
	h := &types.Header{
		ParentHash: common.Hash{9}, UncleHash: types.EmptyUncleHash, TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash,
		Difficulty: big.NewInt(1), Number: big.NewInt(number), GasLimit: 15_000_000, Time: 1_700_000_000, BaseFee: big.NewInt(25_000_000_000),
	}
	var o object
	require.NoError(t, json.Unmarshal(encode(t, h), &o))
	maps.DeleteFunc(o, func(_ string, v any) bool { return v == nil })
	delete(o, "withdrawalsRoot")
	return o
}

var (
	alice = common.HexToAddress("0xa11ce00000000000000000000000000000000000")
	token = common.HexToAddress("0x7000000000000000000000000000000000000000")
)

// sample returns a block with a failing inner call and a failing creation.
func sample(t testing.TB) (block, receipts, traces any) {
	b := headerOf(t, 5)
	hash, call, create := b["hash"], common.Hash{1}, common.Hash{2}
	b["size"], b["uncles"], b["blockExtraData"] = "0x10", []any{}, "0x"
	b["transactions"] = []any{
		object{"hash": call, "blockHash": hash, "transactionIndex": "0x0", "type": "0x2", "nonce": "0x4", "from": alice, "to": token, "value": "0x5", "input": "0xa9059cbb", "gas": "0x5208", "gasPrice": "0x1", "maxFeePerGas": "0x20", "maxPriorityFeePerGas": "0x0", "accessList": []any{object{"address": token, "storageKeys": []any{}}}},
		object{"hash": create, "transactionIndex": "0x1", "type": "0x0", "nonce": "0x5", "from": alice, "to": nil, "value": "0x0", "input": "0x6000", "gas": "0xffff", "gasPrice": "0x3"},
	}
	log := func(index string) object {
		return object{"address": token, "topics": []any{transferTopic, common.BytesToHash(alice[:]), common.Hash{}}, "data": "0x" + strings.Repeat("0", 63) + "7", "logIndex": index, "transactionHash": call, "removed": false}
	}
	receipts = []any{
		object{"transactionHash": call, "blockHash": hash, "transactionIndex": "0x0", "status": "0x1", "gasUsed": "0x5000", "effectiveGasPrice": "0x19", "contractAddress": nil, "logs": []any{log("0x0"), log("0x1")}, "logsBloom": "0x" + strings.Repeat("00", 256)},
		object{"transactionHash": create, "blockHash": hash, "transactionIndex": "0x1", "status": "0x0", "gasUsed": "0xffff", "effectiveGasPrice": "0x3", "logs": []any{}},
	}
	inner := object{"calls": []any{object{"type": "DELEGATECALL", "from": token, "to": alice, "value": "0x9", "gas": "0x3", "gasUsed": "0x2"}}, "type": "CALL", "from": token, "to": alice, "value": "0x9", "gas": "0x10", "gasUsed": "0x8", "error": "execution reverted", "revertReason": "say \"no\" \\"}
	traces = []any{
		object{"txHash": call, "result": object{"type": "CALL", "from": alice, "to": token, "value": "0x5", "gas": "0x1", "gasUsed": "0x1", "calls": []any{inner, object{"type": "CREATE2", "from": token, "to": token, "value": "0x0", "gas": "0x1", "gasUsed": "0x1"}}}},
		object{"txHash": create, "result": object{"type": "CREATE", "from": alice, "gas": "0x1", "gasUsed": "0x1", "error": "out of gas", "calls": []any{object{"type": "CALL", "from": token, "to": alice, "value": "0x1", "gas": "0x1", "gasUsed": "0x1"}}}},
	}
	return b, receipts, traces
}

func answers(t testing.TB) Answers {
	block, receipts, traces := sample(t)
	return Answers{Block: encode(t, block), Receipts: encode(t, receipts), Traces: encode(t, traces)}
}

func TestDecode(t *testing.T) {
	b, err := Decode(answers(t))
	require.NoError(t, err)
	require.Equal(t, uint64(5), b.Number)
	require.Equal(t, common.Hash{9}, b.ParentHash)
	require.Equal(t, uint64(1_700_000_000), b.Time)
	require.Equal(t, uint256.NewInt(25_000_000_000), b.BaseFee)
	require.True(t, b.Traced)
	require.Len(t, b.Transactions, 2)

	call := b.Transactions[0]
	require.Equal(t, Transaction{
		Hash: common.Hash{1}, Type: 2, Nonce: 4, From: alice, To: &token, Value: *uint256.NewInt(5), Input: []byte{0xa9, 0x05, 0x9c, 0xbb},
		GasLimit: 0x5208, GasUsed: 0x5000, GasPrice: *uint256.NewInt(0x19), MaxFee: uint256.NewInt(0x20), MaxPriorityFee: new(uint256.Int),
		Success: true, Logs: call.Logs, Frames: call.Frames,
	}, call)
	require.Len(t, call.Logs, 2)
	require.Equal(t, []Frame{
		{Type: FrameCall, From: token, To: alice, Value: *uint256.NewInt(9), Gas: 16, GasUsed: 8, Reverted: true, Depth: 1},
		{Type: FrameDelegateCall, From: token, To: alice, Gas: 3, GasUsed: 2, Reverted: true, Depth: 2},
		{Type: FrameCreate2, From: token, To: token, Gas: 1, GasUsed: 1, Depth: 1},
	}, call.Frames)

	create := b.Transactions[1]
	require.False(t, create.Success)
	require.Equal(t, crypto.CreateAddress(alice, 5), create.Created)
	require.Equal(t, []Frame{{Type: FrameCall, From: token, To: alice, Value: *uint256.NewInt(1), Gas: 1, GasUsed: 1, Reverted: true, Depth: 1}}, create.Frames)
}

func TestDecodeUntraced(t *testing.T) {
	a := answers(t)
	a.Traces = nil
	b, err := Decode(a)
	require.NoError(t, err)
	require.False(t, b.Traced)
	require.Nil(t, b.Transactions[0].Frames)

	empty := headerOf(t, 0)
	empty["transactions"] = []any{}
	b, err = Decode(Answers{Block: encode(t, empty)})
	require.NoError(t, err)
	require.True(t, b.Traced, "a block without transactions has no unknown frames")
}

// at returns the value at a path of a JSON document.
func at(v any, path ...any) any {
	for _, p := range path {
		if i, ok := p.(int); ok {
			v = v.([]any)[i]
		} else {
			v = v.(object)[p.(string)]
		}
	}
	return v
}

func TestDecodeRefuses(t *testing.T) {
	for name, bend := range map[string]func(b, r, x any) (any, any, any){
		"another hash":          func(b, r, x any) (any, any, any) { b.(object)["hash"] = common.Hash{7}; return b, r, x },
		"a changed header":      func(b, r, x any) (any, any, any) { b.(object)["gasUsed"] = "0x1"; return b, r, x },
		"no transactions field": func(b, r, x any) (any, any, any) { delete(b.(object), "transactions"); return b, r, x },
		"a hash for a transaction": func(b, r, x any) (any, any, any) {
			at(b, "transactions").([]any)[0] = common.Hash{1}
			return b, r, x
		},
		"transactions out of order": func(b, r, x any) (any, any, any) {
			at(b, "transactions", 0).(object)["transactionIndex"] = "0x1"
			return b, r, x
		},
		"no sender":                  func(b, r, x any) (any, any, any) { delete(at(b, "transactions", 0).(object), "from"); return b, r, x },
		"a receipt missing":          func(b, r, x any) (any, any, any) { return b, r.([]any)[:1], x },
		"a receipt too many":         func(b, r, x any) (any, any, any) { return b, append(r.([]any), at(r, 0)), x },
		"null for receipts":          func(b, r, x any) (any, any, any) { return b, nil, x },
		"receipts swapped":           func(b, r, x any) (any, any, any) { return b, []any{at(r, 1), at(r, 0)}, x },
		"a receipt of another block": func(b, r, x any) (any, any, any) { at(r, 0).(object)["blockHash"] = common.Hash{7}; return b, r, x },
		"no status":                  func(b, r, x any) (any, any, any) { delete(at(r, 0).(object), "status"); return b, r, x },
		"a status of two":            func(b, r, x any) (any, any, any) { at(r, 0).(object)["status"] = "0x2"; return b, r, x },
		"a removed log":              func(b, r, x any) (any, any, any) { at(r, 0, "logs", 0).(object)["removed"] = true; return b, r, x },
		"logs out of order":          func(b, r, x any) (any, any, any) { at(r, 0, "logs", 1).(object)["logIndex"] = "0x0"; return b, r, x },
		"five topics": func(b, r, x any) (any, any, any) {
			at(r, 0, "logs", 1).(object)["topics"] = make([]common.Hash, 5)
			return b, r, x
		},
		"a trace missing":     func(b, r, x any) (any, any, any) { return b, r, x.([]any)[:1] },
		"traces swapped":      func(b, r, x any) (any, any, any) { return b, r, []any{at(x, 1), at(x, 0)} },
		"a trace that failed": func(b, r, x any) (any, any, any) { return b, r, []any{object{"error": "timeout"}, at(x, 1)} },
		"a trace of other type": func(b, r, x any) (any, any, any) {
			return b, r, []any{object{"result": object{"structLogs": []any{}}}, at(x, 1)}
		},
		"a call by another": func(b, r, x any) (any, any, any) {
			at(x, 0, "result").(object)["from"] = token
			return b, r, x
		},
	} {
		t.Run(name, func(t *testing.T) {
			block, receipts, traces := bend(sample(t))
			_, err := Decode(Answers{Block: encode(t, block), Receipts: encode(t, receipts), Traces: encode(t, traces)})
			require.ErrorIs(t, err, ErrInconsistent)
		})
	}
}

// TestDecodeCutShort decodes every prefix of the answers.
func TestDecodeCutShort(t *testing.T) {
	whole := answers(t)
	for _, part := range []func(*Answers) *[]byte{
		func(a *Answers) *[]byte { return &a.Block },
		func(a *Answers) *[]byte { return &a.Receipts },
		func(a *Answers) *[]byte { return &a.Traces },
	} {
		for n := range len(*part(&whole)) {
			a := whole
			*part(&a) = (*part(&a))[:n]
			_, err := Decode(a)
			require.ErrorIs(t, err, ErrInconsistent, "the first %d bytes", n)
		}
	}
}

func TestDecodeDeepCalls(t *testing.T) {
	for depth, want := range map[int]bool{1025: true, 5000: false} {
		a := answers(t)
		frame := `{"type":"CALL","from":"` + token.Hex() + `","to":"` + token.Hex() + `"`
		calls := strings.Repeat(frame+`,"calls":[`, depth-1) + frame + "}" + strings.Repeat("]}", depth-1)
		own := `{"type":"CALL","from":"` + alice.Hex() + `","to":"` + token.Hex() + `","calls":[` + calls + `]}`
		a.Traces = fmt.Appendf(nil, `[{"result":%s},{"result":{"type":"CREATE","from":%q}}]`, own, alice.Hex())
		b, err := Decode(a)
		if !want {
			require.ErrorIs(t, err, ErrInconsistent)
			continue
		}
		require.NoError(t, err)
		require.Len(t, b.Transactions[0].Frames, depth)
	}
}

// TestHeaderHash verifies hashes of headers that avalanchego's own types encoded: v1.14.2, and commit 1cf1fc3d17 for
// Helicon (graft/coreth customtypes).
func TestHeaderHash(t *testing.T) {
	file, err := os.Open("testdata/headers.ndjson")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	n := 0
	for ; lines.Scan(); n++ {
		var h object
		require.NoError(t, json.Unmarshal(lines.Bytes(), &h))
		h["transactions"] = []any{}
		b, err := Decode(Answers{Block: encode(t, h)})
		require.NoError(t, err)
		require.Equal(t, h["hash"], b.Hash.Hex())
		if b.Milliseconds != 0 {
			require.Equal(t, uint64(1_700_000_000_123), b.Milliseconds)
			require.Equal(t, uint64(7970124), *b.MinDelayExcess)
		}

		h["stateRoot"] = common.Hash{3}
		_, err = Decode(Answers{Block: encode(t, h)})
		require.ErrorIs(t, err, ErrInconsistent, "another state")
		h["ofTomorrow"] = "0x1"
		_, err = Decode(Answers{Block: encode(t, h)})
		require.ErrorIs(t, err, ErrHash, "a field of later headers")
		child := b.Hash
		_, err = Decode(Answers{Block: encode(t, h), Confirmed: &child})
		require.NoError(t, err, "the child block confirms the hash")
		child[0]++
		_, err = Decode(Answers{Block: encode(t, h), Confirmed: &child})
		require.ErrorIs(t, err, ErrHash, "the child block has another parent")
	}
	require.Equal(t, 6, n)
}

func FuzzDecode(f *testing.F) {
	a := answers(f)
	f.Add(a.Block, a.Receipts, a.Traces)
	f.Add([]byte(`{"hash":null}`), []byte(`[[[`), []byte(`[{"result":{"calls":[{}]}}]`))
	f.Fuzz(func(t *testing.T, block, receipts, traces []byte) {
		for _, a := range []Answers{{Block: block, Receipts: receipts, Traces: traces}, {Block: a.Block, Receipts: receipts, Traces: traces}, {Block: a.Block, Receipts: a.Receipts, Traces: traces}} {
			b, err := Decode(a)
			if err != nil {
				require.ErrorIs(t, err, ErrInconsistent)
				continue
			}
			for _, part := range [][]byte{a.Block, a.Receipts, a.Traces} {
				if part != nil && len(b.Transactions) > 0 {
					require.NotEmpty(t, bytes.TrimSpace(part))
				}
			}
			last := int64(-1)
			for i := range b.Transactions {
				for _, l := range b.Transactions[i].Logs {
					require.Greater(t, int64(l.Index), last)
					last = int64(l.Index)
					Transfers(&l)
				}
				Messages(b.Transactions[i].Logs)
			}
		}
	})
}

// BenchmarkDecode measures a transaction with a token transfer and a few calls, the most common kind.
func BenchmarkDecode(b *testing.B) {
	const n = 200
	block, receipts, traces := sample(b)
	var txs, recs, xs []any
	for i := range n {
		tx, r, x := maps.Clone(at(block, "transactions", 0).(object)), maps.Clone(at(receipts, 0).(object)), maps.Clone(at(traces, 0).(object))
		hash, index := common.BigToHash(big.NewInt(int64(i+1))), fmt.Sprintf("%#x", i)
		tx["hash"], r["transactionHash"], x["txHash"] = hash, hash, hash
		tx["transactionIndex"], r["transactionIndex"] = index, index
		tx["input"] = "0x" + strings.Repeat("ab", 200)
		tx["r"], tx["s"] = common.Hash{1}, common.Hash{2}
		r["logsBloom"] = "0x" + strings.Repeat("00", 256)
		var logs []any
		for j := range 3 {
			l := maps.Clone(at(r, "logs", 0).(object))
			l["logIndex"], l["transactionHash"], l["blockHash"], l["blockNumber"] = fmt.Sprintf("%#x", 3*i+j), hash, hash, "0x5"
			logs = append(logs, l)
		}
		r["logs"] = logs
		call := maps.Clone(at(x, "result", "calls", 0).(object))
		call["input"], call["output"] = "0x"+strings.Repeat("ab", 150), "0x"+strings.Repeat("00", 32)
		top := maps.Clone(at(x, "result").(object))
		top["calls"] = []any{call, call, call}
		top["input"] = tx["input"]
		x["result"] = top
		txs, recs, xs = append(txs, tx), append(recs, r), append(xs, x)
	}
	block.(object)["transactions"] = txs
	a := Answers{Block: encode(b, block), Receipts: encode(b, recs), Traces: encode(b, xs)}
	b.SetBytes(int64(len(a.Block) + len(a.Receipts) + len(a.Traces)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(a); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/tx")
}
