package config

import (
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

const (
	// maxFile is the maximum size of a configuration file, in bytes.
	maxFile = 1 << 20
	// maxNodes, maxAliases and maxKeys limit its keys and values, its aliases, and the keys
	// of one map: the decoder compares each key of a map with all others.
	maxNodes, maxAliases, maxKeys = 20_000, 100, 256
	// maxMistakes is the maximum number of mistakes that are reported.
	maxMistakes = 20
)

// readFile reads a configuration file. The path may name another file, for example one without an end.
func readFile(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	if content, err = io.ReadAll(io.LimitReader(file, maxFile+1)); err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %s", path, Size(maxFile))
	}
	return content, err
}

// checkShape returns an error if decoding would take long. It accepts what is no YAML, which the decoder refuses.
func checkShape(content []byte) error {
	var document yaml.Node
	if yaml.Unmarshal(content, &document) != nil {
		return nil //nolint:nilerr // the decoder says what is wrong
	}
	nodes, aliases := 0, 0
	var visit func(n *yaml.Node) error
	visit = func(n *yaml.Node) error {
		nodes++
		if n.Kind == yaml.AliasNode {
			aliases++
		}
		switch {
		case nodes > maxNodes:
			return fmt.Errorf("line %d: more than %d keys and values", n.Line, maxNodes)
		case aliases > maxAliases:
			return fmt.Errorf("line %d: more than %d aliases", n.Line, maxAliases)
		case n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys:
			return fmt.Errorf("line %d: more than %d keys in one place", n.Line, maxKeys)
		}
		for _, child := range n.Content { // an alias has none
			if err := visit(child); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(&document)
}
