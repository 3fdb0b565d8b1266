package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/e2e/localnet"
)

func (n *nodeAPI) platformChain(ctx context.Context, t *testing.T) {
	const path = "/ext/bc/P"
	blocks, txs := n.listed(ctx, t, path, "platform")
	txs = append(txs, n.xChain) // of the genesis
	exact := alike{}
	compare := func(how alike, path, method, params string) {
		t.Helper()
		n.same(ctx, t, how, path, "platform."+method, params)
	}
	for _, p := range []string{path, "/ext/P", "/ext/bc/platform", "/ext/platform", "/ext/bc/" + constants.PlatformChainID.String()} {
		compare(exact, p, "getHeight", "{}")
	}
	for _, encoding := range encodings {
		for h := range blocks {
			compare(exact, path, "getBlockByHeight", fmt.Sprintf(`{"height":%d%s}`, h, encoding))
			compare(exact, path, "getBlock", fmt.Sprintf(`{"blockID":"%s"%s}`, blocks[h], encoding))
		}
		for _, tx := range txs {
			compare(exact, path, "getTx", fmt.Sprintf(`{"txID":"%s"%s}`, tx, encoding))
		}
	}
	for _, tx := range txs {
		compare(exact, path, "getTxStatus", `{"txID":"`+tx+`"}`)
		compare(alike{sets: []string{"utxos"}}, path, "getRewardUTXOs", `{"txID":"`+tx+`"}`)
	}
	var chains struct {
		Blockchains []struct{ ID, SubnetID string }
	}
	n.result(ctx, t, path, "platform.getBlockchains", "{}", &chains)
	require.Len(t, chains.Blockchains, 4)
	// A node's order depends on when it was asked for its subnets first.
	compare(alike{sets: []string{"blockchains"}}, path, "getBlockchains", "{}")
	compare(exact, path, "getBlockchainStatus", `{"blockchainID":"P"}`)
	subnets := []string{constants.PrimaryNetworkID.String()}
	for _, chain := range chains.Blockchains {
		how := exact
		if chain.SubnetID == constants.PrimaryNetworkID.String() {
			how.loose = []string{"status"} // Validating is the node's own
		} else {
			subnets = append(subnets, chain.SubnetID)
		}
		compare(how, path, "getBlockchainStatus", `{"blockchainID":"`+chain.ID+`"}`)
		compare(exact, path, "validatedBy", `{"blockchainID":"`+chain.ID+`"}`)
	}
	compare(exact, path, "getBlockchainStatus", `{"blockchainID":"`+ids.GenerateTestID().String()+`"}`)

	var current struct{ Validators []struct{ NodeID string } }
	n.result(ctx, t, path, "platform.getCurrentValidators", "{}", &current)
	require.Len(t, current.Validators, localnet.Size+2)
	validators := alike{sets: []string{"validators", "delegators"}, loose: []string{"uptime", "connected"}}
	compare(validators, path, "getCurrentValidators", "{}")
	compare(validators, path, "getCurrentValidators", `{"subnetID":null,"nodeIDs":[]}`)
	for _, v := range current.Validators {
		compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+v.NodeID+`"]}`)
		compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+v.NodeID+`","`+v.NodeID+`"]}`)
		compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+v.NodeID+`","`+current.Validators[0].NodeID+`"]}`)
	}
	compare(validators, path, "getCurrentValidators", `{"nodeIDs":["`+ids.GenerateTestNodeID().String()+`"]}`)
	for _, subnet := range append(subnets, ids.GenerateTestID().String()) {
		compare(validators, path, "getCurrentValidators", `{"subnetID":"`+subnet+`"}`)
		for _, method := range []string{"getCurrentSupply", "getSubnet", "validates", "getStakingAssetID", "getTotalStake", "getMinStake"} {
			compare(exact, path, method, `{"subnetID":"`+subnet+`"}`)
		}
	}
	for _, method := range []string{"getProposedHeight", "getTimestamp", "getFeeConfig", "getValidatorFeeConfig", "getValidatorFeeState"} {
		compare(exact, path, method, "{}")
	}
	compare(alike{sets: []string{"subnets"}}, path, "getSubnets", "{}")
	compare(alike{shape: true}, path, "getFeeState", "{}")
	compare(exact, path, "getValidatorsAt", `{"height":0}`)
	compare(exact, path, "getAllValidatorsAt", `{"height":1}`)

	groups := n.addresses(t, "P")
	for _, group := range groups {
		compare(alike{sets: []string{"utxoIDs"}}, path, "getBalance", `{"addresses":["`+strings.Join(group, `","`)+`"]}`)
		compare(exact, path, "getStake", `{"addresses":["`+strings.Join(group, `","`)+`"]}`)
	}
	compare(exact, path, "getBalance", "{}")
	n.outputs(ctx, t, compare, path, []string{"", "P", "X", "C", n.xChain}, groups)
}
