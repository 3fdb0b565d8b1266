package evm_test

import (
	"testing"

	"quorate/handlers/docs/conform"
)

func TestParametersAreAsDocumented(t *testing.T) {
	conform.Parameters(t, fuji(t, newFake()), map[string]string{
		"listLatestTransactions":   latest,
		"listInternalTransactions": internals,
		"listErc1155Transfers":     transfers,
		"listErc1155Balances":      balances,
		"getDeploymentTransaction": deployment,
		"listContractDeployments":  deployments,
		"listTokens":               tokens,
		"listIcmMessages":          "/v1/icm/messages",
		"listIcmMessagesByAddress": "/v1/icm/addresses/" + alice.Hex() + "/messages",
	})
}
