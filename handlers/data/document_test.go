package data_test

import (
	"testing"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/docs/conform"
)

func TestParametersAreAsDocumented(t *testing.T) {
	conform.Parameters(t, fuji(t, newFake()), "Primary network", map[string]string{
		"listUtxosOfBody":                       utxosPath, // the same list
		"listUtxos":                             utxosPath,
		"listHistoricalPrimaryNetworkRewards":   base + "/rewards?addresses=" + text(carol),
		"listPendingPrimaryNetworkRewards":      base + "/rewards:listPending?addresses=" + text(carol),
		"listBalances":                          balances,
		"listStakingTransactions":               stakings,
		"listVerticesByHeight":                  verticesAt,
		"listSubnets":                           subnetsURL,
		"listDelegators":                        delegators,
		"listBlockchains":                       base + "/blockchains",
		"listValidators":                        base + "/validators",
		"getValidator":                          base + "/validators/" + simulated().validations[0].NodeID.String(),
		"listLatestPrimaryNetworkTransactions":  base + "/blockchains/x-chain/transactions",
		"getChainIdsForAddresses":               base + "/addresses:listChainIds?addresses=" + text(alice),
		"listLatestXChainVertices":              base + "/blockchains/x-chain/vertices",
		"listLatestPrimaryNetworkBlocks":        base + "/blockchains/p-chain/blocks",
		"listPrimaryNetworkBlocksByNodeId":      base + "/blockchains/p-chain/nodes/" + ids.NodeID{1}.String() + "/blocks",
		"listAssetTransactions":                 base + "/blockchains/x-chain/assets/" + busiest(simulatedArchive().ofAsset(), 100).String() + "/transactions",
		"getLastActivityTimestampByAddresses":   base + "/blockchains/p-chain/lastActivityTimestampByAddresses?addresses=" + text(alice),
		"getLastActivityTimestampByAddressesV2": base + "/blockchains/p-chain/lastActivityTimestampByAddresses?addresses=" + text(alice),
		"listL1Validators":                      base + "/l1Validators",
	})
	conform.Parameters(t, fuji(t, newFake()), "Network metrics", map[string]string{"getNetworkMetrics": "/v2/networks/fuji/metrics/validatorCount?"})
}
