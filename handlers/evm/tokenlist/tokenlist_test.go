package tokenlist

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
)

const example = `{
  "name": "My Token List", "timestamp": "2025-06-12T00:00:00+00:00", "version": {"major": 1, "minor": 0, "patch": 0},
  "logoURI": "ipfs://QmXfzKRvjZz3u5JRgC4v5mGVbm9ahrUiB4DgzHBsnWbTMM", "keywords": ["a"],
  "tags": {"stablecoin": {"name": "Stablecoin", "description": "Pegged"}},
  "tokens": [
    {"chainId": 43114, "address": "0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e", "symbol": "USDC", "name": "USD Coin", "decimals": 6,
     "logoURI": "https://example.org/usdc.svg", "tags": ["stablecoin"],
     "extensions": {"description": "Dollars", "Website": "https://example.org", "twitter": "https://x.example/usdc", "email": "a@example.org",
                    "color": "#0000ff", "bannerURI": "https://example.org/banner.png", "isFee": false, "bridge": {"1": {"a": "b"}}, "nothing": null}},
    {"chainId": 1, "address": "0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e", "symbol": "", "name": "", "decimals": 0},
    {"chainId": 5, "address": "So11111111111111111111111111111111111111112", "symbol": "SOL", "name": "Sol", "decimals": 9}
  ],
  "tokenMap": {"7_0x01": {"chainId": 7, "address": "0x0000000000000000000000000000000000000001", "symbol": "M", "name": "Mapped", "decimals": 0}}
}`

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestOpen(t *testing.T) {
	later := strings.NewReplacer("USD Coin", "Another", `"chainId": 1,`, `"chainId": 2,`)
	lists, err := Open(write(t, example), write(t, later.Replace(example)))
	require.NoError(t, err)
	usdc := common.HexToAddress("0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E")
	require.Equal(t, &Token{
		Name: "USD Coin", Symbol: "USDC", LogoURI: "https://example.org/usdc.svg", Description: "Dollars", Email: "a@example.org",
		Color: "#0000ff", BannerURI: "https://example.org/banner.png", Tags: []string{"stablecoin"},
		Links: []Link{{"Twitter", "https://x.example/usdc"}, {Website, "https://example.org"}},
	}, lists.Token(43114, usdc))
	require.Equal(t, &Token{}, lists.Token(1, usdc))
	require.NotNil(t, lists.Token(2, usdc))
	require.Equal(t, "Mapped", lists.Token(7, common.Address{19: 1}).Name)
	require.Nil(t, lists.Token(3, usdc))
	require.Nil(t, lists.Token(43114, common.Address{1}))
	require.Nil(t, (*Lists)(nil).Token(1, usdc))
	none, err := Open()
	require.NoError(t, err)
	require.Nil(t, none.Token(1, usdc))
}

func TestMistakes(t *testing.T) {
	for change, want := range map[[2]string]string{
		{`"My Token List"`, `""`}:                                           "name is missing",
		{`"timestamp": "2025-06-12T00:00:00+00:00",`, ``}:                   "timestamp is missing",
		{`2025-06-12T00:00:00+00:00`, `yesterday`}:                          "parsing time",
		{`"major": 1, `, ``}:                                                "version is missing",
		{`"major": 1`, `"major": -1`}:                                       "version",
		{`"tokens": [`, `"others": [`}:                                      "tokens is missing",
		{`"chainId": 43114`, `"chainId": "43114"`}:                          "chainId",
		{`"chainId": 43114, `, ``}:                                          "tokens[0]: chainId",
		{`"chainId": 1,`, `"chainId": 0,`}:                                  "tokens[1]: chainId",
		{`0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e`, `0xb97`}:             "tokens[0]: address",
		{`"decimals": 6`, `"decimals": 256`}:                                "decimals",
		{`"decimals": 6`, `"decimals": 6.5`}:                                "decimals",
		{`, "decimals": 6`, ``}:                                             "tokens[0]: decimals",
		{`"USD Coin"`, `"` + strings.Repeat("é", 61) + `"`}:                 "tokens[0]: name",
		{`"USD Coin"`, `"USD\nCoin"`}:                                       "tokens[0]: name",
		{`"USDC"`, `"US DC"`}:                                               "tokens[0]: symbol",
		{`https://example.org/usdc.svg`, `javascript:alert(1)`}:             "tokens[0]: logoURI",
		{`https://example.org/usdc.svg`, `usdc.svg`}:                        "tokens[0]: logoURI",
		{`["stablecoin"]`, `["not a tag"]`}:                                 "tokens[0]: tag",
		{`["stablecoin"]`, `["a","a","a","a","a","a","a","a","a","a","a"]`}: "tokens[0]: there are more than 10 tags",
		{`"isFee": false`, `"a":1,"b":1,"c":1`}:                             "tokens[0]: there are more than 10 extensions",
		{`"https://example.org",`, `"javascript:alert(1)",`}:                `tokens[0]: extension "Website"`,
		{`"Dollars"`, `"` + strings.Repeat("x", 3000) + `"`}:                `tokens[0]: extension "description"`,
		{`"name": "Mapped"`, `"title": "Mapped"`}:                           `tokenMap["7_0x01"]: name`,
	} {
		content := strings.Replace(example, change[0], change[1], 1)
		require.NotEqual(t, example, content, change[0])
		_, err := Open(write(t, content))
		require.ErrorContains(t, err, want, "%s in place of %s", change[1], change[0])
		require.ErrorContains(t, err, "token list "+os.TempDir())
	}
	_, err := Open(write(t, example[:100]))
	require.ErrorContains(t, err, "unexpected end")
	_, err = Open(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(write(t, strings.Repeat(" ", maxFile+1)))
	require.ErrorContains(t, err, "larger than")
	many := strings.Repeat(`{"chainId":1},`, maxTokens)
	_, err = Open(write(t, strings.Replace(example, `"tokens": [`, `"tokens": [`+many, 1)))
	require.ErrorContains(t, err, "more than 10000 tokens")
}

func FuzzAdd(f *testing.F) {
	f.Add([]byte(example))
	f.Fuzz(func(t *testing.T, content []byte) {
		l := &Lists{tokens: make(map[key]*Token)}
		if l.add(content) != nil {
			return
		}
		require.True(t, json.Valid(content))
		for _, token := range l.tokens {
			for _, link := range token.Links {
				require.True(t, strings.HasPrefix(strings.ToLower(link.URL), "http"), link.URL)
			}
		}
	})
}
