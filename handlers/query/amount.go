package query

import (
	"quorate/handlers/apierr"
	"quorate/handlers/decimal"
)

// AtLeast returns a lower bound for integers: the value of a non-negative decimal number in JSON notation, rounded up.
// beyond reports that it exceeds 64 bits.
func (v *Values) AtLeast(name string) (bound uint64, beyond bool) {
	text, ok := v.Text(name)
	if !ok {
		return 0, false
	}
	bound, beyond, ok = decimal.Ceiling(text)
	if !ok {
		v.Fail(name, "must be %s, got %q", v.parameter(name).allowed(), apierr.Excerpt(text))
	}
	return bound, beyond
}
