// Package query parses the query string of a request strictly and returns errors for the user. It ignores keys that
// are not read. The caller interprets the values.
package query

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"quorate/handlers/apierr"
)

// Values holds the parameters of one query string. Reading a malformed parameter returns a zero value and records the
// error; Err returns the first one. It is not safe for concurrent use.
type Values struct {
	given   map[string][]string
	garbled map[string]bool // a value of the key has a bad percent escape
	err     error
}

// Parse parses a raw query string.
func Parse(raw string) *Values {
	v := &Values{given: make(map[string][]string), garbled: make(map[string]bool)}
	for pair := range strings.SplitSeq(raw, "&") {
		escaped, text, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(escaped)
		if err != nil || key == "" {
			continue // no parameter has such a name
		}
		value, err := url.QueryUnescape(text)
		if err != nil {
			v.garbled[key] = true
		}
		v.given[key] = append(v.given[key], value)
	}
	return v
}

// Err returns the first error, an *apierr.Error with status 400 whose message begins with the parameter.
func (v *Values) Err() error { return v.err }

// Fail records an error that the caller found.
func (v *Values) Fail(key, format string, args ...any) {
	if v.err == nil {
		v.err = apierr.BadRequest(key+": "+format, args...)
	}
}

// all returns the well-formed values of a key.
func (v *Values) all(key string) []string {
	if v.garbled[key] {
		v.Fail(key, "it has an invalid percent escape")
		return nil
	}
	return v.given[key]
}

// Text returns the value of a key that may appear once; ok is false if it is absent.
func (v *Values) Text(key string) (value string, ok bool) {
	values := v.all(key)
	switch len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	}
	v.Fail(key, "it is given %d times; give it once", len(values))
	return "", false
}

// List returns a comma-separated list, under key or key[], which may be repeated. It trims blanks, drops empty and
// repeated items, and preserves the order.
func (v *Values) List(key string) []string {
	var members []string
	seen := make(map[string]bool)
	for _, text := range slices.Concat(v.all(key), v.all(key+"[]")) {
		for member := range strings.SplitSeq(text, ",") {
			member = strings.TrimSpace(member)
			if member != "" && !seen[member] {
				seen[member] = true
				members = append(members, member)
			}
		}
	}
	return members
}

// Integer returns a decimal integer from least to most, and absent without one.
func (v *Values) Integer(key string, least, most, absent uint64) uint64 {
	text, ok := v.Text(key)
	if !ok {
		return absent
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		v.Fail(key, "must be an integer from %d to %d, got %q", least, most, apierr.Excerpt(text))
		return absent
	}
	return n
}

// Optional returns an integer from 0 to 2^64-1, nil if it is absent.
func (v *Values) Optional(key string) *uint64 {
	if _, ok := v.given[key]; !ok {
		return nil
	}
	n := v.Integer(key, 0, 1<<64-1, 0)
	return &n
}

// Bool returns true or false; false if it is absent.
func (v *Values) Bool(key string) bool {
	return v.OneOf(key, "false", "true") == "true"
}

// OneOf returns one of the allowed values; the first if it is absent.
func (v *Values) OneOf(key string, words ...string) string {
	text, ok := v.Text(key)
	if !ok {
		return words[0]
	}
	if !slices.Contains(words, text) {
		v.Fail(key, "must be %s, got %q", either(words), apierr.Excerpt(text))
		return words[0]
	}
	return text
}

func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
