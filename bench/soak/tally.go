package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// wrongError is a response that differs from the truth.
type wrongError struct{ text string }

func (w *wrongError) Error() string { return w.text }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// errNotAsked reports that a client had nothing to request.
var errNotAsked = errors.New("nothing was requested")

// tally counts responses. It is safe for concurrent use.
type tally struct {
	mu         sync.Mutex
	operations map[string]*operationTally // guarded by mu, by name
	failures   map[string]int             // guarded by mu, by fault and kind
	calmLate   int                        // guarded by mu: requests of all operations without an answer in time and without a fault
	wrong      []error                    // guarded by mu: the first ones
}

// operationTally is what a tally knows of an operation.
type operationTally struct {
	counts
	calm, calmFailed int       // requests without a fault
	answered         time.Time // when the last right response came
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

// calmFailures is the number of requests of an operation that may fail without a fault, of n: after a fault the service
// needs some time to catch up. In the run of docs/soak.json at most 20 of about 24,000 failed.
func calmFailures(n int) int { return max(50, n/500) }

// calmLate is the number of requests of all operations that may have no answer in time without a fault.
const calmLate = 3

// of returns the tally of an operation. The caller holds mu.
func (t *tally) of(operation string) *operationTally {
	if t.operations == nil {
		t.operations, t.failures = make(map[string]*operationTally), make(map[string]int)
	}
	c := t.operations[operation]
	if c == nil {
		c = &operationTally{counts: counts{Operation: operation}}
		t.operations[operation] = c
	}
	return c
}

// expect requires that an operation is answered.
func (t *tally) expect(operation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(operation)
}

// add counts a response. An error other than a wrongError and errNotAsked is a failure.
func (t *tally) add(operation, trouble string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(operation)
	if errors.Is(err, errNotAsked) {
		c.NotAsked++
		return
	}
	c.Requests++
	if trouble == "" {
		c.calm++
	}
	var untrue *wrongError
	switch {
	case err == nil:
		c.answered = time.Now()
	case errors.As(err, &untrue):
		if c.Wrong++; len(t.wrong) < wrongKept {
			t.wrong = append(t.wrong, fmt.Errorf("wrong: %s: %w", operation, err))
		}
	default:
		c.Failed++
		kind := kindOf(err)
		if trouble == "" {
			c.calmFailed++
			if kind == tooLate {
				t.calmLate++
			}
		}
		kind = operation + ": " + kind
		if len(t.failures) >= failuresKept {
			kind = "others"
		}
		t.failures[cmp.Or(trouble, "no fault")+"\t"+kind]++
	}
}

// counted returns all counts in a fixed order, and the errors that fail the run. Each operation must have a right response
// since the given time.
func (t *tally) counted(since time.Time) (all []counts, failures []failure, bad []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bad = slices.Clone(t.wrong)
	for _, name := range slices.Sorted(maps.Keys(t.operations)) {
		c := t.operations[name]
		all = append(all, c.counts)
		switch {
		case c.answered.IsZero():
			bad = append(bad, fmt.Errorf("%s: none of %d requests had a right response", name, c.Requests))
		case c.answered.Before(since):
			bad = append(bad, fmt.Errorf("%s: no right response in the last %s", name, time.Since(since).Round(time.Second)))
		}
		if most := calmFailures(c.calm); c.calmFailed > most {
			bad = append(bad, fmt.Errorf("%s: %d of %d requests failed without a fault, at most %d may", name, c.calmFailed, c.calm, most))
		}
	}
	if t.calmLate > calmLate {
		bad = append(bad, fmt.Errorf("%d requests had no answer in time without a fault, at most %d may", t.calmLate, calmLate))
	}
	for _, key := range slices.Sorted(maps.Keys(t.failures)) {
		while, kind, _ := strings.Cut(key, "\t")
		failures = append(failures, failure{while, kind, t.failures[key]})
	}
	return all, failures, bad
}
