package jsonbody

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
)

func TestInteger(t *testing.T) {
	tests := []struct {
		literal string
		want    uint64
		ok      bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"0.0", 0, true}, {"-0.0e5", 0, true}, {"0e99999999999999999999", 0, true},
		{"67", 67, true}, {"67.0", 67, true}, {"6.7e1", 67, true}, {"6.7E+1", 67, true}, {"670e-1", 67, true},
		{"0.67e2", 67, true}, {"0.00067e5", 67, true}, {"6700.00e-2", 67, true},
		{"66.5", 0, false}, {"6.75e1", 0, false}, {"1e-1", 0, false}, {"0.1", 0, false},
		{"-1", 0, false}, {"-67.0", 0, false}, {"-1e-9", 0, false},
		{"18446744073709551615", 1<<64 - 1, true}, {"18446744073709551615.0", 1<<64 - 1, true},
		{"18446744073709551616", 0, false}, {"1.8446744073709551615e19", 1<<64 - 1, true},
		{"9223372036854775808", 1 << 63, true},
		{"1e19", 1e19, true}, {"1e20", 0, false}, {"99999999999999999999", 0, false},
		{"1e999999999", 0, false}, {"1e99999999999999999999999", 0, false}, {"1e-99999999999999999999999", 0, false},
		{"1" + strings.Repeat("0", 1000) + "e-1000", 1, true},
		{"0." + strings.Repeat("0", 1000) + "1e1001", 1, true},
		{strings.Repeat("9", 100_000), 0, false},
		{"1e" + strings.Repeat("9", 100_000), 0, false},
	}
	for _, tt := range tests {
		got, ok := integer(tt.literal)
		if got != tt.want || ok != tt.ok {
			t.Errorf("integer(%s) = %d, %t; want %d, %t", apierr.Excerpt(tt.literal), got, ok, tt.want, tt.ok)
		}
	}
}

// TestIntegerAgainstRationals compares with exact arithmetic.
func TestIntegerAgainstRationals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	digits := func(most int) string {
		var b strings.Builder
		for range 1 + rng.IntN(most) {
			b.WriteByte("0001259"[rng.IntN(7)])
		}
		return b.String()
	}
	for range 20_000 {
		literal := []string{"", "-"}[rng.IntN(8)/7]
		literal += new(big.Int).SetBytes([]byte{byte(rng.IntN(256))}).String() + []string{"", digits(20)}[rng.IntN(2)]
		if rng.IntN(2) == 0 {
			literal += "." + digits(12)
		}
		if rng.IntN(2) == 0 {
			literal += fmt.Sprintf("e%d", rng.IntN(40)-20)
		}
		exact, ok := new(big.Rat).SetString(literal)
		require.True(t, ok, literal)
		want := exact.IsInt() && exact.Sign() >= 0 && exact.Num().IsUint64()
		got, ok := integer(literal)
		if ok != want || ok && got != exact.Num().Uint64() {
			t.Fatalf("integer(%s) = %d, %t; want %s, %t", literal, got, ok, exact, want)
		}
	}
}

func TestLoose(t *testing.T) {
	tests := []struct {
		body string
		want uint64
		fail string
	}{
		{`{"pchain-height": 7}`, 7, ""},
		{`{"p-chain-height": 7}`, 7, ""},
		{`{"pChainHeight": 7, "other": {"a": [1, null]}}`, 7, ""},
		{`{"PCHAIN_HEIGHT": 7}`, 7, ""},
		{`{"p-chain-height": 7, "pchain-height": 7}`, 7, ""},
		{`{"p-chain-height": 7, "pchain-height": 8}`, 0, "pchain-height is given twice"},
		{`{"pchain-height": null}`, 0, ""},
		{`{"other": 1, "other": 2}`, 0, ""},
	}
	for _, tt := range tests {
		o, err := Loose([]byte(tt.body), "message", "pchain-height")
		if tt.fail != "" {
			require.ErrorContains(t, err, tt.fail, tt.body)
			continue
		}
		require.NoError(t, err, tt.body)
		got, err := o.Uint("pchain-height", 100)
		require.NoError(t, err, tt.body)
		require.Equal(t, tt.want, got, tt.body)
	}
}

func TestStrictNamesWhatIsKnown(t *testing.T) {
	_, err := Strict([]byte(`{"quorum-percentage": 67}`), "message", "quorumPercentage")
	var e *apierr.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, 400, e.Status)
	require.Equal(t, `unknown member "quorum-percentage" in the request body; did you mean quorumPercentage? (known members: message, quorumPercentage)`, e.Message)
}
