package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth limits the depth of keys that are looked at: aliases may form cycles, or multiply. No key is as deep.
const maxDepth = 16

// linesOf returns the lines of all keys of a file, as flatten names keys; the first one of a key that is given again. It
// returns none if the file is no YAML.
func linesOf(content []byte) map[string]int {
	lines := make(map[string]int)
	var document yaml.Node
	if yaml.Unmarshal(content, &document) != nil {
		return lines
	}
	var visit func(n *yaml.Node, key string, depth int)
	visit = func(n *yaml.Node, key string, depth int) {
		if depth > maxDepth || len(lines) >= maxNodes {
			return
		}
		switch n.Kind {
		case yaml.DocumentNode:
			for _, child := range n.Content {
				visit(child, key, depth+1)
			}
		case yaml.AliasNode:
			visit(n.Alias, key, depth+1)
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				name := strings.TrimPrefix(key+"."+n.Content[i].Value, ".")
				if _, again := lines[name]; !again {
					lines[name] = n.Content[i].Line
				}
				visit(n.Content[i+1], name, depth+1)
			}
		case yaml.SequenceNode:
			for i, child := range n.Content {
				name := fmt.Sprintf("%s[%d]", key, i)
				lines[name] = child.Line
				visit(child, name, depth+1)
			}
		}
	}
	visit(&document, "", 0)
	return lines
}

// flatten returns the value of each key, such as networks.fuji.nodes, as text.
func flatten(c Config) map[string]string {
	flat := make(map[string]string)
	flattenInto(flat, "", reflect.ValueOf(c))
	return flat
}

func flattenInto(flat map[string]string, key string, v reflect.Value) {
	if v.Kind() != reflect.Pointer && v.CanInterface() { // not what is embedded
		if s, ok := v.Interface().(fmt.Stringer); ok {
			flat[key] = s.String()
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			flattenInto(flat, key, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case option == "inline":
				flattenInto(flat, key, v.Field(i))
			case !field.IsExported():
			default:
				flattenInto(flat, strings.TrimPrefix(key+"."+name, "."), v.Field(i))
			}
		}
	case reflect.Map:
		if v.Len() == 0 {
			flat[key] = "{}"
		}
		for _, k := range v.MapKeys() {
			flattenInto(flat, key+"."+k.String(), v.MapIndex(k))
		}
	case reflect.Slice:
		_, plain := reflect.Zero(v.Type().Elem()).Interface().(fmt.Stringer)
		if v.Len() > 0 && v.Index(0).Kind() == reflect.Struct && !plain {
			for i := range v.Len() {
				flattenInto(flat, fmt.Sprintf("%s[%d]", key, i), v.Index(i))
			}
			return
		}
		items := make([]string, v.Len())
		for i := range items {
			items[i] = fmt.Sprint(v.Index(i).Interface())
		}
		flat[key] = "[" + strings.Join(items, ", ") + "]"
	default:
		flat[key] = fmt.Sprint(v.Interface())
	}
}

// complete replaces absent settings of networks by their defaults.
func complete(c Config) Config {
	c.Networks = maps.Clone(c.Networks)
	c.forAll(func(n *Network) {
		rounds, age := n.Ahead(), n.HeightAge()
		n.MaxHeightAge = &age
		n.AheadRounds, n.KeepContainers, n.Record = &rounds, n.Keep(), cmp.Or(n.Record, RecordL1)
	})
	return c
}

// Shown returns the values of all keys without secrets, as flatten names keys.
func Shown(c Config) map[string]string {
	all := flatten(complete(c))
	for key, value := range all {
		all[key] = redact(value)
	}
	return all
}
