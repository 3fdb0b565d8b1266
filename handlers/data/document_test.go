package data_test

import (
	"testing"

	"quorate/handlers/docs/conform"
)

func TestParametersAreAsDocumented(t *testing.T) {
	conform.Parameters(t, fuji(t, newFake()), "Primary network", map[string]string{
		"listUtxos":               utxosPath,
		"listBalances":            balances,
		"listStakingTransactions": stakings,
		"listVerticesByHeight":    vertices,
		"listSubnets":             subnetsURL,
		"listDelegators":          delegators,
	})
}
