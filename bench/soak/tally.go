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

// wrongError is a response that differs from the truth.
type wrongError struct{ text string }

func (w *wrongError) Error() string { return w.text }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// tally counts responses. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	counts   map[string]*counts // guarded by mu, by operation
	failures map[string]int     // guarded by mu, by fault and kind
	wrong    []error            // guarded by mu: the first ones
}

// counts are the counts of an operation.
type counts struct {
	Operation string `json:"operation"`
	Requests  int    `json:"requests"`
	Failed    int    `json:"failed"`
	Wrong     int    `json:"wrong"`
}

// failure is a kind of failure of an operation during a fault.
type failure struct {
	While string `json:"while"`
	Kind  string `json:"kind"`
	Times int    `json:"times"`
}

// wrongKept is the number of wrong responses that are reported.
const wrongKept = 20

// failuresKept is the number of kinds of failures that are distinguished.
const failuresKept = 300

// add counts a response. An error other than a wrongError is a failure.
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
		t.failures[cmp.Or(trouble, "no fault")+"\t"+kind]++
	}
}

// counted returns all counts in a fixed order, and the errors that fail the run.
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
