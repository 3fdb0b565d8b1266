package data_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
)

// golden are answers that have every variant, by the file they are compared with.
var golden = map[string]string{
	"utxos_p":      utxosPath + "&minUtxoAmount=1000&includeSpent=true&pageSize=100&sortOrder=asc",
	"utxos_p_both": utxosPath + "," + text(bob) + "&sortBy=amount&pageSize=2",
	"utxos_x":      xUTXOs + "&includeSpent=true&pageSize=100&sortOrder=asc",
	"utxos_c":      cUTXOs + "&includeSpent=true",
	"balances_p":   balances,
	"balances_x":   strings.Replace(balances, "p-chain", "x-chain", 1),
	"balances_c":   strings.Replace(balances, "p-chain", "c-chain", 1),
	"staking":      stakings + "&pageSize=6&sortOrder=asc&startTimestamp=1699999999",
	"staking_past": stakings + "&pageSize=2&sortOrder=asc&txTypes=AddValidatorTx",
	"subnets":      subnetsURL + "&sortOrder=asc&pageSize=3",
	"delegators":   delegators + "&pageSize=12",
	"vertices":     verticesAt + "&pageSize=2&sortOrder=asc",
	"vertices_old": strings.Replace(verticesAt, "=5", "=0", 1),
	"nothing":      strings.Replace(verticesAt, "=5", "=6", 1),
}

func TestShapes(t *testing.T) {
	h := fuji(t, newFake())
	for name, path := range golden {
		w := apitest.Get(h, path)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		apitest.RequireGolden(t, name, w.Body.Bytes())
	}
}

// TestNullIsNowhere checks that only four fields of a genesis may be null in all answers.
func TestNullIsNowhere(t *testing.T) {
	h := fuji(t, newFake())
	nullable := []string{"airdropAmount", "baseFeePerGas", "blobGasUsed", "excessBlobGas"}
	null := regexp.MustCompile(`"(\w+)":null|null`)
	for _, path := range golden {
		for _, found := range null.FindAllSubmatch(apitest.Get(h, path).Body.Bytes(), -1) {
			require.True(t, slices.Contains(nullable, string(found[1])), "%s has %s", path, found[0])
		}
	}
}

// TestClientsForm compares the two forms: they differ in two fields of a genesis.
func TestClientsForm(t *testing.T) {
	const sdk = "speakeasy-sdk/typescript 0.3.13 2.792.2 1.0.0 @avalanche-sdk/chainkit"
	documented, clients := `"baseFeePerGas":"0x5d21dba00"`, `"baseFeePerGas":25000000000`
	for _, tt := range []struct {
		mode  compat.Mode
		agent string
		want  string
	}{
		{compat.Auto, "curl/8", documented}, {compat.Auto, sdk, clients}, {compat.On, "curl/8", clients}, {compat.Off, sdk, documented},
	} {
		h := surface(t, map[string]data.Network{"fuji": newFake().network()}, tt.mode)
		for name, path := range golden {
			got := apitest.Get(h, path, "User-Agent", tt.agent).Body.String()
			if name == "subnets" {
				require.Contains(t, got, tt.want)
				require.NotContains(t, got, other(tt.want, documented, clients))
				got = strings.ReplaceAll(got, clients, documented)
				got = strings.ReplaceAll(got, `"baseFeePerGas":1,`, `"baseFeePerGas":"0x1",`)
			}
			apitest.RequireGolden(t, name, []byte(got))
		}
	}
}

func other(one, a, b string) string {
	if one == a {
		return b
	}
	return a
}
