// Package jsonbody reads the JSON object of a request body strictly and says in
// the user's terms what is wrong with it. All its errors are *apierr.Error with
// status 400.
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

// Object has the members of a JSON object; null counts as absent.
type Object struct {
	members map[string]json.RawMessage
}

// Strict reads an object that has no members but known ones, each at most once.
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

// Loose reads an object whose further members are ignored, and whose known ones
// may be written with other capitals, hyphens or underscores and repeated with
// the same value.
func Loose(body []byte, known ...string) (Object, error) {
	return read(body, func(name string) (string, error) {
		folded := fold(name)
		for _, k := range known {
			if fold(k) == folded {
				return k, nil
			}
		}
		return "", nil
	}, true)
}

// fold makes the spellings of a member name equal.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// read collects the members under the names that resolve gives them; the empty
// name drops a member.
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
		given, _ := token.(string) // the names of an object are strings
		name, err := resolve(given)
		if err != nil {
			return Object{}, err
		}
		if name == "" {
			continue
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

// kind names the type of a valid JSON value, with its article.
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

// value is the member's value, nil if it is absent or null.
func (o Object) value(name string) json.RawMessage {
	v := o.members[name]
	if v == nil || kind(v) == "null" {
		return nil
	}
	return v
}

// String is the text of a member, empty if it is absent.
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

// Uint is the value of a number that is an integer from 0 to most, however it is
// written; 0 if the member is absent.
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

// Array is the elements of a member, 1 to most of them.
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
