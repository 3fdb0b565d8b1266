package genesis

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotEVM(t *testing.T) {
	for _, b := range []string{
		"", " ", "{}", "[]", "null", "x", "\x00\x01", `"{}"`, `{"config":{}}`, `{"config":null}`, `{"config":[]}`,
		`{"config":{"chainId":"43114"}}`, `{"config":{"chainId":null}}`, `{"config":{"chainId":1.5}}`, `{"config":{"chainId":-1}}`,
		`{"config":{"chainId":1e999999999}}`, `{"config":{"chainId":1}`, `{"config":{"chainID":1}}`, `[{"config":{"chainId":1}}]`,
	} {
		_, ok := Parse([]byte(b))
		require.False(t, ok, b)
	}
	g, ok := Parse([]byte("\n\t {\"config\":{\"chainId\":43114}}"))
	require.True(t, ok)
	require.EqualValues(t, "43114", g.ChainID())
	g, ok = Parse([]byte(`{"config":{"chainId":1e3}}`))
	require.True(t, ok)
	require.EqualValues(t, "1000", g.ChainID())
}

// TestData compares whole answers: testdata has a genesis, and what the API shows
// of it in the documented form.
func TestData(t *testing.T) {
	for _, name := range []string{"usual", "hostile"} {
		source, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(t, err)
		want, err := os.ReadFile("testdata/" + name + ".shown.json")
		require.NoError(t, err)
		g, ok := Parse(source)
		require.True(t, ok)
		got, err := json.MarshalIndent(g.Data(false), "", "  ")
		require.NoError(t, err)
		require.Equal(t, string(want), string(got)+"\n", name)
	}
}

func TestForms(t *testing.T) {
	show := func(members string, clients bool) string {
		g, ok := Parse([]byte(`{"config":{"chainId":1},` + members + `}`))
		require.True(t, ok, members)
		b, err := json.Marshal(g.Data(clients))
		require.NoError(t, err)
		return string(b)
	}
	const config = `"config":{"chainId":1}`
	for _, tt := range []struct{ source, documented, clients string }{
		{`"baseFeePerGas":"0x5d21dba00"`, `{"baseFeePerGas":"0x5d21dba00",` + config + `}`, `{"baseFeePerGas":25000000000,` + config + `}`},
		{`"baseFeePerGas":25000000000`, `{"baseFeePerGas":"0x5d21dba00",` + config + `}`, `{"baseFeePerGas":25000000000,` + config + `}`},
		{`"baseFeePerGas":"25000000000"`, `{"baseFeePerGas":"0x5d21dba00",` + config + `}`, `{"baseFeePerGas":25000000000,` + config + `}`},
		{`"baseFeePerGas":null`, `{"baseFeePerGas":null,` + config + `}`, `{"baseFeePerGas":null,` + config + `}`},
		{`"airdropAmount":null`, `{"airdropAmount":null,` + config + `}`, `{"airdropAmount":null,` + config + `}`},
		{`"airdropAmount":[]`, `{` + config + `}`, `{` + config + `}`},
		{`"blobGasUsed":null,"excessBlobGas":0`, `{"blobGasUsed":null,` + config + `,"excessBlobGas":"0x0"}`, `{"blobGasUsed":null,` + config + `,"excessBlobGas":"0x0"}`},
		{`"nonce":null,"number":false`, `{` + config + `}`, `{` + config + `}`},
		{`"alloc":null`, `{` + config + `}`, `{` + config + `}`},
		{`"alloc":{}`, `{"alloc":{},` + config + `}`, `{"alloc":{},` + config + `}`},
	} {
		require.Equal(t, tt.documented, show(tt.source, false), tt.source)
		require.Equal(t, tt.clients, show(tt.source, true), tt.source)
	}
}

// FuzzData checks what is shown of any genesis against the types that the clients
// insist on.
func FuzzData(f *testing.F) {
	for _, name := range []string{"usual", "hostile"} {
		b, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, ok := Parse(b)
		if !ok {
			return
		}
		for _, clients := range []bool{false, true} {
			encoded, err := json.Marshal(g.Data(clients))
			require.NoError(t, err)
			var shown map[string]any
			require.NoError(t, json.Unmarshal(encoded, &shown))
			if err := conforms(shown, clients); err != nil {
				t.Errorf("%s: %v", encoded, err)
			}
		}
	})
}

func isString(v any) bool { _, ok := v.(string); return ok }
func isNumber(v any) bool { _, ok := v.(float64); return ok }
func isBool(v any) bool   { _, ok := v.(bool); return ok }
func isObject(v any) bool { _, ok := v.(map[string]any); return ok }

// conforms knows the announced type of each member by itself.
func conforms(shown map[string]any, clients bool) error {
	for name, v := range shown {
		var ok bool
		switch name {
		case "airdropAmount", "baseFeePerGas":
			ok = v == nil || isNumber(v) == clients && isString(v) != clients
		case "blobGasUsed", "excessBlobGas":
			ok = v == nil || isString(v)
		case "alloc":
			ok = isObject(v)
			for address, account := range v.(map[string]any) {
				ok = ok && address[:2] == "0x" && isObject(account)
				for member, v := range account.(map[string]any) {
					switch member {
					case "balance", "code":
						ok = ok && isString(v)
					case "storage":
						for _, v := range v.(map[string]any) {
							ok = ok && isString(v)
						}
					default:
						ok = false
					}
				}
			}
		case "config":
			ok = isObject(v)
			for member, v := range v.(map[string]any) {
				switch {
				case member == "eip150Hash":
					ok = ok && isString(v)
				case member == "allowFeeRecipients":
					ok = ok && isBool(v)
				case member == "feeConfig":
					for _, v := range v.(map[string]any) {
						ok = ok && isNumber(v)
					}
				case member == "warpConfig" || slices.Contains(permissionMembers, member):
					for name, v := range v.(map[string]any) {
						list, isList := v.([]any)
						ok = ok && (isNumber(v) || isList || name == "requirePrimaryNetworkSigners" && isBool(v))
						for _, v := range list {
							ok = ok && isString(v)
						}
					}
				default:
					ok = ok && isNumber(v)
				}
			}
		default:
			ok = slices.Contains(hexMembers, name) && isString(v)
		}
		if !ok {
			return fmt.Errorf("%s has the wrong form", name)
		}
	}
	return nil
}
