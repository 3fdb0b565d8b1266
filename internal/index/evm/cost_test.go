package evm_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index/evm"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
)

// TestCost compares the documented cost of the optional indexes with that of the benchmark's traffic.
func TestCost(t *testing.T) {
	const transactions = 5000
	families := map[evm.Optional][]store.Family{
		evm.AddressTransactions: {store.FamilyEVMAddressTx, store.FamilyEVMTokenTransfer, store.FamilyEVMContractTransfer},
		evm.TokenBalances:       {store.FamilyEVMTokenBalance, store.FamilyEVMTokenBalanceAt},
		evm.ChainMetrics:        {store.FamilyEVMPeriod, store.FamilyEVMActor, store.FamilyEVMLastActive},
	}
	documentation, err := os.ReadFile("../../../docs/data-api.md")
	require.NoError(t, err)
	g, err := evmchain.New(evmchain.Options{Seed: 1, Txs: transactions, NetworkID: network, Record: true})
	require.NoError(t, err)
	n, err := evmchain.NewNode(g, t.TempDir())
	require.NoError(t, err)
	defer func() { _ = n.Close() }()
	require.NoError(t, n.Grow(t.Context(), transactions))
	s := store.NewMemory()
	p := evm.NewProjection(network, g.BlockchainID()).With(evm.Optionals()...)
	indexed := 0
	for _, b := range g.Truth().Blocks() {
		var batch store.Batch
		require.NoError(t, p.Apply(t.Context(), s, b, &batch))
		require.NoError(t, s.Commit(t.Context(), &batch))
		indexed += len(b.Transactions)
	}
	for _, optional := range evm.Optionals() {
		rows, bytes := 0, 0
		for _, family := range families[optional] {
			for row, err := range store.Rows(t.Context(), s, family) {
				require.NoError(t, err)
				rows++
				bytes += len(row.P) + len(row.K) + len(row.V)
			}
		}
		t.Logf("%s: %.3f rows and %.1f bytes a transaction", optional, float64(rows)/float64(indexed), float64(bytes)/float64(indexed))
		declared := regexp.MustCompile(fmt.Sprintf("\\| `%s` \\| ([0-9.]+) \\| ([0-9]+) \\|", optional)).FindSubmatch(documentation)
		require.NotNil(t, declared, "%s is not documented", optional)
		for i, got := range []float64{float64(rows) / float64(indexed), float64(bytes) / float64(indexed)} {
			want, err := strconv.ParseFloat(string(declared[i+1]), 64)
			require.NoError(t, err)
			require.InEpsilon(t, want, got, 0.1, "%s: documented %s, measured %.1f", optional, declared[0], got)
		}
	}
}
