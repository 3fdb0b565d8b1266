package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"quorate/bench/rig"
)

// benchmarks is the page that has the figures of the committed report.
var benchmarks = filepath.Join("..", "docs", "benchmarks.md")

// What stands between these lines of the page is the report's.
const (
	figuresBegin = "<!-- figures of docs/report, written by make bench-short -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

// tell writes the figures into the page.
func (r *report) tell(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	_, begin, end, err := r.place(text)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	part, err := r.part()
	if err != nil {
		return err
	}
	return os.WriteFile(page, bytes.Join([][]byte{text[:begin], []byte(part), text[end:]}, nil), 0o644) //nolint:gosec // it is to be read by everybody
}

// place finds what the page has, and where it begins and ends.
func (r *report) place(page []byte) (part string, begin, end int, err error) {
	begin, end = bytes.Index(page, []byte(figuresBegin)), bytes.Index(page, []byte(figuresEnd))
	if begin < 0 || end < begin {
		return "", 0, 0, fmt.Errorf("there is no place for figures: the lines %q and %q", figuresBegin, figuresEnd)
	}
	begin += len(figuresBegin)
	return string(page[begin:end]), begin, end, nil
}

// part is what the page has of the report.
func (r *report) part() (string, error) {
	var b strings.Builder
	h := r.Head
	versions := h.Go + ", avalanchego " + h.Library
	if h.Postgres != "" {
		versions += ", PostgreSQL " + h.Postgres
	}
	fmt.Fprintf(&b, "%s, %s form in %s: %s, %d processors, %s, %s, commit %s, seed %d, load %s before and %s after.\n\n",
		h.Date.Format(time.DateOnly), h.Form, h.Took, h.CPU, h.Processors, h.System, versions, h.Commit, h.Seed, h.Load, h.LoadAfter)
	rounds, err := figuresOf(r.Results, "latency", nil)
	if err != nil {
		return "", err
	}
	b.WriteString("| validators | faulty | floor p50 / p99 ms | signed p50 / p99 ms | CPU ms a message | resident MB |\n|---|---|---|---|---|---|\n")
	for _, f := range rounds {
		fmt.Fprintf(&b, "| %s | %s %% | %s | %s | %s | %s |\n", f.Of["validators"], f.Of["faults_%"],
			cells(f, " / ", "floor_p50_ms", 0, "floor_p99_ms", 0), cells(f, " / ", "p50_ms", 0, "p99_ms", 0), cells(f, "", "cpu_ms", 1), cells(f, "", "resident_mb", 0))
	}
	b.WriteString("\n![Quorum latency against the floor](report/latency-p50.png)\n\n| measured | figures |\n|---|---|\n")
	for _, l := range lines() {
		all, err := figuresOf(r.Results, l.from, l.match)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | ", l.what)
		for i, f := range all {
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(l.show(f))
		}
		if len(all) == 0 {
			b.WriteString("not measured: " + strings.ReplaceAll(whyNot(r.Results, l.from), "|", "\\|"))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
	return b.String(), nil
}

// cells are values of figures, given as names and how many decimals to show.
func cells(f rig.Figures, between string, what ...any) string {
	var all []string
	for i := 0; i+1 < len(what); i += 2 {
		name, _ := what[i].(string)
		decimals, _ := what[i+1].(int)
		cell := "-"
		if value, ok := f.Values[name]; ok {
			cell = strconv.FormatFloat(value, 'f', decimals, 64)
		}
		all = append(all, cell)
	}
	return strings.Join(all, between)
}

// entry is a line of the page's second table.
type entry struct {
	what, from string
	match      map[string]string
	show       func(rig.Figures) string
}

func lines() []entry {
	recorded := func(f rig.Figures) string {
		return fmt.Sprintf("of %s: %s/s, %s us, %s MB", f.Of["transactions"], cells(f, "", "per_second", 0), cells(f, "", "cpu_us", 0), cells(f, "", "mb_per_million", 0))
	}
	page := func(p50, p99 string) func(rig.Figures) string {
		return func(f rig.Figures) string {
			return fmt.Sprintf("of %s: %s", f.Of["transactions"], cells(f, " / ", p50, 2, p99, 2))
		}
	}
	return []entry{
		{"signatures of one message as a batch: ms, times as fast as one by one", "blsbatch", nil, func(f rig.Figures) string {
			return fmt.Sprintf("%s: %s, %s", f.Of["signatures"], cells(f, "", "batch_ms", 1), cells(f, "", "ratio", 1))
		}},
		{"a signed message again, 64 connections: requests/s, p50 / p99 ms, CPU us a request", "service", nil, func(f rig.Figures) string {
			return fmt.Sprintf("%s: %s/s, %s ms, %s us", f.Of["server"], cells(f, "", "per_second", 0), cells(f, " / ", "full_p50_ms", 2, "full_p99_ms", 2), cells(f, "", "cpu_us", 1))
		}},
		{"recording the P-, X- and C-Chain with outputs: transactions/s, CPU of one, disk for a million", "ingest", map[string]string{"recorded": "all chains and outputs, Pebble"}, recorded},
		{"the same on PostgreSQL (CPU of the service alone)", "ingest", map[string]string{"recorded": "all chains and outputs, PostgreSQL"}, recorded},
		{"recording an EVM chain with traces", "evm", map[string]string{"recorded": "the same and traces"}, recorded},
		{"page of 100 unspent outputs through HTTP: p50 / p99 ms, by transactions recorded", "ingest", map[string]string{"while": "Pebble, idle", "read": "page of 100 unspent outputs through HTTP"}, page("p50_ms", "p99_ms")},
		{"page of an EVM chain's latest 100 transactions, 500 requests/s: p50 / p99 ms", "evm", map[string]string{"read": "HTTP: latest transactions"}, page("paced_p50_ms", "paced_p99_ms")},
		{"replicas on one PostgreSQL server and one machine: requests/s, p50 / p99 ms, CPU us of the service", "replicas", map[string]string{"page": ""}, func(f rig.Figures) string {
			return fmt.Sprintf("%s, from %s: %s/s, %s ms, %s us", f.Of["replicas"], f.Of["reads"], cells(f, "", "requests_per_second", 0), cells(f, " / ", "p50_ms", 2, "p99_ms", 2), cells(f, "", "cpu_us", 0))
		}},
	}
}
