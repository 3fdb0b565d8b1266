package page_test

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/query/page"
)

func TestToken(t *testing.T) {
	list := page.List{Operation: "utxos", Filters: []string{"fuji", "p-chain", "fuji1abc", "", "desc"}}
	for _, position := range [][]byte{{}, {0}, []byte("a position"), bytes.Repeat([]byte{255}, 500)} {
		token := list.Token(position)
		require.Regexp(t, regexp.MustCompile(`^[A-Za-z0-9_-]+$`), token)
		got, err := list.Position(token)
		require.NoError(t, err)
		require.Equal(t, position, got)
	}
	token := list.Token([]byte("a position"))
	for name, other := range map[string]page.List{
		"another operation": {Operation: "balances", Filters: list.Filters},
		"another filter":    {Operation: "utxos", Filters: []string{"fuji", "x-chain", "fuji1abc", "", "desc"}},
		"fewer filters":     {Operation: "utxos", Filters: list.Filters[:4]},
		"cut elsewhere":     {Operation: "utxos", Filters: []string{"fujip", "-chain", "fuji1abc", "", "desc"}},
		"operation longer":  {Operation: "utxosfuji", Filters: list.Filters[1:]},
	} {
		_, err := other.Position(token)
		require.ErrorIs(t, err, page.ErrOtherList, name)
	}
	for i := range token {
		for _, c := range []string{"A", "_", "=", " "} {
			damaged := token[:i] + c + token[i+1:]
			if damaged == token {
				continue
			}
			_, err := list.Position(damaged)
			require.ErrorIs(t, err, page.ErrToken, "%q in place of %q", damaged, token)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "short": "AQ", "text": "page 2", "long": strings.Repeat("A", 10_000), "cut": token[:len(token)-1],
		"padded": token + "==", "with a line break": token[:1] + "\n" + token[1:], "offset": base64.RawURLEncoding.EncodeToString([]byte(`{"offset":10}`)),
	} {
		_, err := list.Position(text)
		require.ErrorIs(t, err, page.ErrToken, name)
	}
}

// TestForgedToken checks that a client cannot make a token for a position of its choice.
func TestForgedToken(t *testing.T) {
	list := page.List{Key: []byte("the service's"), Operation: "utxos", Filters: []string{"fuji"}}
	position := []byte("a position")
	for _, key := range [][]byte{nil, []byte("another's"), page.KeyOr(nil)} {
		forged := page.List{Key: key, Operation: list.Operation, Filters: list.Filters}.Token(position)
		_, err := list.Position(forged)
		require.ErrorIs(t, err, page.ErrToken)
	}
	got, err := list.Position(list.Token(position))
	require.NoError(t, err)
	require.Equal(t, position, got)
}

func FuzzToken(f *testing.F) {
	list := page.List{Operation: "utxos", Filters: []string{"fuji"}}
	f.Add(list.Token([]byte("position")))
	f.Fuzz(func(t *testing.T, token string) {
		position, err := list.Position(token)
		if err == nil && list.Token(position) != token {
			t.Errorf("got %q from position %x, want %q", list.Token(position), position, token)
		}
	})
}
