package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
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

type counts struct{ requests, failed, wrong int }

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
		c = new(counts)
		t.counts[operation] = c
	}
	c.requests++
	var untrue *wrongError
	switch {
	case err == nil:
	case errors.As(err, &untrue):
		if c.wrong++; len(t.wrong) < wrongKept {
			t.wrong = append(t.wrong, fmt.Errorf("wrong: %s: %w", operation, err))
		}
	default:
		c.failed++
		kind := operation + ": " + kindOf(err)
		if len(t.failures) >= failuresKept {
			kind = "others"
		}
		t.failures[cmp.Or(trouble, "nothing is done to it")+"\t"+kind]++
	}
}

// print writes the tables and returns what was wrong.
func (t *tally) print(out io.Writer) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\noperation\trequests\tfailed\twrong")
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		c := t.counts[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", name, c.requests, c.failed, c.wrong)
	}
	fmt.Fprintln(w, "\nfailed while\toperation and kind\ttimes")
	for _, name := range slices.Sorted(maps.Keys(t.failures)) {
		fmt.Fprintf(w, "%s\t%d\n", name, t.failures[name])
	}
	_ = w.Flush()
	bad := slices.Clone(t.wrong)
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		if c := t.counts[name]; c.requests == c.failed {
			bad = append(bad, fmt.Errorf("%s: none of %d requests was answered", name, c.requests))
		}
	}
	return bad
}
