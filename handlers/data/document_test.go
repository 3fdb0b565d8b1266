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
		"listBlockchains":         base + "/blockchains",
		"listValidators":          base + "/validators",
		"getValidator":            base + "/validators/" + simulated().validations[0].NodeID.String(),
		"listL1Validators":        base + "/l1Validators",
	})
}
