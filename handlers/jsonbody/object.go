// Package jsonbody parses the JSON object of a request body, or the same fields in a query string, and returns errors for
// the user. It refuses unknown fields. All its errors are *apierr.Error with status 400.
package jsonbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"quorate/handlers/apierr"
	"quorate/handlers/decimal"
)

// Object holds the fields of a request; null and the empty string count as absent.
type Object struct {
	fields map[string]json.RawMessage
	// query means that the fields are strings from a query string.
	query bool
}

// Parse parses a JSON object of known fields, each at most once. Their names may differ from known in case, hyphens and
// underscores. aliases maps other names of fields to known names; it may be nil.
func Parse(body []byte, aliases map[string]string, known ...string) (Object, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return Object{}, apierr.BadRequest("the request body is empty; send a JSON object with %s", strings.Join(known, ", "))
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return Object{}, syntaxError(err)
	}
	if k := kind(whole); k != "an object" {
		return Object{}, apierr.BadRequest("the request body must be a JSON object with %s, got %s", strings.Join(known, ", "), k)
	}
	return parse(whole, "the request body", aliases, known)
}

// parse parses a JSON object, which place names in errors.
func parse(object json.RawMessage, place string, aliases map[string]string, known []string) (Object, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return Object{}, syntaxError(err)
	}
	c := newCollector(place, "field", aliases, known)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return Object{}, syntaxError(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return Object{}, syntaxError(err)
		}
		given, _ := token.(string) // object names are strings
		if err := c.add(given, value); err != nil {
			return Object{}, err
		}
	}
	return Object{fields: c.fields}, nil
}

// ParseQuery is Parse for the parameters of a raw query string.
func ParseQuery(raw string, aliases map[string]string, known ...string) (Object, error) {
	c := newCollector("the query", "parameter", aliases, known)
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		escaped, text, _ := strings.Cut(pair, "=")
		given, err := url.QueryUnescape(escaped)
		if err != nil {
			return Object{}, apierr.BadRequest("the query has a parameter with an invalid percent escape: %q", apierr.Excerpt(escaped))
		}
		value, err := url.QueryUnescape(text)
		if err != nil {
			return Object{}, apierr.BadRequest("%s: it has an invalid percent escape", apierr.Excerpt(given))
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return Object{}, apierr.Internal(err)
		}
		if err := c.add(given, quoted); err != nil {
			return Object{}, err
		}
	}
	return Object{fields: c.fields, query: true}, nil
}

// collector collects the fields of one request under their known names.
type collector struct {
	place, what string // where the fields are and what they are called, in errors
	known       []string
	names       map[string]string // by folded spelling
	spellings   map[string]string // by name
	fields      map[string]json.RawMessage
}

func newCollector(place, what string, aliases map[string]string, known []string) *collector {
	c := &collector{
		place: place, what: what, known: known,
		names: make(map[string]string), spellings: make(map[string]string), fields: make(map[string]json.RawMessage),
	}
	for alias, name := range aliases {
		c.names[fold(alias)] = name
	}
	for _, name := range known {
		c.names[fold(name)] = name
	}
	return c
}

// fold returns the same text for all accepted spellings of a field name.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

func (c *collector) add(given string, value json.RawMessage) error {
	name, ok := c.names[fold(given)]
	if !ok {
		return apierr.BadRequest("unknown %s %q in %s (known %ss: %s)", c.what, apierr.Excerpt(given), c.place, c.what, strings.Join(c.known, ", "))
	}
	switch first, twice := c.spellings[name]; {
	case twice && first == given:
		return apierr.BadRequest("%s is given twice in %s; leave one out", apierr.Excerpt(given), c.place)
	case twice:
		return apierr.BadRequest("%s and %s in %s are the same field; leave one out", apierr.Excerpt(first), apierr.Excerpt(given), c.place)
	}
	c.spellings[name], c.fields[name] = given, value
	return nil
}

func syntaxError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return apierr.BadRequest("the request body is not valid JSON: %s (byte %d)", syntax.Error(), syntax.Offset)
	}
	return apierr.BadRequest("the request body is not valid JSON")
}

// kind returns the type of a valid JSON value, with its article.
func kind(v json.RawMessage) string {
	switch bytes.TrimSpace(v)[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// value returns the value of a field, nil if it is absent, null or the empty string.
func (o Object) value(name string) json.RawMessage {
	v := o.fields[name]
	if v == nil || kind(v) == "null" || string(v) == `""` {
		return nil
	}
	return v
}

// String returns the text of a field, empty if it is absent.
func (o Object) String(name string) (string, error) {
	v := o.value(name)
	if v == nil {
		return "", nil
	}
	var s string
	if kind(v) != "a string" {
		return "", apierr.BadRequest("%s must be a string, got %s", name, kind(v))
	}
	if err := json.Unmarshal(v, &s); err != nil {
		return "", syntaxError(err)
	}
	return s, nil
}

// Uint returns the value of a field that is an integer from 0 to most, in any notation; 0 if it is absent.
func (o Object) Uint(name string, most uint64) (uint64, error) {
	v := o.value(name)
	if v == nil {
		return 0, nil
	}
	switch k := kind(v); {
	case k == "a number":
	case k == "a string" && o.query:
		text, err := o.String(name)
		if err != nil {
			return 0, err
		}
		if v = json.RawMessage(text); !json.Valid(v) { // as in a body, 067 is no number
			return 0, apierr.BadRequest("%s must be an integer from 0 to %d, got %q", name, most, apierr.Excerpt(text))
		}
	case k == "a string":
		return 0, apierr.BadRequest("%s must be a JSON number from 0 to %d, got a string; write it without quotes", name, most)
	default:
		return 0, apierr.BadRequest("%s must be a JSON number from 0 to %d, got %s", name, most, k)
	}
	n, ok := decimal.Integer(string(v))
	if !ok || n > most {
		return 0, apierr.BadRequest("%s must be an integer from 0 to %d, got %s", name, most, apierr.Excerpt(string(v)))
	}
	return n, nil
}

// Array returns the elements of a field, 1 to most.
func (o Object) Array(name string, most int) ([]json.RawMessage, error) {
	v := o.value(name)
	if v == nil {
		return nil, apierr.BadRequest("%s is missing; it must be an array of 1 to %d elements", name, most)
	}
	if kind(v) != "an array" {
		return nil, apierr.BadRequest("%s must be an array of 1 to %d elements, got %s", name, most, kind(v))
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(v, &elements); err != nil {
		return nil, syntaxError(err)
	}
	if n := len(elements); n < 1 || n > most {
		return nil, apierr.BadRequest("%s has %d elements; it must have 1 to %d", name, n, most)
	}
	return elements, nil
}
