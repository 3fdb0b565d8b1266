package jsonbody

import (
	"strconv"
	"strings"
)

// integer is the value of a JSON number that is an integer from 0 to 2^64-1,
// whatever its notation: 67, 67.0, 6.7e1 and 670e-1 are the same number. It
// works on the digits, so that no precision is lost and no exponent costs
// anything.
func integer(literal string) (n uint64, ok bool) {
	unsigned, negative := strings.CutPrefix(literal, "-")
	mantissa, power := unsigned, ""
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		mantissa, power = unsigned[:i], unsigned[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, true // also -0 and 0e999
	}
	if negative {
		return 0, false
	}
	trimmed := strings.TrimRight(digits, "0")
	shift := exponent(power) - len(fraction) + len(digits) - len(trimmed)
	const mostDigits = 20 // of 2^64-1
	if shift < 0 || len(trimmed)+shift > mostDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(trimmed+strings.Repeat("0", shift), 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}

// exponent is the value of the digits after e, limited to what a body's length
// cannot make up for.
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
