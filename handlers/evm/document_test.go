package evm_test

import (
	"testing"

	"quorate/handlers/docs/conform"
)

func TestParametersAreAsDocumented(t *testing.T) {
	h := fuji(t, newFake())
	conform.Parameters(t, h, "EVM", map[string]string{
		"listLatestTransactions":   latest,
		"listLatestBlocks":         blocks,
		"listBlockTransactions":    inBlock,
		"listInternalTransactions": internals,
		"listErc1155Transfers":     transfers,
		"listErc1155Balances":      balances,
		"getDeploymentTransaction": deployment,
		"listContractDeployments":  deployments,
		"listTokens":               tokens,
	})
	conform.Parameters(t, h, "ICM messages", map[string]string{
		"listIcmMessages":          "/v1/icm/messages",
		"listIcmMessagesByAddress": "/v1/icm/addresses/" + alice.Hex() + "/messages",
	})
}
