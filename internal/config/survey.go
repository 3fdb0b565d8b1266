package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"quorate/internal/suggest"
)

// Survey is a configuration with the origins of its values and its mistakes.
type Survey struct {
	// Config is the configuration. It can be used if there are no problems.
	Config Config
	// origins are the origins of values that are not defaults: file:line, or the name of a variable or flag.
	origins map[string]string
	// Problems are all mistakes. A mistake in one key begins with that key. Hint says what to do about the first mistake;
	// it is often empty.
	Problems []error
	Hint     string
	// file is the path of the configuration file, and lines has the lines of its keys.
	file  string
	lines map[string]int
}

// apply changes the configuration and notes the origin of the keys that change.
func (s *Survey) apply(origin string, change func(*Config) error) error {
	before := flatten(s.Config)
	if err := change(&s.Config); err != nil {
		return err
	}
	for key, value := range flatten(s.Config) {
		if old, ok := before[key]; !ok || old != value {
			s.origins[key] = origin
		}
	}
	return nil
}

// Wrong adds a problem, without secrets. The hint may be empty.
func (s *Survey) Wrong(hint string, err error) {
	if len(s.Problems) == 0 {
		s.Hint = hint
	}
	s.Problems = append(s.Problems, Redacted(err))
}

// CheckFiles adds the problems of the files that the configuration names.
func (s *Survey) CheckFiles() {
	for _, err := range s.Config.fileProblems() {
		s.Wrong("", err)
	}
}

// CheckNetworks adds a problem if no network is configured. Only commands that work with networks call it.
func (s *Survey) CheckNetworks() {
	if len(s.Config.Networks) == 0 && len(s.Problems) == 0 {
		s.Wrong("Name one and its node: quorate serve --network fuji=http://127.0.0.1:9650", errors.New("networks: none is configured"))
	}
}

// Placed returns the lines of all problems. Each begins with file and line of its key, if the file has the key; these come
// first, in the order of the file.
func (s *Survey) Placed() []string {
	type placed struct {
		line int // of the file; after all others if it has none
		text string
	}
	var all []placed
	for _, problem := range s.Problems {
		for text := range strings.SplitSeq(problem.Error(), "\n") {
			line, ok := s.line(text)
			if ok {
				text = fmt.Sprintf("%s:%d: %s", s.file, line, text)
			} else {
				line = math.MaxInt
			}
			all = append(all, placed{line, text})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.line, b.line) })
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = one.text
	}
	return lines
}

// Value is the value of a key.
type Value struct {
	Key string
	// Text is the value without secrets, empty for an empty one.
	Text string
	// Origin is file:line, the name of a variable or flag, or default.
	Origin string
}

// Values returns the values of all keys, defaults included, sorted by key.
func (s *Survey) Values() []Value {
	given := flatten(s.Config)
	whole := flatten(complete(s.Config))
	all := make([]Value, 0, len(whole))
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		origin := "default"
		if given[key] == whole[key] {
			origin = cmp.Or(s.origins[key], origin)
		}
		all = append(all, Value{key, redact(whole[key]), origin})
	}
	return all
}

// line returns the file's line of the key that a problem begins with, else of the nearest key above it, if the file has
// either.
func (s *Survey) line(problem string) (int, bool) {
	key, _, _ := strings.Cut(problem, ": ")
	key, _, _ = strings.Cut(key, " ")
	for key != "" {
		if line, ok := s.lines[key]; ok {
			return line, true
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			break
		}
		key = key[:i]
	}
	return 0, false
}

// Read reads the configuration file that flags name, the environment and the flags.
func Read(flags *pflag.FlagSet, environ []string) *Survey {
	s := &Survey{Config: Default(), origins: make(map[string]string)}
	if path, _ := flags.GetString("config"); path != "" {
		s.readFile(path)
	}
	known := settings()
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "QUORATE_") && !slices.ContainsFunc(known, func(s setting) bool { return s.env == name }) {
			s.Wrong("", fmt.Errorf("unknown environment variable %s%s", name, suggest.Name(name, envNames(known))))
		}
	}
	for _, k := range known { // in order, since networks come before what applies to all of them
		for _, variable := range environ {
			if name, value, _ := strings.Cut(variable, "="); name == k.env && value != "" {
				if err := s.apply(k.env, func(c *Config) error { return k.set(c, value) }); err != nil {
					s.Wrong("", fmt.Errorf("environment variable %s: %w", k.env, err))
				}
			}
		}
		f := flags.Lookup(k.flag)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if k.flag == "network" {
			values = []string{strings.Join(values, ";")} // one text, as in the variable, so that none is given twice
		}
		for _, v := range values {
			if err := s.apply("--"+k.flag, func(c *Config) error { return k.set(c, v) }); err != nil {
				s.Wrong("", fmt.Errorf("flag --%s: %w", k.flag, err))
			}
		}
	}
	for _, err := range s.Config.problems() {
		s.Wrong("", err)
	}
	return s
}

func envNames(known []setting) []string {
	names := make([]string, len(known))
	for i, s := range known {
		names[i] = s.env
	}
	return names
}

func (s *Survey) readFile(path string) {
	const hint = "quorate config example prints a configuration with all keys."
	content, err := readFile(path)
	if err != nil {
		s.Wrong("Check --config. quorate config example prints a configuration.", fmt.Errorf("reading the configuration: %w", err))
		return
	}
	if err := checkShape(content); err != nil {
		s.Wrong(hint, fmt.Errorf("configuration %s: %w", path, err))
		return
	}
	s.file, s.lines = path, linesOf(content)
	c := &s.Config
	before := flatten(*c)
	var document yaml.Node
	err = yaml.Unmarshal(content, &document)
	if err == nil && document.Kind != 0 { // not an empty file
		err = s.decode(&document, hint)
	}
	if err != nil {
		s.Wrong(hint, fmt.Errorf("configuration %s: %w", path, err))
	}
	if c.Networks == nil {
		c.Networks = make(map[string]Network)
	}
	for key, value := range flatten(*c) {
		line, given := s.lines[key]
		if given {
			s.origins[key] = path + ":" + strconv.Itoa(line)
		} else if before[key] != value { // the file has it in another form, for example merged
			s.origins[key] = path
		}
	}
}

// decode decodes what fits of a document and adds the mistakes in the rest.
func (s *Survey) decode(document *yaml.Node, hint string) error {
	mistakes := typeMistakes(document)
	for i, mistake := range mistakes {
		if i == maxMistakes {
			s.Wrong(hint, fmt.Errorf("%d mistakes more", len(mistakes)-i))
			break
		}
		s.Wrong(hint, mistake)
	}
	err := document.Decode(&s.Config)
	if len(mistakes) > 0 {
		return nil // which explain err
	}
	return err
}
