package jsonbody

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpellingsOfFields(t *testing.T) {
	for _, tt := range []struct {
		body, query string
		want        uint64
		fail        string
	}{
		{`{"pchain-height": 7}`, "pchain-height=7", 7, ""},
		{`{"p-chain-height": 7}`, "p-chain-height=7", 7, ""},
		{`{"pChainHeight": 7}`, "pChainHeight=7", 7, ""},
		{`{"PCHAIN_HEIGHT": 7}`, "PCHAIN_HEIGHT=7", 7, ""},
		{`{"at": 7}`, "at=7", 7, ""},
		{`{"AT": 7, "message": "x"}`, "&AT=7&&message=%20&", 7, ""},
		{`{"pchain-height": null}`, "", 0, ""},
		{`{"pchain-height": ""}`, "pchain-height=", 0, ""},
		{`{"pChainHeight": 7, "other": {"a": [1, null]}}`, "pChainHeight=7&other=1", 0, ` "other" in the REQUEST (known MEMBERs: message, pchain-height)`},
		{`{"p-chain-height": 7, "pchain-height": 7}`, "p-chain-height=7&pchain-height=7", 0, "p-chain-height and pchain-height in the REQUEST are the same field"},
		{`{"at": null, "pchain-height": 8}`, "at=&pchain-height=8", 0, "at and pchain-height in the REQUEST are the same field"},
		{`{"pchain-height": 7, "pchain-height": 7}`, "pchain-height=7&pchain-height=7", 0, "pchain-height is given twice in the REQUEST"},
		{`{"pchain-height": 101}`, "pchain-height=101", 0, "pchain-height must be an integer from 0 to 100, got 101"},
		{`{"pchain-height": [1]}`, "pchain-height=x", 0, "pchain-height must be "},
	} {
		aliases := map[string]string{"at": "pchain-height"}
		for where, open := range map[string]func() (Object, error){
			"the request body": func() (Object, error) { return Parse([]byte(tt.body), aliases, "message", "pchain-height") },
			"the query":        func() (Object, error) { return ParseQuery(tt.query, aliases, "message", "pchain-height") },
		} {
			o, err := open()
			var got uint64
			if err == nil {
				got, err = o.Uint("pchain-height", 100)
			}
			if tt.fail != "" {
				member := map[string]string{"the request body": "field", "the query": "parameter"}[where]
				require.ErrorContains(t, err, strings.NewReplacer("the REQUEST", where, "MEMBER", member).Replace(tt.fail), "%s: %s %s", where, tt.body, tt.query)
				requireMistake(t, err)
				continue
			}
			require.NoError(t, err, tt.body)
			require.Equal(t, tt.want, got, tt.body)
		}
	}
}

func TestQueryWithoutNumbers(t *testing.T) {
	for _, text := range []string{".", "-", "e5", "-.e9", "0x", "0ex", "%20", "true", "{}", "\"1\""} {
		o, err := ParseQuery("n="+text, nil, "n")
		require.NoError(t, err)
		_, err = o.Uint("n", 100)
		require.ErrorContains(t, err, "n must be an integer from 0 to 100, got ", text)
		requireMistake(t, err)
	}
}

func TestQueryWithInvalidEscapes(t *testing.T) {
	for query, want := range map[string]string{
		"text=%zz": "text: it has an invalid percent escape", "%zz=1": `invalid percent escape: "%zz"`, "=1": `unknown parameter ""`,
	} {
		_, err := ParseQuery(query, nil, "text")
		require.ErrorContains(t, err, want)
	}
}
