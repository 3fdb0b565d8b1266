package evm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/rlp"
)

// recordedBlock is a C-Chain block of a real VM with its node's answers.
type recordedBlock struct {
	Fork             string
	Number           uint64
	Hash             common.Hash
	RLP              hexutil.Bytes
	transactions     []json.RawMessage
	receipts, traces json.RawMessage
}

// recordedBlocks reads the test history of the library: 22 blocks through every upgrade up to Granite (avalanchego
// vms/saevm/cchain/synchronoustest).
func recordedBlocks(t *testing.T) []recordedBlock {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/ava-labs/avalanchego").Output()
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "vms/saevm/cchain/synchronoustest/fixture.json"))
	require.NoError(t, err)
	var fixture struct {
		Blocks   []recordedBlock
		RPCCalls []struct {
			Method string
			Params []json.RawMessage
			Result json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(content, &fixture))
	for _, call := range fixture.RPCCalls {
		switch call.Method {
		case "eth_getTransactionByHash":
			var at struct{ BlockNumber hexutil.Uint64 }
			require.NoError(t, json.Unmarshal(call.Result, &at))
			b := &fixture.Blocks[at.BlockNumber]
			b.transactions = append(b.transactions, call.Result)
		case "eth_getBlockReceipts":
			fixture.Blocks[numberIn(t, call.Params[0])].receipts = encode(t, call.Result) // without spaces
		case "debug_traceBlockByNumber":
			if strings.Contains(string(call.Params[1]), "callTracer") && call.Result != nil {
				fixture.Blocks[numberIn(t, call.Params[0])].traces = call.Result
			}
		}
	}
	return fixture.Blocks
}

func numberIn(t *testing.T, param json.RawMessage) (n hexutil.Uint64) {
	require.NoError(t, json.Unmarshal(param, &n))
	return n
}

// answer returns the block as eth_getBlockByNumber does. The header fields come from the bytes, in the order of
// headerFields.
func (b *recordedBlock) answer(t *testing.T) object {
	var parts []rlp.RawValue
	require.NoError(t, rlp.DecodeBytes(b.RLP, &parts))
	var fields [][]byte
	require.NoError(t, rlp.DecodeBytes(parts[0], &fields))
	block := object{"hash": b.Hash, "transactions": b.transactions}
	if b.transactions == nil {
		block["transactions"] = []any{}
	}
	for i, field := range fields {
		if headerFields[i].kind == fieldQuantity {
			block[headerFields[i].name] = hexutil.EncodeBig(common.BytesToHash(field).Big())
		} else {
			block[headerFields[i].name] = hexutil.Bytes(field)
		}
	}
	return block
}

func TestRecordedBlocks(t *testing.T) {
	blocks := recordedBlocks(t)
	require.Len(t, blocks, 22)
	transactions, logs, frames, parent := 0, 0, 0, common.Hash{}
	for i := range blocks {
		b := &blocks[i]
		a := Answers{Block: encode(t, b.answer(t)), Receipts: b.receipts, Traces: b.traces}
		if b.Number == 0 {
			a.Receipts = nil
		}
		got, err := Decode(a)
		require.NoError(t, err, "block %d, %s", b.Number, b.Fork)
		require.Equal(t, b.Hash, got.Hash)
		require.Equal(t, parent, got.ParentHash)
		require.True(t, got.Traced)
		require.False(t, got.Unchecked, "its roots were checked")
		parent = got.Hash
		transactions += len(got.Transactions)
		for j := range got.Transactions {
			logs += len(got.Transactions[j].Logs)
			frames += len(got.Transactions[j].Frames)
		}

		// Every change of transactions or receipts is detected.
		for _, change := range []struct{ from, to string }{
			{`"nonce":"0x`, `"nonce":"0x1`}, {`"s":"0x`, `"s":"0x1`}, {`"gas":"0x`, `"gas":"0x1`},
		} {
			if changed := strings.Replace(string(encode(t, b.transactions)), change.from, change.to, 1); len(b.transactions) > 0 {
				block := b.answer(t)
				block["transactions"] = json.RawMessage(changed)
				_, err = Decode(Answers{Block: encode(t, block), Receipts: a.Receipts, Traces: a.Traces})
				require.ErrorIs(t, err, ErrInconsistent, "block %d: %s", b.Number, change.to)
			}
		}
		for _, change := range []struct{ from, to string }{{`"status":"0x1"`, `"status":"0x0"`}, {`"topics":["0x5`, `"topics":["0x6`}, {`"cumulativeGasUsed":"0x`, `"cumulativeGasUsed":"0x1`}} {
			if changed := strings.Replace(string(a.Receipts), change.from, change.to, 1); changed != string(a.Receipts) {
				_, err = Decode(Answers{Block: a.Block, Receipts: []byte(changed)})
				require.ErrorIs(t, err, ErrInconsistent, "block %d: %s", b.Number, change.to)
			}
		}
	}
	require.Equal(t, []int{27, 1, 2}, []int{transactions, logs, frames})
}

// TestRecordedBlockRetyped decodes answers of a provider that omits header fields, as one did since Granite, and of one
// that omits signature fields.
func TestRecordedBlockRetyped(t *testing.T) {
	blocks := recordedBlocks(t)
	b := &blocks[len(blocks)-1]
	block := b.answer(t)
	retyped := maps.Clone(block)
	delete(retyped, "timestampMilliseconds")
	delete(retyped, "minDelayExcess")
	a := Answers{Block: encode(t, retyped), Receipts: b.receipts, Traces: b.traces}
	_, err := Decode(a)
	require.ErrorIs(t, err, ErrHash)
	require.ErrorIs(t, err, ErrInconsistent)
	a.Confirmed = &b.Hash
	got, err := Decode(a)
	require.NoError(t, err)
	require.Equal(t, b.Hash, got.Hash)
	require.False(t, got.Unchecked)
	require.True(t, got.Unhashed)

	block["transactions"] = json.RawMessage(strings.ReplaceAll(string(encode(t, b.transactions)), `"r":"0x`, `"dropped":"0x`))
	got, err = Decode(Answers{Block: encode(t, block), Receipts: b.receipts, Traces: b.traces})
	require.NoError(t, err)
	require.True(t, got.Unchecked)

	parent, err := ParentHash(encode(t, block))
	require.NoError(t, err)
	require.Equal(t, blocks[len(blocks)-2].Hash, parent)
	_, err = ParentHash([]byte(`{"hash":"0x1"}`))
	require.ErrorIs(t, err, ErrInconsistent)
}

// TestSettledReceiptsRoot decodes a header since Helicon, whose receipts root does not cover the block's own receipts.
func TestSettledReceiptsRoot(t *testing.T) {
	blocks := recordedBlocks(t)
	b := &blocks[len(blocks)-1]
	block := b.answer(t)
	block["receiptsRoot"] = common.Hash{7}
	got, err := Decode(Answers{Block: encode(t, block), Receipts: b.receipts, Confirmed: &b.Hash})
	require.NoError(t, err, "the node may have omitted the height that is settled")
	require.True(t, got.Unchecked && got.Unhashed)
	block["settledHeight"] = fmt.Sprintf("%#x", b.Number-1)
	got, err = Decode(Answers{Block: encode(t, block), Receipts: b.receipts, Confirmed: &b.Hash})
	require.NoError(t, err)
	require.False(t, got.Unchecked)
	require.Equal(t, b.Number-1, *got.Settled)
	require.Len(t, got.Receipts, len(got.Transactions))
	var root struct{ ReceiptsRoot common.Hash }
	require.NoError(t, json.Unmarshal(encode(t, b.answer(t)), &root))
	require.Equal(t, root.ReceiptsRoot, ReceiptsRoot(got.Receipts), "which a later header has")

	// Logs are compared with their bloom.
	withLogs := 0
	for i := range blocks {
		b := &blocks[i]
		logs := strings.Replace(string(b.receipts), `"topics":["0x5`, `"topics":["0x6`, 1)
		if logs == string(b.receipts) {
			continue
		}
		block := b.answer(t)
		block["settledHeight"] = fmt.Sprintf("%#x", b.Number-1)
		_, err = Decode(Answers{Block: encode(t, block), Receipts: []byte(logs), Confirmed: &b.Hash})
		require.ErrorContains(t, err, "are not those of its bloom")
		withLogs++
	}
	require.Positive(t, withLogs)

	// Only the transactions root tells that a transaction was left out together with its receipt.
	var receipts []json.RawMessage
	require.NoError(t, json.Unmarshal(b.receipts, &receipts))
	require.Len(t, receipts, len(b.transactions))
	require.NotEmpty(t, receipts)
	last := len(receipts) - 1
	block["transactions"] = b.transactions[:last]
	_, err = Decode(Answers{Block: encode(t, block), Receipts: encode(t, receipts[:last]), Confirmed: &b.Hash})
	require.ErrorIs(t, err, ErrInconsistent)
	require.ErrorContains(t, err, "the root of the transactions")
}

// TestHeaderFieldsHideNothing repeats a field as null, and leaves out a field that is 0. The hash is right both times, so the
// checks must see the field.
func TestHeaderFieldsHideNothing(t *testing.T) {
	blocks := recordedBlocks(t)
	b := &blocks[len(blocks)-1]
	for _, field := range []string{"baseFeePerGas", "parentHash", "settledHeight"} {
		block := encode(t, b.answer(t))
		if field == "settledHeight" {
			block = append(block[:len(block)-1:len(block)-1], `,"settledHeight":"0x1"}`...)
		}
		block = append(block[:len(block)-1:len(block)-1], fmt.Sprintf(",%q:null}", field)...)
		_, err := Decode(Answers{Block: block, Receipts: b.receipts, Traces: b.traces, Confirmed: &b.Hash})
		require.ErrorIs(t, err, ErrInconsistent)
		require.ErrorContains(t, err, field+" is there twice")
	}
	var h header
	for i := range h.has {
		h.has[i] = i != settledField && i != baseFeeField
	}
	h.imply()
	require.True(t, h.has[settledField] && h.has[baseFeeField], "fields after them are there")
	h = header{}
	h.has[baseFeeField] = true
	h.imply()
	require.False(t, h.has[settledField])
}

// TestRecordedBlockDerived changes what the roots do not contain and only imply.
func TestRecordedBlockDerived(t *testing.T) {
	changed := make(map[string]int)
	blocks := recordedBlocks(t)
	for i := range blocks {
		b := &blocks[i]
		if len(b.transactions) == 0 {
			continue
		}
		block := b.answer(t)
		_, err := Decode(Answers{Block: encode(t, block), Receipts: b.receipts, Senders: true})
		require.NoError(t, err, "block %d", b.Number)
		try := func(what, from, to, want string) {
			t.Helper()
			a := Answers{Block: encode(t, block), Receipts: []byte(strings.Replace(string(b.receipts), from, to, 1))}
			if what == "sender" {
				all := maps.Clone(block)
				all["transactions"] = json.RawMessage(strings.Replace(string(encode(t, b.transactions)), from, to, 1))
				a = Answers{Block: encode(t, all), Receipts: b.receipts, Senders: true}
			} else if string(a.Receipts) == string(b.receipts) {
				return
			}
			_, err := Decode(a)
			require.ErrorIs(t, err, ErrInconsistent, "block %d: %s", b.Number, what)
			require.ErrorContains(t, err, want, "block %d", b.Number)
			changed[what]++
		}
		try("sender", `"from":"0x`, `"from":"0x1234567890abcdef1234567890abcdef12345678","was":"0x`, "the sender of transaction")
		try("gas", `"gasUsed":"0x`, `"gasUsed":"0x1`, "gas used, want")
		try("price", `"effectiveGasPrice":"0x`, `"effectiveGasPrice":"0x1`, "the gas price")
		try("contract", `"contractAddress":"0x`, `"contractAddress":"0x1234567890abcdef1234567890abcdef12345678","was":"0x`, "the contract address")
		try("log", `"logIndex":"0x0"`, `"logIndex":"0x1"`, "log ind")
	}
	for _, what := range []string{"sender", "gas", "price", "contract", "log"} {
		require.Positive(t, changed[what], what)
	}
}
