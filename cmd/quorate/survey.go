package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
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

// checkFiles looks into the files that the configuration names.
func (s *survey) checkFiles() {
	for _, err := range s.config.fileProblems() {
		s.wrong("", err)
	}
}

// placed are the lines of all problems, each with file and line of the key that it is
// about, if a file has it.
func (s *survey) placed() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, problem := range s.problems {
			for line := range strings.SplitSeq(problem.Error(), "\n") {
				if place := s.place(line); place != "" {
					line = place + ": " + line
				}
				if !yield(line) {
					return
				}
			}
		}
	}
}

// value is what a key has.
type value struct {
	key string
	// text is the value without secrets, empty for an empty one.
	text string
	// origin is file:line, the name of a variable or flag, or default.
	origin string
}

// values are those of all keys, by key, with what stands for what is left out.
func (s *survey) values() []value {
	given := flatten(s.config)
	whole := flatten(complete(s.config))
	all := make([]value, 0, len(whole))
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		origin := "default"
		if given[key] == whole[key] {
			origin = cmp.Or(s.origins[key], origin)
		}
		all = append(all, value{key, redact(whole[key]), origin})
	}
	return all
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

// look puts the configuration together, with all that is wrong with it.
func look(flags *pflag.FlagSet, environ []string) *survey {
	s := &survey{config: defaults(), origins: make(map[string]string)}
	if path, _ := flags.GetString("config"); path != "" {
		s.readFile(path)
	}
	known := settings()
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "QUORATE_") && !slices.ContainsFunc(known, func(s setting) bool { return s.env == name }) {
			s.wrong("", fmt.Errorf("unknown environment variable %s%s", name, suggest(name, envNames(known))))
		}
	}
	for _, k := range known { // in order, since the last ones apply to all networks
		for _, variable := range environ {
			if name, value, _ := strings.Cut(variable, "="); name == k.env && value != "" {
				if err := s.apply(k.env, func(c *config) error { return k.set(c, value) }); err != nil {
					s.wrong("", fmt.Errorf("environment variable %s: %w", k.env, err))
				}
			}
		}
	}
	for _, k := range known {
		f := flags.Lookup(k.flag)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if err := s.apply("--"+k.flag, func(c *config) error { return k.set(c, v) }); err != nil {
				s.wrong("", fmt.Errorf("flag --%s: %w", k.flag, err))
			}
		}
	}
	for _, err := range s.config.problems() {
		s.wrong("", err)
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

func (s *survey) readFile(path string) {
	const hint = "Compare it with config.example.yaml."
	content, err := os.ReadFile(path)
	if err != nil {
		s.wrong(hint, fmt.Errorf("reading the configuration: %w", err))
		return
	}
	s.file, s.lines = path, linesOf(content)
	c := &s.config
	before := flatten(*c)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err = decoder.Decode(c)
	if errors.Is(err, io.EOF) { // an empty file
		err = nil
	}
	if err != nil {
		names := strings.NewReplacer(" in type main.config", "", " in type main.networkConfig", " of a network", " in type main.nodeAPIConfig", " of node_api", " in type main.evmConfig", " of an EVM chain", " in type main.metadataConfig", " of metadata", " in type main.surfaceConfig", "", " in type main.limitsConfig", " of limits", " in type main.tlsConfig", " of tls", " in type main.tracingConfig", " of tracing", " in type main.rateClass", " of a rate class", " in type main.tokenConfig", " of a native token", "field ", "unknown key ", "not found", "is not known")
		texts := []string{err.Error()}
		if mistakes, ok := errors.AsType[*yaml.TypeError](err); ok {
			texts = mistakes.Errors // the rest has been decoded
		}
		for _, text := range texts {
			s.wrong(hint, fmt.Errorf("configuration %s: %s", path, names.Replace(text)))
		}
	}
	if c.Networks == nil {
		c.Networks = make(map[string]networkConfig)
	}
	for key, value := range flatten(*c) {
		line, given := s.lines[key]
		if given {
			s.origins[key] = path + ":" + strconv.Itoa(line)
		} else if before[key] != value { // within something that is written otherwise
			s.origins[key] = path
		}
	}
}
