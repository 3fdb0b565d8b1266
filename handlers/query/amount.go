package query

import (
	"quorate/handlers/apierr"
	"quorate/handlers/decimal"
)

// AtLeast is a bound for integers, given as any JSON-style decimal number that is
// not negative: the least integer that is not below it. Beyond reports that no
// integer of 64 bits reaches it.
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
