package decimal

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		got, ok := Integer(tt.literal)
		if got != tt.want || ok != tt.ok {
			t.Errorf("Integer(%s) = %d, %t; want %d, %t", tt.literal[:min(len(tt.literal), 50)], got, ok, tt.want, tt.ok)
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
		got, ok := Integer(literal)
		if ok != want || ok && got != exact.Num().Uint64() {
			t.Fatalf("Integer(%s) = %d, %t; want %s, %t", literal, got, ok, exact, want)
		}
	}
}

// FuzzCeiling compares with exact arithmetic, where that is cheap.
func FuzzCeiling(f *testing.F) {
	for _, s := range []string{"0", "-0", "1.5", "1e3", "184467440737095516.15e2", "1e-3", "0.1e1", "x", "1e99"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, beyond, ok := Ceiling(s)
		if !ok || len(s) > 40 {
			return
		}
		if e := exponent(power(s)); e > 100 || e < -100 {
			return
		}
		exact, good := new(big.Rat).SetString(s)
		require.True(t, good, "%q was accepted", s)
		want := new(big.Int).Div(new(big.Int).Neg(exact.Num()), exact.Denom())
		want.Neg(want)
		if beyond {
			require.False(t, want.IsUint64(), "%q", s)
			return
		}
		require.Equal(t, want.String(), new(big.Int).SetUint64(n).String(), "%q", s)
	})
}

func power(s string) string {
	for i := range s {
		if s[i] == 'e' || s[i] == 'E' {
			if s[i+1] == '+' {
				i++
			}
			return s[i+1:]
		}
	}
	return ""
}
