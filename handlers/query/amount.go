package query

import (
	"quorate/handlers/apierr"
	"quorate/handlers/decimal"
)

// AtLeast returns a lower bound for integers: the value of a non-negative decimal number in JSON notation, rounded up.
// beyond reports that it exceeds 64 bits.
func (v *Values) AtLeast(key string) (bound uint64, beyond bool) {
	text, ok := v.Text(key)
	if !ok {
		return 0, false
	}
	bound, beyond, ok = decimal.Ceiling(text)
	if !ok {
		v.Fail(key, "must be a decimal number of at least 0, got %q", apierr.Excerpt(text))
	}
	return bound, beyond
}
