package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"quorate/chain/genesis"
	"quorate/handlers/evm/methods"
	"quorate/handlers/evm/tokenlist"
	"quorate/handlers/socket"
	"quorate/node"
)

// survey is how a configuration came about.
type survey struct {
	config config
	// origins of keys that are not as the defaults have them: file:line, or the name
	// of a variable or flag.
	origins map[string]string
	// problems are all that is wrong; a problem begins with the key, if it is one's.
	problems []error
	// file is what was read and lines where in it keys are.
	file  string
	lines map[string]int
	hint  string // for the first problem
}

// apply lets a source change the configuration and notes which keys it did change.
func (s *survey) apply(origin string, change func(*config) error) error {
	before := flatten(s.config)
	if err := change(&s.config); err != nil {
		return err
	}
	for key, value := range flatten(s.config) {
		if old, ok := before[key]; !ok || old != value {
			s.origins[key] = origin
		}
	}
	return nil
}

// wrong notes a problem.
func (s *survey) wrong(hint string, err error) {
	if len(s.problems) == 0 {
		s.hint = hint
	}
	s.problems = append(s.problems, redacted(err))
}

// place is where the file has the key that a problem begins with, as file:line, empty
// if the file does not say anything of it.
func (s *survey) place(problem string) string {
	key, _, _ := strings.Cut(problem, ": ")
	key, _, _ = strings.Cut(key, " ")
	for key != "" {
		if line, ok := s.lines[key]; ok {
			return s.file + ":" + strconv.Itoa(line)
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return ""
		}
		key = key[:i]
	}
	return ""
}

const (
	// maxConfig bounds a configuration file, in bytes.
	maxConfig = 1 << 20
	// maxNodes, maxAliases and maxKeys bound its keys and values, aliases, and the keys
	// of one map, the time and memory for whose duplicates grow with their square.
	maxNodes, maxAliases, maxKeys = 20_000, 100, 256
	// maxMistakes bounds what is said of it.
	maxMistakes = 20
)

// checkShape refuses what would take long to understand; what is no YAML it leaves to the
// decoder.
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

// linesOf finds the lines of all keys of a file, as flatten names keys. What is no
// YAML has none.
func linesOf(content []byte) map[string]int {
	lines := make(map[string]int)
	var document yaml.Node
	if yaml.Unmarshal(content, &document) != nil {
		return lines
	}
	var visit func(n *yaml.Node, key string, depth int)
	visit = func(n *yaml.Node, key string, depth int) {
		if depth > 16 || len(lines) >= maxNodes { // aliases could go round in circles, or multiply
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
				lines[name] = n.Content[i].Line
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

// flatten writes a configuration as one text per key, such as networks.fuji.nodes.
func flatten(c config) map[string]string {
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
		if v.Len() > 0 && v.Index(0).Kind() == reflect.Struct {
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

// complete puts in what stands for what is left out.
func complete(c config) config {
	c.Networks = maps.Clone(c.Networks)
	c.forAll(func(n *networkConfig) {
		rounds := n.aheadRounds()
		n.AheadRounds, n.KeepContainers, n.Record = &rounds, n.keep(), cmp.Or(n.Record, recordAll)
	})
	return c
}

var (
	userInfo = regexp.MustCompile(`://[^/?#\s"']*@`)
	urlPath  = regexp.MustCompile(`(://[^/?#\s"',\]]+)(/[^?#\s"',\]]*)`)
	query    = regexp.MustCompile(`(://[^?\s"']*)\?[^\s"',\]]*`)
	excerpt  = regexp.MustCompile("!!(\\w+) `[^`]*`")
)

// redact takes what may be a secret out of a text: what URLs have before the host, in
// long parts of the path and as a query, and the values that errors about YAML quote.
func redact(text string) string {
	text = userInfo.ReplaceAllString(text, "://***@")
	text = query.ReplaceAllString(text, "$1?***")
	text = urlPath.ReplaceAllStringFunc(text, func(found string) string {
		parts := urlPath.FindStringSubmatch(found)
		return parts[1] + node.MaskPath(parts[2])
	})
	return excerpt.ReplaceAllString(text, "!!$1")
}

// redactedError is an error whose text has no secrets.
type redactedError struct{ error }

func (e redactedError) Error() string { return redact(e.error.Error()) }
func (e redactedError) Unwrap() error { return e.error }

func redacted(err error) error { return redactedError{err} }

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration, or show an example",
		Long: `Look at what serve would run with.

  quorate config check --config quorate.yaml
  quorate config example > quorate.yaml`,
		Args: cobra.NoArgs,
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Show each setting and where it is from, or all that is wrong",
		Long: `Show what serve would use with the same file, environment and flags: each key, its
value, and where that is from. If anything is wrong, all of it is told at once, with
the line of the file, and the exit code is 2. Files that are named are read: those of
tls, token lists, method signatures, genesis files and the API keys. Parts of URLs that
may be secret are shown as ***. Nothing is started and no node is asked.

  quorate config check --config quorate.yaml
  QUORATE_LISTEN=:80 quorate config check --network fuji=http://127.0.0.1:9650`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			s := look(cmd, os.Environ())
			for _, err := range s.config.fileProblems() {
				s.wrong("", err)
			}
			return showSurvey(cmd, s)
		}),
	}
	addFlags(check.Flags())
	example := &cobra.Command{
		Use:   "example",
		Short: "Print a configuration with all keys explained",
		Long: `Print a configuration for fuji and mainnet in which every key is explained.

  quorate config example > quorate.yaml`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(exampleConfig)
			return err
		}),
	}
	cmd.AddCommand(check, example)
	return cmd
}

// shown is what serve runs with, by keys as flatten names them and without secrets.
func shown(c config) map[string]string {
	all := flatten(complete(c))
	for key, value := range all {
		all[key] = redact(value)
	}
	return all
}

// fileProblems are all that is wrong with the files that are named; each begins with the
// name of a key.
func (c *config) fileProblems() (all []error) {
	check := func(key string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", key, err))
		}
	}
	if c.TLS.Cert != "" && c.TLS.Key != "" {
		_, err := socket.LoadCertificate(c.TLS.Cert, c.TLS.Key, nil)
		check("tls", err)
	}
	for i, name := range c.TokenLists {
		_, err := tokenlist.Open(name)
		check(fmt.Sprintf("token_lists[%d]", i), err)
	}
	if c.MethodSignatures != "" {
		_, err := methods.Open(c.MethodSignatures)
		check("method_signatures", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		if file := c.Networks[name].GenesisFile; file != "" {
			_, err := genesis.FromFile(file)
			check("networks."+name+".genesis_file", err)
		}
	}
	if c.DataDir != "" {
		keys := keysOf(c.DataDir)
		if _, err := keys.List(); err != nil {
			check("data_dir", fmt.Errorf("the API keys in %s: %w", keys, err))
		}
	}
	return all
}

func showSurvey(cmd *cobra.Command, s *survey) error {
	if len(s.config.Networks) == 0 && len(s.problems) == 0 {
		s.wrong("", errors.New("networks: none is given; name one and a node of it"))
	}
	if len(s.problems) > 0 {
		for _, problem := range s.problems {
			for line := range strings.SplitSeq(problem.Error(), "\n") {
				if place := s.place(line); place != "" {
					line = place + ": " + line
				}
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
		}
		return usage(errors.New("the configuration is not fit for use"), cmp.Or(s.hint, "quorate config example shows all keys."))
	}
	given := flatten(s.config)
	whole := flatten(complete(s.config))
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		origin := "default"
		if given[key] == whole[key] {
			origin = cmp.Or(s.origins[key], origin)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", key, cmp.Or(redact(whole[key]), `""`), origin)
	}
	return w.Flush()
}
