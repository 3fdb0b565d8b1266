// Package jsonbody parses the JSON object of a request body strictly and returns errors for the user. All its errors
// are *apierr.Error with status 400.
package jsonbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"quorate/handlers/apierr"
	"quorate/handlers/decimal"
)

// Object holds the fields of a JSON object; null counts as absent.
type Object struct {
	members map[string]json.RawMessage
}

// Strict parses an object. It accepts only known fields, each at most once.
func Strict(body []byte, known ...string) (Object, error) {
	return read(body, func(name string) (string, error) {
		if slices.Contains(known, name) {
			return name, nil
		}
		hint := ""
		if i := slices.IndexFunc(known, func(k string) bool { return fold(k) == fold(name) }); i >= 0 {
			hint = "; did you mean " + known[i] + "?"
		}
		return "", apierr.BadRequest("unknown member %q in the request body%s (known members: %s)",
			apierr.Excerpt(name), hint, strings.Join(known, ", "))
	}, false)
}

// Loose parses an object of known fields, which may differ in case, hyphens and underscores, and may be repeated with
// the same value.
func Loose(body []byte, known ...string) (Object, error) {
	return read(body, func(name string) (string, error) {
		folded := fold(name)
		for _, k := range known {
			if fold(k) == folded {
				return k, nil
			}
		}
		return "", apierr.BadRequest("unknown member %q in the request body (known members: %s)", apierr.Excerpt(name), strings.Join(known, ", "))
	}, true)
}

// fold returns the same text for all accepted spellings of a field name.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// read collects the fields under the names that resolve returns. If repeat is set, a field may be repeated with the
// same value.
func read(body []byte, resolve func(string) (string, error), repeat bool) (Object, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return Object{}, apierr.BadRequest(`the request body is empty; send a JSON object such as {"message": "0x..."}`)
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return Object{}, syntaxError(err)
	}
	if k := kind(whole); k != "an object" {
		return Object{}, apierr.BadRequest(`the request body must be a JSON object such as {"message": "0x..."}, got %s`, k)
	}
	dec := json.NewDecoder(bytes.NewReader(whole))
	if _, err := dec.Token(); err != nil {
		return Object{}, syntaxError(err)
	}
	o := Object{members: make(map[string]json.RawMessage)}
	seen := make(map[string]bool)
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
		name, err := resolve(given)
		if err != nil {
			return Object{}, err
		}
		if seen[name] && !(repeat && bytes.Equal(o.members[name], value)) {
			return Object{}, apierr.BadRequest("%s is given twice in the request body; leave one out", name)
		}
		seen[name] = true
		o.members[name] = value
	}
	return o, nil
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

// value returns the value of a field, nil if it is absent or null.
func (o Object) value(name string) json.RawMessage {
	v := o.members[name]
	if v == nil || kind(v) == "null" {
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
	switch k := kind(v); k {
	case "a number":
	case "a string":
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
