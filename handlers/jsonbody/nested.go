package jsonbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// Read reads the whole body of a request. It refuses a compressed body. It ignores the Content-Type, because clients
// differ and only JSON parses.
func Read(c echo.Context) ([]byte, error) {
	r := c.Request()
	if encoding := r.Header.Get(echo.HeaderContentEncoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, apierr.BadRequest("the request body has Content-Encoding %q; send it uncompressed", apierr.Excerpt(encoding))
	}
	body, err := io.ReadAll(r.Body)
	var known *apierr.Error
	switch {
	case errors.As(err, &known):
		return nil, known
	case err != nil:
		return nil, &apierr.Error{Status: 400, Message: "the request body could not be read; send it again", Err: err}
	}
	return body, nil
}

// Has reports whether the request has a field, even if it is empty. A field that is null is absent.
func (o Object) Has(name string) bool {
	v := o.fields[name]
	return v != nil && kind(v) != "null"
}

// Bool returns the value of a field, false if it is absent.
func (o Object) Bool(name string) (value bool, err error) {
	v := o.value(name)
	if v == nil {
		return false, nil
	}
	if k := kind(v); k != "a boolean" {
		return false, apierr.BadRequest("%s must be true or false, got %s", name, k)
	}
	return string(bytes.TrimSpace(v)) == "true", nil
}

// Object returns the value of a field that is an object of known fields, an empty one if it is absent. Errors of the
// object's fields begin with their own names.
func (o Object) Object(name string, known ...string) (Object, error) {
	v := o.value(name)
	if v == nil {
		return Object{}, nil
	}
	if k := kind(v); k != "an object" {
		return Object{}, apierr.BadRequest("%s must be an object, got %s", name, k)
	}
	return parse(v, name, nil, known)
}

// Strings returns the elements of a field that is an array of at most most strings, nil if it is absent.
func (o Object) Strings(name string, most int) ([]string, error) {
	v := o.value(name)
	if v == nil {
		return nil, nil
	}
	if k := kind(v); k != "an array" {
		return nil, apierr.BadRequest("%s must be an array of strings, got %s", name, k)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(v, &elements); err != nil {
		return nil, syntaxError(err)
	}
	if len(elements) > most {
		return nil, apierr.BadRequest("%s has %d elements; it may have %d", name, len(elements), most)
	}
	texts := make([]string, len(elements))
	for i, element := range elements {
		if k := kind(element); k != "a string" {
			return nil, apierr.BadRequest("%s[%d] must be a string, got %s", name, i, k)
		}
		if err := json.Unmarshal(element, &texts[i]); err != nil {
			return nil, syntaxError(err)
		}
	}
	return texts, nil
}
