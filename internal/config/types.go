package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"quorate/internal/suggest"
)

// typeMistakes returns an error for each unknown key, each key that is given again and each value of a wrong type. It
// begins with the key, as flatten names it. It removes from the document what the decoder refuses, so that the rest can be
// decoded and checked.
func typeMistakes(document *yaml.Node) []error {
	c := checker{budget: maxNodes}
	c.dropRepeated(document, "", 0)
	c.check(document, reflect.TypeFor[Config](), "")
	for _, n := range c.refused {
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"} // as if it had no value
	}
	return c.mistakes
}

// checker compares a document with types.
type checker struct {
	mistakes []error
	refused  []*yaml.Node // values that cannot be decoded
	budget   int          // nodes that may still be visited: aliases could multiply
}

func (c *checker) wrong(key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if key != "" {
		text = key + ": " + text
	}
	c.mistakes = append(c.mistakes, errors.New(text))
}

// dropRepeated removes keys from mappings that have them already. The decoder would refuse the whole mapping.
func (c *checker) dropRepeated(n *yaml.Node, key string, depth int) {
	if depth > maxDepth {
		return
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, child := range n.Content {
			c.dropRepeated(child, key, depth+1)
		}
	case yaml.SequenceNode:
		for i, child := range n.Content {
			c.dropRepeated(child, fmt.Sprintf("%s[%d]", key, i), depth+1)
		}
	case yaml.MappingNode:
		type name struct { // what the decoder compares
			kind yaml.Kind
			text string
		}
		given := make(map[name]bool)
		kept := n.Content[:0]
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, value := n.Content[i], n.Content[i+1]
			path := strings.TrimPrefix(key+"."+k.Value, ".")
			if given[name{k.Kind, k.Value}] {
				c.wrong(path, "line %d gives it again; remove one of both", k.Line)
				continue
			}
			given[name{k.Kind, k.Value}] = true
			kept = append(kept, k, value)
			c.dropRepeated(value, path, depth+1)
		}
		n.Content = kept
	}
}

func (c *checker) check(n *yaml.Node, t reflect.Type, key string) {
	if c.budget--; c.budget < 0 {
		return
	}
	switch {
	case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
		c.check(n.Content[0], t, key)
	case n.Kind == yaml.AliasNode:
		c.check(n.Alias, t, key)
	case n.Tag == "!!null":
	case t.Kind() == reflect.Pointer:
		c.check(n, t.Elem(), key)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()):
		c.decode(n, t, key)
	case t.Kind() == reflect.Struct:
		c.checkMap(n, key, "keys and values", func(name string) (reflect.Type, string) {
			fields := fieldsOf(t)
			if field, ok := fields[name]; ok {
				return field, ""
			}
			return nil, "unknown key" + suggest.Name(name, slices.Collect(maps.Keys(fields)))
		})
	case t.Kind() == reflect.Map:
		c.checkMap(n, key, "names and values", func(string) (reflect.Type, string) { return t.Elem(), "" })
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", key, i))
		}
	case t.Kind() == reflect.Slice:
		c.wrong(key, "it is not a list")
	default:
		c.decode(n, t, key)
	}
}

// checkMap checks the values of a mapping. typeOf returns the type of a value, or what is wrong with its name.
func (c *checker) checkMap(n *yaml.Node, key, want string, typeOf func(name string) (reflect.Type, string)) {
	if c.budget--; c.budget < 0 { // a map may be merged into itself
		return
	}
	if n.Kind != yaml.MappingNode {
		c.wrong(key, "it has no %s", want)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		if n.Content[i].Tag == "!!merge" {
			for _, merged := range mergedMaps(value) {
				c.checkMap(merged, key, want, typeOf)
			}
			continue
		}
		path := strings.TrimPrefix(key+"."+name, ".")
		if t, mistake := typeOf(name); mistake != "" {
			c.wrong(path, "%s", mistake)
		} else {
			c.check(value, t, path)
		}
	}
}

// decode checks a value by decoding it.
func (c *checker) decode(n *yaml.Node, t reflect.Type, key string) {
	err := n.Decode(reflect.New(t).Interface())
	if err != nil {
		c.refused = append(c.refused, n)
	}
	switch _, mismatch := errors.AsType[*yaml.TypeError](err); {
	case err == nil:
	case mismatch && n.Kind == yaml.ScalarNode:
		c.wrong(key, "%q is not a %s", n.Value, kindOf(t))
	case mismatch:
		c.wrong(key, "it is not a %s", kindOf(t))
	default:
		c.wrong(key, "%v", err)
	}
}

// kindOf returns what users call a type.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "duration such as 15s"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "truth value: write true or false"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "whole number in range"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "single value"
	}
	return "value of the right form"
}

// mergedMaps returns the mappings that the value of a merge key (<<) names.
func mergedMaps(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	all := make([]*yaml.Node, len(n.Content))
	for i, one := range n.Content {
		if all[i] = one; one.Kind == yaml.AliasNode {
			all[i] = one.Alias
		}
	}
	return all
}

// fieldsOf returns the types of the keys of a struct.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	for field := range t.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			maps.Copy(fields, fieldsOf(field.Type))
		case field.IsExported() && name != "" && name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}
