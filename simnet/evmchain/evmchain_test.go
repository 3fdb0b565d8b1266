package evmchain

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextIsJSON(t *testing.T) {
	g, err := New(Options{Seed: 1, Record: true})
	require.NoError(t, err)
	for g.Txs() < 2000 {
		b, err := g.Next()
		require.NoError(t, err)
		require.True(t, json.Valid(b.Text), "%s", b.Text)
		require.True(t, json.Valid(b.Receipts))
		require.True(t, json.Valid(b.Traces), "%s", b.Traces)
	}
}

func BenchmarkNext(b *testing.B) {
	g, err := New(Options{Seed: 1, Txs: b.N})
	require.NoError(b, err)
	b.ReportAllocs()
	size := 0
	for g.Txs() < b.N {
		one, err := g.Next()
		require.NoError(b, err)
		size += len(one.Text) + len(one.Receipts) + len(one.Traces)
	}
	b.ReportMetric(float64(size)/float64(g.Txs()), "B/tx")
}
