// Package decimal parses numbers of requests: decimal digits with an optional fraction and exponent. It works on the
// digits, so that it loses no precision and large exponents are cheap.
package decimal

import (
	"strconv"
	"strings"
)

// Integer returns the value of an integer from 0 to 2^64-1 in any notation: 67, 67.0, 6.7e1 and 670e-1 are the same
// number. ok is false if literal has another value.
func Integer(literal string) (n uint64, ok bool) {
	n, exact, beyond, ok := parse(literal)
	if !ok || !exact || beyond {
		return 0, false
	}
	return n, true
}

// Ceiling returns a non-negative number, rounded up. ok is false if text is not such a number; beyond reports that the
// result exceeds 64 bits.
func Ceiling(text string) (n uint64, beyond, ok bool) {
	n, _, beyond, ok = parse(text)
	return n, beyond, ok
}

// parse returns a non-negative number, rounded up, and whether the number is an integer.
func parse(text string) (n uint64, exact, beyond, ok bool) {
	unsigned, negative := strings.CutPrefix(text, "-")
	mantissa, power := unsigned, ""
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		mantissa, power = unsigned[:i], unsigned[i+1:]
		power = strings.TrimPrefix(power, "+")
		if !digits(strings.TrimPrefix(power, "-")) || strings.HasPrefix(unsigned[i+1:], "+-") {
			return 0, false, false, false
		}
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0, false, false, false
	}
	significant := strings.TrimLeft(whole+fraction, "0")
	if significant == "" {
		return 0, true, false, true // also -0 and 0e999
	}
	if negative {
		return 0, false, false, false
	}
	const mostDigits = 20 // of 2^64-1
	// The number is 0.significant times ten to the power of places.
	places := exponent(power) - len(fraction) + len(significant)
	switch {
	case places > mostDigits:
		return 0, false, true, true
	case places <= 0:
		return 1, false, false, true
	}
	integer, rest := significant, ""
	if places < len(significant) {
		integer, rest = significant[:places], significant[places:]
	}
	integer += strings.Repeat("0", places-len(integer))
	n, err := strconv.ParseUint(integer, 10, 64)
	if err != nil {
		return 0, false, true, true
	}
	exact = strings.Trim(rest, "0") == ""
	if !exact {
		n++
		beyond = n == 0
	}
	return n, exact, beyond, true
}

// exponent returns the value of the digits after e. It limits the value to one that no request of permitted length can
// offset.
func exponent(s string) int {
	const limit = 1 << 40
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil && s[0] == '-':
		return -limit
	case err != nil:
		return limit
	}
	return int(max(-limit, min(limit, n)))
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
