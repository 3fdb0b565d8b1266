package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"quorate/bench/rig"
)

// Names of the report's files; plots have those of their charts.
const (
	page    = "index.html"
	figures = "figures.json"
)

//go:embed page.html
var pageText string

// section is a part of the report: figures of one benchmark.
type section struct {
	title, text string
	from        string // the benchmark
	match       map[string]string
	columns     []column
	charts      []chart
	without     string // what is said if the benchmark was not run, besides that
}

// column of a table: what figures are of, or a value with so many decimals.
type column struct {
	title, key string
	decimals   int // -1: what figures are of
}

func of(title, key string) column { return column{title, key, -1} }

func sections() []section {
	const validators, transactions, ms = "validators", "transactions", "ms"
	number := of(transactions, transactions)
	latency := func(file, title, quantile string) chart {
		c := chart{file: file, title: title, x: validators, y: ms, over: validators}
		for i, faults := range []string{"0", "10", "20"} {
			match := map[string]string{"faults_%": faults}
			c.lines = append(c.lines,
				curve{faults + " % faulty", match, quantile, i, false},
				curve{faults + " % faulty: floor", match, "floor_" + quantile, i, true})
		}
		return c
	}
	cpu := chart{file: "cpu", title: "CPU of the service for a message", x: validators, y: ms, over: validators}
	for i, faults := range []string{"0", "10", "20"} {
		cpu.lines = append(cpu.lines, curve{faults + " % faulty", map[string]string{"faults_%": faults}, "cpu_ms", i, false})
	}
	times := func(names ...string) (lines []curve) {
		for i, name := range names {
			match := map[string]string{"while": "Pebble, idle", "read": name}
			lines = append(lines, curve{name + ", p50", match, "p50_ms", i, false}, curve{name + ", p99", match, "p99_ms", i, true})
		}
		return lines
	}
	paced := func(names ...string) (lines []curve) {
		for i, name := range names {
			match := map[string]string{"read": "HTTP: " + name}
			lines = append(lines, curve{name + ", p50", match, "paced_p50_ms", i, false}, curve{name + ", p99", match, "paced_p99_ms", i, true})
		}
		return lines
	}
	rate := func(file, title string, names ...string) chart {
		c := chart{file: file, title: title, x: transactions, y: "transactions/s", over: transactions}
		for i, name := range names {
			c.lines = append(c.lines, curve{name, map[string]string{"recorded": name}, "per_second", i, false})
		}
		return c
	}
	recorded := []column{of("recorded", "recorded"), number, {"transactions/s", "per_second", 0}, {"CPU us/transaction", "cpu_us", 1}, {"MB per million", "mb_per_million", 0}}
	return []section{
		{
			title: "Checking signatures", from: "blsbatch",
			text: "Signatures of one message, from bytes to verdict, on one processor: one by one as avalanchego checks them, and as one batch that vouches for each.",
			columns: []column{
				of("signatures", "signatures"), {"one by one ms", "single_ms", 2}, {"batch ms", "batch_ms", 2}, {"times as fast", "ratio", 1},
			},
			charts: []chart{{
				file: "bls", title: "Checking signatures of one message", x: "signatures", y: ms, over: "signatures",
				lines: []curve{{"one by one", nil, "single_ms", 0, false}, {"batch", nil, "batch_ms", 2, false}},
			}},
		},
		{
			title: "Rounds against the floor", from: "latency",
			text: "The floor is the moment at which the fastest possible quorum has answered, had all validators been asked at once, " +
				"computed from the answer times that were drawn. The service has one processor, the validators another.",
			columns: []column{
				of(validators, validators), of("faulty %", "faults_%"), {"floor p50 ms", "floor_p50_ms", 0}, {"p99", "floor_p99_ms", 0},
				{"ours p50 ms", "p50_ms", 0}, {"p90", "p90_ms", 0}, {"p99", "p99_ms", 0}, {"above floor p50 ms", "above_floor_p50_ms", 1}, {"p99", "above_floor_p99_ms", 1},
				{"asked %", "asked_%", 0}, {"not signed", "not_signed", 0}, {"CPU ms/message", "cpu_ms", 1}, {"resident MB", "resident_mb", 0}, {"connected s", "connected_s", 1},
			},
			charts: []chart{
				latency("latency-p50", "Quorum latency, median", "p50_ms"),
				latency("latency-p99", "Quorum latency, 99th percentile", "p99_ms"), cpu,
			},
		},
		{
			title: "A signed message again", from: "service",
			text: "Repeats of one message through HTTP over 64 connections, as fast as they are answered and at half that rate, and over one connection; " +
				"the floor answers with the same bytes and does nothing else.",
			columns: []column{
				of("server", "server"), {"requests/s", "per_second", 0}, {"CPU us/request", "cpu_us", 1}, {"p50 ms", "full_p50_ms", 2}, {"p99", "full_p99_ms", 2},
				{"half: p50 ms", "half_p50_ms", 2}, {"p99", "half_p99_ms", 2}, {"one connection: p50 ms", "alone_p50_ms", 2}, {"p99", "alone_p99_ms", 2},
			},
		},
		{
			title: "Recording the P-, X- and C-Chain", from: "ingest", match: map[string]string{"while": "", "compared": ""}, columns: recorded,
			text:   "Through the service's own pipelines into its own store, with the simulated node on the same processors.",
			charts: []chart{rate("ingest", "Recording", "P-Chain blocks and L1s, Pebble", "all chains and outputs, Pebble", "all chains and outputs, PostgreSQL")},
		},
		{
			title: "Pages of outputs, and balances", from: "ingest", match: map[string]string{"recorded": "", "compared": ""},
			columns: []column{of("while", "while"), of("read", "read"), number, {"p50 ms", "p50_ms", 2}, {"p99 ms", "p99_ms", 2}},
			charts: []chart{{
				file: "pages", title: "Reads against the size of the record, nothing else going on", x: transactions, y: ms, over: transactions,
				lines: times("page of 100 unspent outputs through HTTP", "balance of the busy address at a past second"),
			}},
		},
		{
			title: "Recording an EVM chain", from: "evm", match: map[string]string{"read": ""}, columns: recorded,
			charts: []chart{rate("evm-ingest", "Recording an EVM chain", "blocks, receipts and logs", "the same and traces")},
		},
		{
			title: "Pages of an EVM chain", from: "evm", match: map[string]string{"recorded": ""},
			text: "As fast as 16 connections can, and 500 requests a second.",
			columns: []column{
				of("read", "read"), number, {"requests/s", "per_second", 0}, {"p50 ms", "p50_ms", 2}, {"p99 ms", "p99_ms", 2}, {"CPU us", "cpu_us", 0},
				{"at 500/s: p50 ms", "paced_p50_ms", 2}, {"p99 ms", "paced_p99_ms", 2},
			},
			charts: []chart{{
				file: "evm-pages", title: "Pages against the size of the record, 500 requests/s", x: transactions, y: ms, over: transactions,
				lines: paced("latest transactions", "ERC-1155 transfers", "tokens of a collection"),
			}},
		},
		{
			title: "Several replicas", from: "replicas", match: map[string]string{"page": ""},
			text: "Services that answer the Data API from one PostgreSQL server, or from one that follows it, with all of them and the load on this machine, " +
				"whose processors bound the rate; so see also the requests for a second of processor time, of services and servers.",
			columns: []column{
				of("replicas", "replicas"), of("pages read from", "reads"), {"requests/s", "requests_per_second", 0}, {"p50 ms", "p50_ms", 2}, {"p99 ms", "p99_ms", 2},
				{"CPU us/request: service", "cpu_us", 0}, {"server", "server_cpu_us", 0}, {"standby", "standby_cpu_us", 0}, {"requests/CPU second", "requests_per_cpu_second", 0},
			},
			charts: []chart{{
				file: "replicas", title: "Several replicas on one database and one machine", x: "replicas", y: "requests/s", over: "replicas", straight: true,
				lines: []curve{
					{"from the server", map[string]string{"reads": "the server"}, "requests_per_second", 0, false},
					{"from a standby", map[string]string{"reads": "a standby"}, "requests_per_second", 2, false},
				},
			}},
		},
		{
			title: "Pages of one replica on PostgreSQL", from: "replicas", match: map[string]string{"replicas": ""},
			columns: []column{of("page", "page"), of("read from", "reads"), number, {"p50 ms", "p50_ms", 2}, {"p99 ms", "p99_ms", 2}},
		},
		{
			title: "As a node", from: realNodes,
			text: "What the service answers as a node does, beside a real node with the same history, in turns: times the node's rate, and parts of its " +
				"p50, p99 and CPU of a request. Again is the same call over and over, anew are calls of which no two have the same text.",
			columns: []column{
				of("call", "call"), {"node, requests/s", "node-req/s", 0}, {"service, requests/s", "service-req/s", 0},
				{"times the rate", "x-rate", 2}, {"p50", "x-p50", 2}, {"p99", "x-p99", 2}, {"CPU", "x-cpu", 2},
			},
			without: "It is not in the short form, as it begins with building a node: cd e2e && go test -run xxx -bench NodeAPI -benchtime 1x",
		},
	}
}

// shown is a section as the page has it.
type shown struct {
	Title, Text string
	Without     string
	Commands    []string
	Failures    []failure
	Columns     []string
	Rows        [][]string
	Plots       []image
}

type failure struct{ Command, Why string }

type image struct{ Title, File string }

// save writes the report into a folder: the figures first, from which the rest follows.
func (r *report) save(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, figures), append(text, '\n'), 0o644); err != nil { //nolint:gosec // it is to be read by everybody
		return err
	}
	return r.write(out)
}

// renew writes all but the figures anew.
func renew(out string) error {
	r, err := load(out)
	if err != nil {
		return err
	}
	return r.write(out)
}

func load(out string) (*report, error) {
	text, err := os.ReadFile(filepath.Join(out, figures))
	if err != nil {
		return nil, err
	}
	r := new(report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s in %s: %w", figures, out, err)
	}
	return r, nil
}

// write makes the page and its plots, and the part of docs/benchmarks.md.
func (r *report) write(out string) error {
	var parts []shown
	for _, s := range sections() {
		part, err := s.show(out, r.Results)
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	t, err := template.New(page).Parse(pageText)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, struct {
		Head  head
		Parts []shown
	}{r.Head, parts}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, page), b.Bytes(), 0o644); err != nil { //nolint:gosec // it is to be read by everybody
		return err
	}
	if filepath.Clean(out) != committed {
		return nil
	}
	return r.tell(benchmarks)
}

// figuresOf are those of a benchmark that match, medians where there are several of the
// same.
func figuresOf(all []result, from string, match map[string]string) ([]rig.Figures, error) {
	var runs []rig.Figures
	for _, r := range all {
		if r.Name != from {
			continue
		}
		for _, f := range r.Figures {
			if matches(f, match) {
				runs = append(runs, f)
			}
		}
	}
	return medians(runs)
}

// whyNot is the reason for which there are no figures of a benchmark.
func whyNot(all []result, from string) string {
	runs := 0
	for _, r := range all {
		if r.Name != from {
			continue
		}
		if first, _, _ := strings.Cut(r.Failure, "\n"); first != "" {
			return r.String() + " failed: " + first
		}
		runs++
	}
	benchmark := step{Name: from}.String()
	if runs == 0 {
		return benchmark + " is no part of this report"
	}
	return fmt.Sprintf("none of %d runs of %s was to", runs, benchmark)
}

// show makes tables and plots of what was measured. A plot of nothing is removed.
func (s *section) show(out string, all []result) (shown, error) {
	part := shown{Title: s.title, Text: s.text}
	if !slices.ContainsFunc(all, func(r result) bool { return r.Name == s.from }) {
		part.Without = strings.TrimSpace("Not measured: " + whyNot(all, s.from) + ". " + s.without)
	}
	for _, r := range all {
		if r.Name != s.from {
			continue
		}
		if r.Failure != "" {
			part.Failures = append(part.Failures, failure{r.String(), r.Failure})
		}
		if command := r.String(); !slices.Contains(part.Commands, command) {
			part.Commands = append(part.Commands, command)
		}
	}
	figures, err := figuresOf(all, s.from, s.match)
	if err != nil {
		return part, err
	}
	for _, c := range s.columns {
		part.Columns = append(part.Columns, c.title)
	}
	for _, f := range figures {
		var row []string
		for _, c := range s.columns {
			cell := "-"
			if value, ok := f.Values[c.key]; c.decimals < 0 {
				cell = f.Of[c.key]
			} else if ok {
				cell = strconv.FormatFloat(value, 'f', c.decimals, 64)
			}
			row = append(row, cell)
		}
		part.Rows = append(part.Rows, row)
	}
	for _, c := range s.charts {
		file := c.file + ".png"
		content, err := c.png(figures)
		if err != nil {
			return part, err
		}
		if content == nil {
			_ = os.Remove(filepath.Join(out, file)) // that of an earlier report
			continue
		}
		if err := os.WriteFile(filepath.Join(out, file), content, 0o644); err != nil { //nolint:gosec // it is to be read by everybody
			return part, err
		}
		part.Plots = append(part.Plots, image{c.title, file})
	}
	return part, nil
}

// medians of the values of figures that are of the same, in their first order.
func medians(runs []rig.Figures) (all []rig.Figures, err error) {
	values := make(map[string]map[string][]float64)
	var order []string
	for _, f := range runs {
		text, err := json.Marshal(f.Of) // whose keys are in order
		if err != nil {
			return nil, err
		}
		key := string(text)
		if values[key] == nil {
			values[key] = make(map[string][]float64)
			order = append(order, key)
			all = append(all, rig.Figures{Of: f.Of, Values: make(map[string]float64)})
		}
		for name, v := range f.Values {
			values[key][name] = append(values[key][name], v)
		}
	}
	for i, key := range order {
		for _, name := range slices.Sorted(maps.Keys(values[key])) {
			sorted := slices.Sorted(slices.Values(values[key][name]))
			if len(sorted) == 0 {
				return nil, fmt.Errorf("figures of %s: no values", key)
			}
			all[i].Values[name] = sorted[len(sorted)/2]
		}
	}
	return all, nil
}
