// Package query declares the parameters of operations and parses query strings by the declarations. It is strict and
// returns errors for the user. It ignores keys that are not declared unless Only refuses them. The caller interprets the values.
package query

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"quorate/handlers/apierr"
	"quorate/internal/suggest"
)

// Values holds the parameters of one query string. Reading a malformed parameter returns a zero value and records the
// error; Err returns the first one. Reading a parameter that is not declared panics. It is not safe for concurrent use.
type Values struct {
	declared []Parameter
	given    map[string][]string
	garbled  map[string]bool // a value of the key has a bad percent escape
	err      error
}

// Parse parses a raw query string with the declared parameters.
func Parse(raw string, declared []Parameter) *Values {
	v := &Values{declared: declared, given: make(map[string][]string), garbled: make(map[string]bool)}
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

// Set sets a parameter to one value.
func (v *Values) Set(name, text string) {
	for _, key := range []string{name, name + "[]"} {
		delete(v.given, key)
		delete(v.garbled, key)
	}
	v.given[name] = []string{text}
}

// Err returns the first error, an *apierr.Error with status 400 whose message begins with the parameter.
func (v *Values) Err() error { return v.err }

// Only records an error for a key that is not one of names. Those of lists are among names with [] at their end, too.
func (v *Values) Only(names []string) {
	for _, key := range slices.Sorted(maps.Keys(v.given)) {
		if !slices.Contains(names, key) {
			plain := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasSuffix(name, "[]") })
			hint := suggest.Name(strings.TrimSuffix(key, "[]"), plain)
			if hint == "" && len(plain) > 0 {
				hint = "; it has " + strings.Join(plain, ", ")
			}
			v.Fail(apierr.Excerpt(key), "the operation has no such parameter%s", hint)
		}
	}
}

// Fail records an error that the caller found.
func (v *Values) Fail(name, format string, args ...any) {
	if v.err == nil {
		v.err = apierr.BadRequest(name+": "+format, args...)
	}
}

func (v *Values) parameter(name string) *Parameter {
	for i := range v.declared {
		if v.declared[i].Name == name {
			return &v.declared[i]
		}
	}
	panic(fmt.Sprintf("parameter %q is read but not declared", name))
}

// all returns the well-formed values of a key.
func (v *Values) all(key string) []string {
	if v.garbled[key] {
		v.Fail(key, "it has an invalid percent escape")
		return nil
	}
	return v.given[key]
}

// Text returns the value of a parameter that may be given once, or its default; ok is false without both.
func (v *Values) Text(name string) (value string, ok bool) {
	p := v.parameter(name)
	values := v.all(name)
	switch len(values) {
	case 0:
		if p.Required {
			v.Fail(name, "is missing; give %s", p.allowed())
		}
		return p.Default, p.Default != ""
	case 1:
		return values[0], true
	}
	v.Fail(name, "it is given %d times; give it once", len(values))
	return "", false
}

// List returns a comma-separated list, under name or name[], which may be repeated. It trims blanks, drops empty and
// repeated items, and preserves the order.
func (v *Values) List(name string) []string {
	p := v.parameter(name)
	var members []string
	seen := make(map[string]bool)
	for _, text := range slices.Concat(v.all(name), v.all(name+"[]")) {
		for member := range strings.SplitSeq(text, ",") {
			member = strings.TrimSpace(member)
			if member != "" && !seen[member] {
				seen[member] = true
				members = append(members, member)
			}
		}
	}
	if len(members) == 0 && p.Required {
		v.Fail(name, "is missing; give %s", p.allowed())
	}
	if p.OneOf != nil {
		for _, member := range members {
			if !slices.Contains(p.OneOf, member) {
				v.Fail(name, "%q is no %s; use %s", apierr.Excerpt(member), p.Item, strings.Join(p.OneOf, ", "))
				return nil
			}
		}
	}
	return members
}

// Integer returns an integer within the bounds of its parameter; 0 if it is absent and has no default.
func (v *Values) Integer(name string) uint64 {
	text, ok := v.Text(name)
	if !ok {
		return 0
	}
	p := v.parameter(name)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < p.Min || n > p.max() {
		v.Fail(name, "must be %s, got %q", p.allowed(), apierr.Excerpt(text))
		return 0
	}
	return n
}

// Optional is Integer, but returns nil if the parameter is absent and has no default.
func (v *Values) Optional(name string) *uint64 {
	if _, ok := v.Text(name); !ok {
		return nil
	}
	n := v.Integer(name)
	return &n
}

// Range returns two integers, each nil if it is absent, and records an error if the first is greater than the second.
func (v *Values) Range(from, to string) (first, last *uint64) {
	first, last = v.Optional(from), v.Optional(to)
	if first != nil && last != nil && *first > *last {
		v.Fail(from, "it is after %s (%d > %d)", to, *first, *last)
	}
	return first, last
}

// Bool reports whether a parameter is true.
func (v *Values) Bool(name string) bool {
	return v.OneOf(name) == "true"
}

// OneOf returns one of the parameter's values, or its default. It is empty if the parameter is absent and has no default.
func (v *Values) OneOf(name string) string {
	text, ok := v.Text(name)
	if p := v.parameter(name); ok && !slices.Contains(p.values(), text) {
		v.Fail(name, "must be %s, got %q", p.allowed(), apierr.Excerpt(text))
		return p.Default
	}
	return text
}
