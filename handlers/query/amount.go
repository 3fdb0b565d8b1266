package query

import (
	"strconv"
	"strings"

	"quorate/handlers/apierr"
)

// AtLeast is a bound for integers, given as any JSON-style decimal number that is
// not negative: the least integer that is not below it. Beyond reports that no
// integer of 64 bits reaches it.
func (v *Values) AtLeast(key string) (bound uint64, beyond bool) {
	text, ok := v.Text(key)
	if !ok {
		return 0, false
	}
	bound, beyond, ok = ceiling(text)
	if !ok {
		v.Fail(key, "must be a decimal number of at least 0, got %q", apierr.Excerpt(text))
	}
	return bound, beyond
}

// ceiling rounds up on the digits, so that no precision is lost and no exponent
// costs anything.
func ceiling(text string) (n uint64, beyond, ok bool) {
	unsigned, negative := strings.CutPrefix(text, "-")
	mantissa, power := unsigned, ""
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		mantissa, power = unsigned[:i], unsigned[i+1:]
		power = strings.TrimPrefix(power, "+")
		if !digits(strings.TrimPrefix(power, "-")) || strings.HasPrefix(unsigned[i+1:], "+-") {
			return 0, false, false
		}
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0, false, false
	}
	significant := strings.TrimLeft(whole+fraction, "0")
	if significant == "" {
		return 0, false, true // also -0
	}
	if negative {
		return 0, false, false
	}
	const mostDigits = 20 // of 2^64-1
	// The number is 0.significant times ten to the power of places.
	places := exponent(power) - len(fraction) + len(significant)
	switch {
	case places > mostDigits:
		return 0, true, true
	case places <= 0:
		return 1, false, true
	}
	integer, rest := significant, ""
	if places < len(significant) {
		integer, rest = significant[:places], significant[places:]
	}
	integer += strings.Repeat("0", places-len(integer))
	n, err := strconv.ParseUint(integer, 10, 64)
	if err != nil {
		return 0, true, true
	}
	if strings.Trim(rest, "0") != "" {
		n++
		beyond = n == 0
	}
	return n, beyond, true
}

// exponent is the value of the digits after e, limited to what the length of a
// query cannot make up for.
func exponent(text string) int {
	const limit = 1 << 40
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && text[0] == '-':
		return -limit
	case err != nil:
		return limit
	}
	return int(max(-limit, min(limit, n)))
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
