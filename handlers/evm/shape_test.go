package evm_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	api "quorate/handlers/evm"
)

// golden are answers that have every variant, by the file they are compared with.
var golden = map[string]string{
	"latest":             latest + "&pageSize=6",
	"latest_failed":      latest + "&status=failed",
	"internals":          internals + "&pageSize=8",
	"transfers":          transfers + "&pageSize=5",
	"balances":           balances + "&pageSize=3",
	"balances_contract":  balances + "&contractAddress=0x1100000000000000000000000000000000000000&blockNumber=7",
	"native":             native + "&pageSize=4",
	"erc20":              erc20s + "&pageSize=3",
	"erc721":             erc721s + "&pageSize=3",
	"interactions":       interactions + "&pageSize=2",
	"balance_native":     nativeBalance,
	"balances_20":        erc20Balances + "&pageSize=2",
	"balances_721":       erc721Balances + "&pageSize=2",
	"collectibles":       collectibles + "&pageSize=2&contractAddress=" + items.Hex(),
	"deployment":         deployment,
	"blocks":             blocks + "&pageSize=12",
	"block":              base + "/blocks/" + hash(989).Hex(),
	"block_transactions": inBlock,
	"transaction":        transaction,
	"deployment_plain":   base + "/contracts/" + till.Hex() + "/transactions:getDeployment",
	"deployments":        deployments + "&pageSize=8",
	"tokens_721":         tokens + "&pageSize=3",
	"tokens_721_bare":    base + "/nfts/collections/" + bare.Hex() + "/tokens",
	"tokens_1155":        base + "/nfts/collections/" + items.Hex() + "/tokens",
	"chains":             "/v1/chains?feature=teleporter",
	"chain":              base,
	"address_chains":     "/v1/address/" + alice.Hex() + "/chains",
	"contract_20":        oneContract,
	"contract_721":       base + "/addresses/" + cards.Hex(),
	"contract_1155":      base + "/addresses/" + items.Hex(),
	"contract_other":     base + "/addresses/" + till.Hex(),
	"token_721":          oneToken,
	"token_1155":         base + "/nfts/collections/" + items.Hex() + "/tokens/7",
	"nothing":            base + "/addresses/" + coin.Hex() + "/transactions:listErc1155",
	"nothing_deployed":   base + "/contracts/" + bob.Hex() + "/deployments",
	"nothing_internal":   base + "/addresses/" + bob.Hex() + "/transactions:listInternals",
	"nothing_in_balance": base + "/addresses/" + bob.Hex() + "/balances:listErc1155",
}

func TestShapes(t *testing.T) {
	h := fuji(t, newFake())
	for name, path := range golden {
		w := apitest.Get(h, path)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		// The generated clients require this field, which has no other value here.
		require.NotContains(t, strings.ReplaceAll(w.Body.String(), `"tokenReputation":null`, ""), "null", name)
		apitest.RequireGolden(t, name, w.Body.Bytes())
	}
}

// TestClientsForm compares the two forms: they differ in one word.
func TestClientsForm(t *testing.T) {
	const sdk = "speakeasy-sdk/typescript 0.3.13 2.792.2 1.0.0 @avalanche-sdk/chainkit"
	documented, clients := `"indexStatus":"indexed"`, `"indexStatus":"INDEXED"`
	for _, tt := range []struct {
		mode  compat.Mode
		agent string
		want  string
	}{
		{compat.Auto, "curl/8", documented}, {compat.Auto, sdk, clients}, {compat.On, "curl/8", clients}, {compat.Off, sdk, documented},
	} {
		h := surface(t, tt.mode, api.Options{Lists: lists(t)}, newFake().chain())
		for name, path := range golden {
			got := apitest.Get(h, path, "User-Agent", tt.agent).Body.String()
			if name == "transfers" || strings.HasPrefix(name, "tokens_721") && name != "tokens_721_bare" {
				require.Contains(t, got, tt.want, name)
			}
			apitest.RequireGolden(t, name, []byte(strings.ReplaceAll(got, clients, documented)))
		}
	}
}
