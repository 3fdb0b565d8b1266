package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// wrongError is an answer that is not true.
type wrongError struct{ text string }

func (w *wrongError) Error() string { return w.text }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// tally counts what came of requests. Safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	counts   map[string]*counts // guarded by mu, by operation
	failures map[string]int     // guarded by mu, by trouble and kind
	wrong    []error            // guarded by mu: the first ones
}

// counts are those of an operation.
type counts struct {
	Operation string `json:"operation"`
	Requests  int    `json:"requests"`
	Failed    int    `json:"failed"`
	Wrong     int    `json:"wrong"`
}

// failure is a kind of failures of an operation, while something was done to the service.
type failure struct {
	While string `json:"while"`
	Kind  string `json:"kind"`
	Times int    `json:"times"`
}

// wrongKept is how many wrong answers are told.
const wrongKept = 20

// failuresKept is how many kinds of failures are told apart.
const failuresKept = 300

// add counts an answer; an err that is no wrongError is a failure.
func (t *tally) add(operation, trouble string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts, t.failures = make(map[string]*counts), make(map[string]int)
	}
	c := t.counts[operation]
	if c == nil {
		c = &counts{Operation: operation}
		t.counts[operation] = c
	}
	c.Requests++
	var untrue *wrongError
	switch {
	case err == nil:
	case errors.As(err, &untrue):
		if c.Wrong++; len(t.wrong) < wrongKept {
			t.wrong = append(t.wrong, fmt.Errorf("wrong: %s: %w", operation, err))
		}
	default:
		c.Failed++
		kind := operation + ": " + kindOf(err)
		if len(t.failures) >= failuresKept {
			kind = "others"
		}
		t.failures[cmp.Or(trouble, "nothing is done to it")+"\t"+kind]++
	}
}

// counted is all of it in a fixed order, and what was wrong.
func (t *tally) counted() (all []counts, failures []failure, bad []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bad = slices.Clone(t.wrong)
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		c := *t.counts[name]
		all = append(all, c)
		if c.Requests == c.Failed {
			bad = append(bad, fmt.Errorf("%s: none of %d requests was answered", name, c.Requests))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.failures)) {
		while, kind, _ := strings.Cut(key, "\t")
		failures = append(failures, failure{while, kind, t.failures[key]})
	}
	return all, failures, bad
}
