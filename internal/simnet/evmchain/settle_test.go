package evmchain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"
)

// A header since Helicon has the results of the blocks that were executed at least 5 s before, each once.
func TestBlocksAreSettledLater(t *testing.T) {
	o := Options{Seed: 4, Txs: 900, Span: 2 * time.Minute, SAE: true, Record: true}
	_, blocks := chain(t, o)
	type header struct {
		ReceiptsRoot, StateRoot       common.Hash
		LogsBloom                     types.Bloom
		SettledHeight, SettledGasUnix hexutil.Uint64
		GasUsed                       hexutil.Uint64
	}
	settled, most := uint64(0), uint64(0)
	for _, b := range blocks[1:] {
		require.NotEmpty(t, b.Txs)
		h := read[header](t, b.Text)
		until := uint64(h.SettledHeight)
		require.GreaterOrEqual(t, until, settled)
		require.GreaterOrEqual(t, b.Time.Sub(blocks[until].Time), min(5*time.Second, b.Time.Sub(blocks[0].Time)))
		require.Less(t, b.Time.Sub(blocks[until+1].Time), 5*time.Second)
		require.Equal(t, uint64(blocks[until].Time.Unix()), uint64(h.SettledGasUnix))
		var receipts [][]byte
		for n := settled + 1; n <= until; n++ {
			receipts = append(receipts, blocks[n].Decoded.Receipts...)
			for i := range blocks[n].Decoded.Transactions {
				for _, l := range blocks[n].Decoded.Transactions[i].Logs {
					require.True(t, types.BloomLookup(h.LogsBloom, l.Address))
				}
			}
		}
		require.Equal(t, rootOf(receipts), h.ReceiptsRoot)
		if len(receipts) == 0 {
			require.Equal(t, types.Bloom{}, h.LogsBloom)
		}
		var used uint64
		for i := range b.Decoded.Transactions {
			used += b.Decoded.Transactions[i].GasUsed
		}
		require.GreaterOrEqual(t, uint64(h.GasUsed), used, "the limits of the transactions")
		most = max(most, until-settled)
		settled = until
	}
	require.Greater(t, most, uint64(1))
	_, err := New(Options{L1: true, SAE: true})
	require.Error(t, err)
}

func TestNodeSinceHelicon(t *testing.T) {
	o := Options{Seed: 4, Txs: 300, Span: time.Minute, SAE: true, Record: true}
	n, url := served(t, o)
	_, blocks := chain(t, o)
	tip := blocks[len(blocks)-1]
	last := blocks[*tip.Decoded.Settled]
	require.Less(t, last.Number, tip.Number)
	require.Equal(t, string(tip.Text), result(t, url, "eth_getBlockByNumber", `["latest",true]`))
	for _, name := range []string{"finalized", "safe"} {
		require.Equal(t, string(last.Text), result(t, url, "eth_getBlockByNumber", `["`+name+`",true]`), name)
	}
	above := fmt.Sprintf("0x%x", n.Tip()+1)
	require.Equal(t, "null", result(t, url, "eth_getBlockByNumber", `["`+above+`",true]`))
	require.Equal(t, "null", result(t, url, "eth_getBlockReceipts", `["`+above+`"]`))
	require.Equal(t, "[]", result(t, url, "eth_getLogs", `[{"fromBlock":"`+above+`","toBlock":"`+above+`"}]`))
	for _, test := range []struct{ method, params, want string }{
		{"eth_getBalance", `["` + Teleporter.Hex() + `","` + above + `"]`, fmt.Sprintf("block not found: not accepted yet: block %d", n.Tip()+1)},
		{"debug_traceBlockByNumber", `["` + above + `",{"tracer":"callTracer"}]`, fmt.Sprintf("block #%d not found", n.Tip()+1)},
	} {
		answer := call(t, url, test.method, test.params)
		require.NotNil(t, answer.Error, test.method)
		require.Equal(t, -32000, answer.Error.Code)
		require.True(t, strings.HasSuffix(answer.Error.Message, test.want), answer.Error.Message)
	}
}
