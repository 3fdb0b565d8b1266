package main

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"quorate/bench/rig"
)

// page is the name of the report's file.
const page = "index.html"

//go:embed page.html
var pageText string

// section is a part of the report: figures of one benchmark.
type section struct {
	title, text string
	from        string // the benchmark
	match       map[string]string
	columns     []column
	charts      []chart
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
			title: "Recording the P-, X- and C-Chain", from: "ingest", match: map[string]string{"while": ""}, columns: recorded,
			text:   "Through the service's own pipelines into its own store, with the simulated node on the same processors.",
			charts: []chart{rate("ingest", "Recording", "P-Chain blocks and L1s, Pebble", "all chains and outputs, Pebble")},
		},
		{
			title: "Pages of outputs, and balances", from: "ingest", match: map[string]string{"recorded": ""},
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
	}
}

// shown is a section as the page has it.
type shown struct {
	Title, Text string
	Commands    []string
	Failures    []failure
	Columns     []string
	Rows        [][]string
	Plots       []image
}

type failure struct{ Command, Why string }

type image struct {
	Title, File string
	Data        template.URL
}

// write makes the folder with the page and its plots.
func write(out string, h head, all []result) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var parts []shown
	for _, s := range sections() {
		part, err := s.show(out, all)
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
	}{h, parts}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, page), b.Bytes(), 0o644) //nolint:gosec // it is to be read by everybody
}

// show makes tables and plots of what was measured. A plot of nothing is removed.
func (s *section) show(out string, all []result) (shown, error) {
	part := shown{Title: s.title, Text: s.text}
	var runs []rig.Figures
	for _, r := range all {
		if r.name != s.from {
			continue
		}
		if r.failure != "" {
			part.Failures = append(part.Failures, failure{r.String(), r.failure})
		}
		if command := r.String(); !slices.Contains(part.Commands, command) {
			part.Commands = append(part.Commands, command)
		}
		for _, f := range r.figures {
			if matches(f, s.match) {
				runs = append(runs, f)
			}
		}
	}
	figures, err := medians(runs)
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
		data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(content)
		part.Plots = append(part.Plots, image{c.title, file, template.URL(data)}) //nolint:gosec // made above
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
