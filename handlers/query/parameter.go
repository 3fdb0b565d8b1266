package query

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Parameter declares a parameter of an operation. It determines how the parameter is parsed and documented.
type Parameter struct {
	Name string
	// Description is a sentence of the reference; it may be empty.
	Description string
	// Kind is the form of the value.
	Kind Kind
	// Required refuses requests without the parameter. Parameters of the path are always required.
	Required bool
	// Min and Max bound an Integer. Max 0 means 2^64-1.
	Min, Max uint64
	// OneOf lists the allowed values of a Text or an Array; nil allows all.
	OneOf []string
	// Default is the value of an absent parameter. Empty means that it has none.
	Default string
	// Item is what a Commas or an Array lists, in errors.
	Item string
	// Component names the schema of a Text in the reference; it may be empty.
	Component string
	// Example may be empty.
	Example string
}

// Kind is the form of a parameter's value.
type Kind int

const (
	// Text is a string that the handler interprets.
	Text Kind = iota
	// Integer is an integer of at least 0.
	Integer
	// Digits is an Integer that the generated clients take as a string.
	Digits
	// Number is a decimal number of at least 0.
	Number
	// Boolean is true or false.
	Boolean
	// Commas is a list in one string, separated by commas.
	Commas
	// Array is a list whose parameter is repeated. Commas are allowed as well.
	Array
)

func (p *Parameter) max() uint64 {
	if p.Max == 0 {
		return math.MaxUint64
	}
	return p.Max
}

// values returns the allowed values, nil if there is no list of them.
func (p *Parameter) values() []string {
	if p.Kind == Boolean {
		return []string{"false", "true"}
	}
	return p.OneOf
}

// allowed describes the allowed values in an error.
func (p *Parameter) allowed() string {
	switch p.Kind {
	case Integer, Digits:
		return fmt.Sprintf("an integer from %d to %d", p.Min, p.max())
	case Number:
		return "a decimal number of at least 0"
	case Commas, Array:
		return "at least one " + p.Item + ", several separated by commas"
	}
	if values := p.values(); len(values) > 1 {
		last := len(values) - 1
		return strings.Join(values[:last], ", ") + " or " + values[last]
	} else if len(values) == 1 {
		return values[0]
	}
	return "a value"
}

// Schema returns the JSON schema of the parameter.
func (p *Parameter) Schema() map[string]any {
	if p.Component != "" {
		return map[string]any{"$ref": "#/components/schemas/" + p.Component}
	}
	text := map[string]any{"type": "string"}
	if p.OneOf != nil {
		text["enum"] = p.OneOf
	}
	s := text
	var fallback any = p.Default
	switch p.Kind {
	case Text, Commas:
	case Array:
		s = map[string]any{"type": "array", "items": text}
	case Digits:
		s["pattern"] = "^[0-9]+$"
	case Boolean:
		s = map[string]any{"type": "boolean"}
		fallback = json.RawMessage(p.Default)
	case Integer, Number:
		s = map[string]any{"type": "number", "minimum": p.Min}
		fallback = json.RawMessage(p.Default)
		if p.Kind == Integer {
			s["type"] = "integer"
			if p.Max > 0 {
				s["maximum"] = p.Max
			} else {
				s["format"] = "int64"
			}
		}
	}
	if p.Default != "" {
		s["default"] = fallback
	}
	return s
}
