package pagetoken

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	l := NewList("utxos", "fuji", "p-chain")
	for _, position := range []string{"", "x", strings.Repeat("\xff", maxPosition)} {
		token, err := l.Encode([]byte(position))
		require.NoError(t, err)
		require.Equal(t, token, url.QueryEscape(token), "a token needs no escapes")
		got, err := l.Decode(token)
		require.NoError(t, err)
		require.Equal(t, position, string(got))
		for _, other := range []List{
			NewList("utxos", "fuji", "x-chain"), NewList("utxos", "fuji"), NewList("utxos", "fujip-chain"),
			NewList("utxos", "fuji", "p-chain", ""), NewList("utxosfuji", "p-chain"), NewList("staking", "fuji", "p-chain"), {},
		} {
			_, err = other.Decode(token)
			require.ErrorIs(t, err, ErrOtherList)
		}
	}
	_, err := l.Encode(make([]byte, maxPosition+1))
	require.ErrorContains(t, err, "too long")
}

func TestDamagedTokens(t *testing.T) {
	l := NewList("utxos")
	token, err := l.Encode([]byte("position"))
	require.NoError(t, err)
	for i := range token {
		for _, c := range []byte("Aa0_-=+ \x00") {
			damaged := []byte(token)
			damaged[i] = c
			if string(damaged) == token {
				continue
			}
			_, err := l.Decode(string(damaged))
			require.ErrorIs(t, err, ErrMalformed, "%s", damaged)
		}
	}
	for _, other := range []string{"", "=", "1", token + "=", token + "A", token[1:], token[:len(token)-1], "\n" + token, strings.Repeat(token, 2), strings.Repeat("A", 1<<20), "8f2c1b3e-0000-4000-8000-000000000000"} {
		_, err := l.Decode(other)
		require.ErrorIs(t, err, ErrMalformed, "%.80s", other)
	}
}

func FuzzDecode(f *testing.F) {
	l := NewList("utxos")
	token, err := l.Encode([]byte("position"))
	require.NoError(f, err)
	f.Add(token)
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		position, err := l.Decode(token)
		if err != nil {
			return
		}
		again, err := l.Encode(position)
		require.NoError(t, err)
		require.Equal(t, token, again, "a position has one token")
		require.LessOrEqual(t, len(position), maxPosition)
	})
}
