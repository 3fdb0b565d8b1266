package evm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/simnet/evmchain"
)

// TestDecodeGenerated decodes generated chains with all kinds of traffic and compares the result with the generator's
// data.
func TestDecodeGenerated(t *testing.T) {
	for name, o := range map[string]evmchain.Options{"C-Chain": {}, "C-Chain since Helicon": {SAE: true, Span: 5 * time.Minute}, "L1": {L1: true}} {
		t.Run(name, func(t *testing.T) {
			o.Txs, o.Record = 1500, true
			g, err := evmchain.New(o)
			require.NoError(t, err)
			transfers, messages := 0, 0
			for g.Txs() < 1500 {
				b, err := g.Next()
				require.NoError(t, err)
				got, err := evm.Decode(evm.Answers{Block: b.Text, Receipts: b.Receipts, Traces: b.Traces})
				require.NoError(t, err, "block %d", b.Number)
				require.Equal(t, b.Decoded, got, "block %d", b.Number)
				for i := range got.Transactions {
					logs := got.Transactions[i].Logs
					for j := range logs {
						transfers += len(evm.Transfers(&logs[j]))
					}
					messages += len(evm.Messages(logs))
				}
				require.NotEqual(t, common.Hash{}, got.Hash)
			}
			require.Positive(t, transfers)
			require.Positive(t, messages)
		})
	}
}

// BenchmarkDecodeGenerated measures a transaction of mixed traffic.
func BenchmarkDecodeGenerated(b *testing.B) {
	g, err := evmchain.New(evmchain.Options{Txs: 2000})
	require.NoError(b, err)
	var blocks []*evmchain.Block
	size := 0
	for g.Txs() < 2000 {
		block, err := g.Next()
		require.NoError(b, err)
		blocks = append(blocks, block)
		size += len(block.Text) + len(block.Receipts) + len(block.Traces)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, block := range blocks {
			if _, err := evm.Decode(evm.Answers{Block: block.Text, Receipts: block.Receipts, Traces: block.Traces}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*g.Txs()), "ns/tx")
}
