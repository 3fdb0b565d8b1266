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

// errNotAsked reports that a client had nothing to request.
var errNotAsked = errors.New("nothing was requested")

// tally counts responses. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	calm     counts             // guarded by mu: of all operations, without a fault
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
	// NotAsked is the number of times that a client had nothing to request. Requests does not include them.
	NotAsked int `json:"not_asked,omitempty"`
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

// calmFailures is the number of requests that may fail without a fault, of n: after a fault the service needs some time to
// catch up.
func calmFailures(n int) int { return max(100, n/1000) }

// add counts a response. An error other than a wrongError and errNotAsked is a failure.
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
	if errors.Is(err, errNotAsked) {
		c.NotAsked++
		return
	}
	c.Requests++
	if trouble == "" {
		t.calm.Requests++
	}
	var untrue *wrongError
	switch {
	case err == nil:
	case errors.As(err, &untrue):
		if c.Wrong++; len(t.wrong) < wrongKept {
			t.wrong = append(t.wrong, fmt.Errorf("wrong: %s: %w", operation, err))
		}
	default:
		c.Failed++
		if trouble == "" {
			t.calm.Failed++
		}
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
	if most := calmFailures(t.calm.Requests); t.calm.Failed > most {
		bad = append(bad, fmt.Errorf("%d of %d requests failed without a fault, at most %d may", t.calm.Failed, t.calm.Requests, most))
	}
	for _, key := range slices.Sorted(maps.Keys(t.failures)) {
		while, kind, _ := strings.Cut(key, "\t")
		failures = append(failures, failure{while, kind, t.failures[key]})
	}
	return all, failures, bad
}
