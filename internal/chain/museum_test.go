package chain

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/avm/block"
	pblock "github.com/ava-labs/avalanchego/vms/platformvm/block"
	ptxs "github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/evm"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
)

// The tests in this file decode bytes of real chains with known IDs. Each must decode, encode to the same bytes, and
// hash to its ID. Most bytes come from files of the pinned avalanchego module.

// library returns a file of the avalanchego module.
func library(t *testing.T, path ...string) []byte {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ava-labs/avalanchego").Output()
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(append([]string{strings.TrimSpace(string(out))}, path...)...))
	require.NoError(t, err)
	return content
}

// fixture is what the C-Chain's VM recorded about its own blocks (vms/saevm/cchain).
type fixture struct {
	Upgrades upgrade.Config
	Blocks   []struct {
		Fork   string
		Number uint64
		Hash   common.Hash
		RLP    hexutil.Bytes
	}
	RPCCalls []struct {
		Method string
		Params []json.RawMessage
		Result json.RawMessage
		Error  string
	}
}

// answers returns the recorded results of a method by its first parameter.
func (f *fixture) answers(method, options string) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for _, call := range f.RPCCalls {
		if call.Method != method || call.Error != "" {
			continue
		}
		if options != "" {
			var compact bytes.Buffer
			if json.Compact(&compact, call.Params[1]) != nil || compact.String() != options {
				continue
			}
		}
		all[strings.Trim(string(call.Params[0]), `"`)] = call.Result
	}
	return all
}

// headerNames are the Ethereum API's names of header fields in order. An asterisk marks quantities.
var headerNames = strings.Fields(`parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom *difficulty
	*number *gasLimit *gasUsed *timestamp extraData mixHash nonce extDataHash *baseFeePerGas *extDataGasUsed *blockGasCost
	*blobGasUsed *excessBlobGas parentBeaconBlockRoot *timestampMilliseconds *minDelayExcess`)

// answerOf returns a block as eth_getBlockByNumber does.
func answerOf(t *testing.T, raw []byte, hash common.Hash, transactions map[string]json.RawMessage) (answer []byte, hashes []common.Hash) {
	t.Helper()
	var parts []rlp.RawValue
	require.NoError(t, rlp.DecodeBytes(raw, &parts))
	var header [][]byte
	require.NoError(t, rlp.DecodeBytes(parts[0], &header))
	object := map[string]any{"hash": hash}
	for i, field := range header {
		name, quantity := strings.CutPrefix(headerNames[i], "*")
		object[name] = hexutil.Bytes(field)
		if quantity {
			object[name] = (*hexutil.Big)(new(hexutil.Big).ToInt().SetBytes(field))
		}
	}
	var bodies []rlp.RawValue
	require.NoError(t, rlp.DecodeBytes(parts[1], &bodies))
	list := make([]json.RawMessage, 0, len(bodies))
	for _, body := range bodies {
		var one types.Transaction
		require.NoError(t, rlp.DecodeBytes(body, &one))
		hashes = append(hashes, one.Hash())
		require.Contains(t, transactions, one.Hash().Hex())
		list = append(list, transactions[one.Hash().Hex()])
	}
	object["transactions"] = list
	answer, err := json.Marshal(object)
	require.NoError(t, err)
	return answer, hashes
}

// TestMuseumCChain decodes the 22 blocks that the C-Chain's VM made through every upgrade to Granite, with its answers
// about them.
func TestMuseumCChain(t *testing.T) {
	var f fixture
	require.NoError(t, json.Unmarshal(library(t, "vms", "saevm", "cchain", "synchronoustest", "fixture.json"), &f))
	require.Len(t, f.Blocks, 22)
	transactions, receipts := f.answers("eth_getTransactionByHash", ""), f.answers("eth_getBlockReceipts", "")
	traces := f.answers("debug_traceBlockByNumber", `{"tracer":"callTracer"}`)
	single := f.answers("debug_traceTransaction", `{"tracer":"callTracer"}`)
	alone, logs := f.answers("eth_getTransactionReceipt", ""), f.logs(t)
	forks, compared, atomic := make(map[string]int), 0, 0
	var parent ids.ID
	for i, b := range f.Blocks {
		forks[b.Fork]++
		parsed, err := cchain.ParseBlock(b.RLP)
		require.NoError(t, err, "block %d", i)
		require.Equal(t, b.Hash, common.Hash(parsed.ID), "block %d", i)
		require.Equal(t, b.Number, parsed.Height)
		require.Equal(t, parent, parsed.ParentID)
		parent = parsed.ID
		atomic += checkAtomic(t, &f, parsed)

		number := hexutil.EncodeUint64(b.Number)
		block, hashes := answerOf(t, b.RLP, b.Hash, transactions)
		decoded, err := evm.Decode(evm.Answers{Block: block, Receipts: receipts[number], Traces: traces[number]}) // encodes the header again for its hash
		require.NoError(t, err, "block %d", i)
		require.Equal(t, b.Hash, decoded.Hash)
		require.Equal(t, uint64(parsed.Time.Unix()), decoded.Time)
		require.Len(t, decoded.Transactions, len(hashes))
		require.True(t, decoded.Traced)
		compared += 5
		for j := range decoded.Transactions {
			one := &decoded.Transactions[j]
			require.Equal(t, hashes[j], one.Hash)
			checkReceipt(t, one, alone[one.Hash.Hex()])
			checkFrames(t, one, single[one.Hash.Hex()])
			compared += 3 + len(one.Logs) + len(one.Frames)
		}
		require.Contains(t, logs, b.Number)
		checkLogs(t, decoded, logs[b.Number])
		compared += 1 + len(logs[b.Number])
	}
	require.Len(t, forks, 15, "%v", forks)
	require.Equal(t, 6, atomic)
	t.Logf("%d comparisons of %d blocks, %d atomic transactions", compared, len(f.Blocks), atomic)
}

// checkAtomic requires that the atomic transactions of a block decode. The decoder encodes each again for its ID, which
// must be the hash of the original bytes.
func checkAtomic(t *testing.T, f *fixture, b *cchain.Block) (transactions int) {
	t.Helper()
	if len(b.ExtraData) == 0 {
		return 0
	}
	const version, size, kind = codec.VersionSize, 4, 4
	list := f.Upgrades.IsApricotPhase5Activated(b.Time)
	first := b.ExtraData[version:]
	read := *b
	if list {
		first = first[size:]
	} else {
		read.Time = time.Unix(0, 0) // before the upgrade on any network
	}
	networkID := binary.BigEndian.Uint32(first[kind:])
	d, err := cchain.NewDecoder(networkID, ids.ID(first[kind+4:][:ids.IDLen]), nil)
	require.NoError(t, err)
	got, err := d.Transactions(&read)
	require.NoError(t, err)
	require.NotEmpty(t, got)
	if list {
		require.EqualValues(t, len(got), binary.BigEndian.Uint32(b.ExtraData[version:]))
	}
	if len(got) == 1 {
		require.Equal(t, ids.ID(hashing.ComputeHash256Array(slices.Concat(b.ExtraData[:version], first))), got[0].ID)
	}
	return len(got)
}

func checkReceipt(t *testing.T, got *evm.Transaction, recorded []byte) {
	t.Helper()
	var want types.Receipt
	require.NoError(t, json.Unmarshal(recorded, &want))
	require.Equal(t, want.Status == types.ReceiptStatusSuccessful, got.Success)
	require.Equal(t, want.GasUsed, got.GasUsed)
	require.Equal(t, want.EffectiveGasPrice.String(), got.GasPrice.Dec())
	require.Len(t, got.Logs, len(want.Logs))
	for i, l := range want.Logs {
		require.Equal(t, l.Address, got.Logs[i].Address)
		require.Equal(t, l.Topics, got.Logs[i].Topics)
		require.Equal(t, l.Data, append([]byte{}, got.Logs[i].Data...))
		require.EqualValues(t, l.Index, got.Logs[i].Index)
	}
	if got.To == nil {
		require.Equal(t, want.ContractAddress, got.Created)
	}
}

// call is a call frame of callTracer.
type call struct {
	Type         string
	From, To     common.Address
	Value        *hexutil.Big
	Gas, GasUsed hexutil.Uint64
	Error        string
	Calls        []call
}

func (c *call) flat(depth int, failed bool) (all []string) {
	for i := range c.Calls {
		inner := &c.Calls[i]
		value := "0"
		if inner.Value != nil && inner.Type != "DELEGATECALL" {
			value = inner.Value.ToInt().String()
		}
		reverted := failed || inner.Error != ""
		all = append(all, fmt.Sprintln(depth, inner.Type, inner.From, inner.To, value, uint64(inner.Gas), uint64(inner.GasUsed), reverted))
		all = append(all, inner.flat(depth+1, reverted)...)
	}
	return all
}

var frameNames = map[evm.FrameType]string{
	evm.FrameCall: "CALL", evm.FrameCallCode: "CALLCODE", evm.FrameDelegateCall: "DELEGATECALL", evm.FrameStaticCall: "STATICCALL",
	evm.FrameCreate: "CREATE", evm.FrameCreate2: "CREATE2", evm.FrameSelfDestruct: "SELFDESTRUCT",
}

// checkFrames compares the frames with the trace of the transaction.
func checkFrames(t *testing.T, got *evm.Transaction, recorded []byte) {
	t.Helper()
	var top call
	require.NoError(t, json.Unmarshal(recorded, &top))
	var have []string
	for _, f := range got.Frames {
		have = append(have, fmt.Sprintln(f.Depth, frameNames[f.Type], f.From, f.To, f.Value.Dec(), f.Gas, f.GasUsed, f.Reverted))
	}
	require.Equal(t, top.flat(1, top.Error != ""), have, "%s", got.Hash)
}

// logs returns the answers of eth_getLogs for single blocks without filters.
func (f *fixture) logs(t *testing.T) map[uint64][]types.Log {
	t.Helper()
	all := make(map[uint64][]types.Log)
	for _, call := range f.RPCCalls {
		if call.Method != "eth_getLogs" {
			continue
		}
		filter := make(map[string]any)
		require.NoError(t, json.Unmarshal(call.Params[0], &filter))
		if len(filter) != 2 || filter["fromBlock"] != filter["toBlock"] {
			continue
		}
		number, err := hexutil.DecodeUint64(filter["fromBlock"].(string))
		require.NoError(t, err)
		var logs []types.Log
		require.NoError(t, json.Unmarshal(call.Result, &logs))
		all[number] = logs
	}
	return all
}

// checkLogs compares the logs of a block with the result of eth_getLogs.
func checkLogs(t *testing.T, b *evm.Block, want []types.Log) {
	t.Helper()
	var got []types.Log
	for i := range b.Transactions {
		for _, l := range b.Transactions[i].Logs {
			got = append(got, types.Log{
				Address: l.Address, Topics: l.Topics, Data: append([]byte{}, l.Data...), BlockNumber: b.Number, BlockHash: b.Hash,
				TxHash: b.Transactions[i].Hash, TxIndex: uint(i), Index: uint(l.Index),
			})
		}
	}
	require.ElementsMatch(t, want, got)
}

// TestMuseumAtomic decodes atomic transactions of mainnet's C-Chain.
func TestMuseumAtomic(t *testing.T) {
	content, err := os.ReadFile("testdata/museum/atomic_mainnet.json")
	require.NoError(t, err)
	var extract struct {
		Transactions []struct {
			Block uint64
			ID    ids.ID
			Bytes hexutil.Bytes
		}
	}
	require.NoError(t, json.Unmarshal(content, &extract))
	require.Len(t, extract.Transactions, 3)
	g, err := genesis.FromConfig(avagenesis.GetConfig(constants.MainnetID))
	require.NoError(t, err)
	d, err := cchain.NewDecoder(constants.MainnetID, g.CChainID, nil)
	require.NoError(t, err)
	for _, one := range extract.Transactions {
		// Before Apricot Phase 5 a block's extra data is one transaction.
		got, err := d.Transactions(&cchain.Block{Height: one.Block, Time: g.Time.Add(time.Hour), ExtraData: one.Bytes})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, one.ID, got[0].ID, "the hash of the re-encoded transaction")
		require.Equal(t, one.ID, ids.ID(hashing.ComputeHash256Array(one.Bytes)))
	}
}

// documented returns the distinct values of a field in a document's JSON, decoded from hex with a checksum.
func documented(t *testing.T, document []byte, field string) (all [][]byte) {
	t.Helper()
	seen := make(map[string]bool)
	for _, found := range regexp.MustCompile(`"`+field+`": *"(0x[0-9a-f]+)"`).FindAllSubmatch(document, -1) {
		if text := string(found[1]); !seen[text] {
			seen[text] = true
			raw, err := formatting.Decode(formatting.Hex, text)
			require.NoError(t, err)
			all = append(all, raw)
		}
	}
	return all
}

// TestMuseumPChain decodes blocks of mainnet's P-Chain from the node's documentation.
func TestMuseumPChain(t *testing.T) {
	platform, asset := library(t, "vms", "platformvm", "service.md"), library(t, "vms", "avm", "service.md")
	raw := slices.Concat(documented(t, platform, "block"), documented(t, asset, "block")) // the latter also has P-Chain blocks
	heights := []uint64{1000001, 4827146, 5093857}
	known := map[uint64]string{1000001: "d7WYmb8VeZNHsny3EJCwMm6QA37s1EHwMxw1Y71V3FqPZ5EFG", 4827146: "tXJ4xwmR8soHE6DzRNMQPtiwQvuYsHn6eLLBzo2moDqBquqy6"}
	require.Contains(t, string(platform), known[1000001])
	require.Contains(t, string(asset), known[4827146])
	require.Len(t, raw, len(heights))
	for i, b := range raw {
		got, err := pchain.ParseBlock(b)
		require.NoError(t, err)
		require.Equal(t, heights[i], got.Height)
		require.Equal(t, ids.ID(hashing.ComputeHash256Array(b)), got.ID)
		if id, ok := known[got.Height]; ok {
			require.Equal(t, id, got.ID.String())
		}
		parsed, err := pblock.Parse(pblock.Codec, b)
		require.NoError(t, err)
		require.Equal(t, b, encoded(t, pblock.Codec, &parsed))
		for _, one := range parsed.Txs() {
			require.Equal(t, one.Bytes(), encoded(t, ptxs.Codec, one))
			require.Equal(t, ids.ID(hashing.ComputeHash256Array(one.Bytes())), one.ID())
		}
	}
}

func encoded(t *testing.T, c codec.Manager, v any) []byte {
	t.Helper()
	b, err := c.Marshal(0, v)
	require.NoError(t, err)
	return b
}

// TestMuseumXChain decodes X-Chain transactions from the documentation of the index.
func TestMuseumXChain(t *testing.T) {
	document := library(t, "indexer", "service.md")
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	found := regexp.MustCompile(`"id": "(\w+)",\s+"bytes": "(0x[0-9a-f]+)"`).FindAllSubmatch(document, -1)
	known := make(map[string]bool)
	for _, one := range found {
		raw, err := formatting.Decode(formatting.Hex, string(one[2]))
		require.NoError(t, err)
		id := ids.ID(hashing.ComputeHash256Array(raw)).String()
		if id != string(one[1]) {
			continue // a truncated example
		}
		got, err := parser.ParseTx(raw)
		require.NoError(t, err)
		require.Equal(t, id, got.ID().String())
		again, err := parser.Codec().Marshal(block.CodecVersion, got)
		require.NoError(t, err)
		require.Equal(t, raw, again)
		known[id] = true
	}
	require.Contains(t, known, "ZGYTSU8w3zUP6VFseGC798vA2Vnxnfj6fz1QPfA9N93bhjJvo", "the second transaction of mainnet")
	t.Logf("transactions: %v", slices.Sorted(maps.Keys(known)))
}

// TestMuseumGenesis reads the genesis configurations of mainnet and Fuji. The library's checkpoints have the IDs of
// their chains.
func TestMuseumGenesis(t *testing.T) {
	var checkpoints map[string]map[ids.ID][]ids.ID
	require.NoError(t, json.Unmarshal(library(t, "genesis", "checkpoints.json"), &checkpoints))
	for _, network := range []struct {
		id           uint32
		name, hashed string // hash of the genesis, from genesis_test.go
		stop         string // the X-Chain's stop vertex, from upgrade.go
	}{
		{constants.MainnetID, "mainnet", "UUvXi6j7QhVvgpbKM89MP5HdrxKm9CaJeHc187TsDNf8nZdLk", "jrGWDh5Po9FMj54depyunNixpia5PN4aAYxfmNzU8n752Rjga"},
		{constants.FujiID, "fuji", "MSj6o9TpezwsQx4Tv7SHqpVvCbJ8of1ikjsqPZ1bKRjc9zBy3", "2D1cmbiG36BqQMRyHt4kFhWarmatA1ighSpND3FeFgz3vFVtCZ"},
	} {
		t.Run(network.name, func(t *testing.T) {
			content := library(t, "genesis", "genesis_"+network.name+".json")
			file := filepath.Join(t.TempDir(), "genesis.json")
			require.NoError(t, os.WriteFile(file, content, 0o600))
			config, err := avagenesis.GetConfigFile(file)
			require.NoError(t, err)
			raw, _, err := avagenesis.FromConfig(config)
			require.NoError(t, err)
			require.Equal(t, network.hashed, ids.ID(hashing.ComputeHash256Array(raw)).String())
			g, err := genesis.FromFile(file)
			require.NoError(t, err)
			require.Equal(t, network.hashed, parentOf(t, g).String())

			of := checkpoints[network.name]
			require.Len(t, of, 3)
			for _, chainID := range []ids.ID{constants.PlatformChainID, g.XChainID, g.CChainID} {
				require.Len(t, of[chainID], 99, "checkpoints of %s", chainID)
				require.Len(t, slices.Compact(slices.SortedFunc(slices.Values(of[chainID]), ids.ID.Compare)), 99)
			}
			checkGenesisTxs(t, g)

			stop := upgrade.GetConfig(network.id).CortinaXChainStopVertexID
			require.Equal(t, network.stop, stop.String())
			x, err := xchain.NewDecoder(g.XChainID, g.X)
			require.NoError(t, err)
			linear, err := x.AlwaysLinear(&xchain.Block{ParentID: stop})
			require.NoError(t, err)
			require.False(t, linear, "the X-Chain had vertices")
		})
	}
}

// parentOf returns the parent of the P-Chain's first block: the hash of the genesis.
func parentOf(t *testing.T, g *genesis.Genesis) ids.ID {
	t.Helper()
	// The block at height 0 is a commit block with that parent (vms/platformvm/state).
	require.Zero(t, g.P.Height)
	for _, parent := range []string{"UUvXi6j7QhVvgpbKM89MP5HdrxKm9CaJeHc187TsDNf8nZdLk", "MSj6o9TpezwsQx4Tv7SHqpVvCbJ8of1ikjsqPZ1bKRjc9zBy3"} {
		id, err := ids.FromString(parent)
		require.NoError(t, err)
		first, err := pblock.NewApricotCommitBlock(id, 0)
		require.NoError(t, err)
		if first.ID() == g.P.ID {
			return id
		}
	}
	require.Fail(t, "the first block has no known parent", "%s", g.P.ID)
	return ids.Empty
}

// checkGenesisTxs requires that the genesis transactions encode to bytes with the same IDs.
func checkGenesisTxs(t *testing.T, g *genesis.Genesis) {
	t.Helper()
	for id, raw := range g.PTxs {
		require.Equal(t, id, ids.ID(hashing.ComputeHash256Array(raw)))
		one, err := ptxs.Parse(ptxs.GenesisCodec, raw)
		require.NoError(t, err)
		require.Equal(t, raw, encoded(t, ptxs.GenesisCodec, one))
	}
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	for id, raw := range g.XTxs {
		require.Equal(t, id, ids.ID(hashing.ComputeHash256Array(raw)))
		one, err := parser.ParseGenesisTx(raw)
		require.NoError(t, err)
		again, err := parser.GenesisCodec().Marshal(block.CodecVersion, one)
		require.NoError(t, err)
		require.Equal(t, raw, again)
	}
	require.NotEmpty(t, g.PTxs)
	require.NotEmpty(t, g.XTxs)
	t.Log(strconv.Itoa(len(g.PTxs)) + " and " + strconv.Itoa(len(g.XTxs)) + " transactions")
}
