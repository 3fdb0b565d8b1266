package evm_test

import (
	"testing"

	"quorate/handlers/docs/conform"
)

func TestParametersAreAsDocumented(t *testing.T) {
	h := fuji(t, newFake())
	conform.Parameters(t, h, "EVM", map[string]string{
		"listLatestTransactions":   latest,
		"listChains":               "/v1/chains?",
		"listLatestBlocks":         blocks,
		"listBlockTransactions":    inBlock,
		"listInternalTransactions": internals,
		"listErc1155Transfers":     transfers,
		"listTransactions":         interactions,
		"listNativeTransactions":   native,
		"listErc20Transactions":    erc20s,
		"listErc721Transactions":   erc721s,
		"listTransfers":            ofToken,
		"listErc1155Balances":      balances,
		"getNativeBalance":         nativeBalance,
		"listErc20Balances":        erc20Balances,
		"listErc721Balances":       erc721Balances,
		"listCollectibleBalances":  collectibles,
		"getDeploymentTransaction": deployment,
		"listContractDeployments":  deployments,
		"listTokens":               tokens,
	})
	conform.Parameters(t, h, "Chain metrics", map[string]string{"getChainMetrics": metrics, "listMetricChains": "/v2/chains?"})
	conform.Parameters(t, h, "ICM messages", map[string]string{
		"listIcmMessages":          "/v1/icm/messages",
		"listIcmMessagesByAddress": "/v1/icm/addresses/" + alice.Hex() + "/messages",
	})
}
