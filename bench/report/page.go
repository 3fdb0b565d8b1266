package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"quorate/bench/rig"
)

const (
	page    = "benchmarks.md"
	folder  = "report" // beside the page
	figures = "figures.json"

	// The report is what stands between these lines of the page.
	begin = "<!-- figures of docs/report, written by make bench-short -->\n"
	end   = "<!-- end of figures -->\n"
)

// save writes the figures, and the page and plots that follow from them.
func (r *report) save(docs string) error {
	if err := os.MkdirAll(filepath.Join(docs, folder), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(docs, folder, figures), append(text, '\n'), 0o644); err != nil { //nolint:gosec // world-readable
		return err
	}
	return r.write(docs)
}

// load reads the figures of an earlier report.
func load(docs string) (*report, error) {
	text, err := os.ReadFile(filepath.Join(docs, folder, figures))
	if err != nil {
		return nil, err
	}
	r := new(report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading the figures of an earlier report: %w", err)
	}
	return r, nil
}

// write writes the plots, and the report into the page.
func (r *report) write(docs string) error {
	plots, err := r.plots()
	if err != nil {
		return err
	}
	for _, c := range charts() {
		file := filepath.Join(docs, folder, c.file)
		if plots[c.file] == nil {
			_ = os.Remove(file) // of an earlier report
		} else if err := os.WriteFile(file, plots[c.file], 0o644); err != nil { //nolint:gosec // world-readable
			return err
		}
	}
	name := filepath.Join(docs, page)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, after, err := split(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, slices.Concat(before, []byte(r.markdown(plots)), after), 0o644) //nolint:gosec // world-readable
}

// split returns what the page has before and after the report.
func split(text []byte) (before, after []byte, err error) {
	from, to := bytes.Index(text, []byte(begin)), bytes.Index(text, []byte(end))
	if from < 0 || to < from {
		return nil, nil, fmt.Errorf("the lines %q and %q are missing", begin, end)
	}
	return text[:from+len(begin)], text[to:], nil
}

// markdown returns the report.
func (r *report) markdown(plots map[string][]byte) string {
	var b strings.Builder
	versions := r.Go + ", avalanchego " + r.Library
	if r.Postgres != "" {
		versions += ", PostgreSQL " + r.Postgres
	}
	fmt.Fprintf(&b, "%s, %s form in %s: %s, %d processors, %s, %s, commit %s, seed %d, load %s before and %s after.\n",
		r.Date.Format(time.DateOnly), r.Form, r.Took, r.CPU, r.Processors, r.System, versions, r.Commit, r.Seed, r.Load, r.LoadAfter)
	for _, table := range r.tables() {
		fmt.Fprintf(&b, "\n### %s\n\n", table.Title)
		for _, command := range r.commands(table.Title) {
			fmt.Fprintf(&b, "    %s\n", command)
		}
		b.WriteString("\n")
		for _, c := range charts() {
			if c.table == table.Title && plots[c.file] != nil {
				fmt.Fprintf(&b, "![%s](%s/%s)\n\n", c.title, folder, c.file)
			}
		}
		b.WriteString(table.Head())
		for _, row := range table.Rows {
			b.WriteString(table.Line(row))
		}
	}
	for _, one := range r.Results {
		if one.Failure != "" {
			fmt.Fprintf(&b, "\n**Failed:** `%s`\n\n    %s\n", one, strings.ReplaceAll(one.Failure, "\n", "\n    "))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// commands returns the commands that measured a table.
func (r *report) commands(title string) (all []string) {
	for _, one := range r.Results {
		measured := slices.ContainsFunc(one.Tables, func(t *rig.Table) bool { return t.Title == title })
		if command := one.String(); measured && !slices.Contains(all, command) {
			all = append(all, command)
		}
	}
	return all
}

// tables returns the tables of all results. Rows of tables with the same title form one
// table, and rows with the same labels one row, of medians.
func (r *report) tables() (all []*rig.Table) {
	type key struct{ title, labels string }
	measured := make(map[key][][]float64)
	for _, one := range r.Results {
		for _, table := range one.Tables {
			i := slices.IndexFunc(all, func(t *rig.Table) bool { return t.Title == table.Title })
			if i < 0 {
				i = len(all)
				all = append(all, &rig.Table{Title: table.Title, Labels: table.Labels, Columns: table.Columns})
			}
			for _, row := range table.Rows {
				k := key{table.Title, strings.Join(row.Labels, "\x00")}
				if measured[k] == nil {
					all[i].Rows = append(all[i].Rows, rig.Row{Labels: row.Labels})
				}
				measured[k] = append(measured[k], row.Values)
			}
		}
	}
	for _, table := range all {
		for i, row := range table.Rows {
			runs := measured[key{table.Title, strings.Join(row.Labels, "\x00")}]
			for column := range table.Columns {
				values := make([]float64, len(runs))
				for run := range runs {
					values[run] = runs[run][column]
				}
				table.Rows[i].Values = append(table.Rows[i].Values, rig.Quantile(values, 0.5))
			}
		}
	}
	return all
}

// chart is a plot of columns of a table over the label x, with a line for each column and
// each value of the label by.
type chart struct {
	file, title, table string
	x, by              string
	columns            []string
	only               []string // if not empty, the values of by that are drawn
	where              string   // if not empty, a label that rows must have
	unit               string
	logarithmic        bool
}

func charts() []chart {
	const rounds, transactions, rate = "Signing rounds against the floor", "transactions", "transactions/s"
	return []chart{
		{file: "latency-p50.png", title: "Quorum latency, median", table: rounds, x: "validators", by: "faulty", columns: []string{"p50 ms", "floor p50 ms"}, unit: "ms", logarithmic: true},
		{file: "latency-p99.png", title: "Quorum latency, 99th percentile", table: rounds, x: "validators", by: "faulty", columns: []string{"p99 ms", "floor p99 ms"}, unit: "ms", logarithmic: true},
		{file: "cpu.png", title: "Processor time of the service for a message", table: rounds, x: "validators", by: "faulty", columns: []string{"CPU ms/message"}, unit: "ms", logarithmic: true},
		{file: "ingest.png", title: "Indexing the P-, X- and C-Chain", table: "Indexing the P-, X- and C-Chain", x: transactions, by: "store", columns: []string{rate}, unit: rate, logarithmic: true},
		{
			file: "pages.png", title: "Pages by the size of the index, Pebble, 500 requests/s", table: "Pages of the P- and X-Chain", x: transactions, by: "page", where: "Pebble",
			columns: []string{"at 500/s: p50 ms", "at 500/s: p99 ms"}, only: []string{"100 unspent outputs, P-Chain", "balances at a past second, P-Chain"}, unit: "ms", logarithmic: true,
		},
		{file: "evm-ingest.png", title: "Indexing an EVM chain", table: "Indexing EVM chains", x: transactions, columns: []string{rate}, unit: rate, logarithmic: true},
		{
			file: "evm-pages.png", title: "Pages by the size of the index, 500 requests/s", table: "Pages of an EVM chain", x: transactions, by: "page",
			columns: []string{"at 500/s: p50 ms", "at 500/s: p99 ms"}, only: []string{"latest transactions", "ERC-1155 transfers", "tokens of a collection"}, unit: "ms", logarithmic: true,
		},
		{file: "replicas.png", title: "Replicas on one PostgreSQL server and one machine", table: "Replicas on one PostgreSQL server", x: "replicas", by: "pages read from", columns: []string{"requests/s"}, unit: "requests/s"},
	}
}

// plots draws the charts for which there are figures, by file.
func (r *report) plots() (map[string][]byte, error) {
	plots := make(map[string][]byte)
	for _, table := range r.tables() {
		for _, c := range charts() {
			if c.table != table.Title {
				continue
			}
			lines, err := c.lines(table)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.file, err)
			}
			if len(lines) == 0 {
				continue
			}
			plot := rig.Plot{Title: c.title, X: c.x, Y: c.unit, Logarithmic: c.logarithmic, Lines: lines}
			if plots[c.file], err = plot.PNG(); err != nil {
				return nil, err
			}
		}
	}
	return plots, nil
}

func (c *chart) lines(table *rig.Table) (lines []rig.Line, err error) {
	x, by := slices.Index(table.Labels, c.x), slices.Index(table.Labels, c.by)
	if x < 0 {
		return nil, fmt.Errorf("table %q has no label %q", table.Title, c.x)
	}
	var series []string
	points := make(map[string]plotter.XYs) // by name of the line
	for _, row := range table.Rows {
		of := ""
		if by >= 0 {
			of = row.Labels[by]
		}
		if len(c.only) > 0 && !slices.Contains(c.only, of) || c.where != "" && !slices.Contains(row.Labels, c.where) {
			continue
		}
		if !slices.Contains(series, of) {
			series = append(series, of)
		}
		at, err := strconv.ParseFloat(row.Labels[x], 64)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", table.Title, err)
		}
		for i, column := range table.Columns {
			if slices.Contains(c.columns, column.Title) {
				name := of + "\x00" + column.Title
				points[name] = append(points[name], plotter.XY{X: at, Y: row.Values[i]})
			}
		}
	}
	for i, of := range series {
		for j, column := range c.columns {
			xys := points[of+"\x00"+column]
			if len(xys) == 0 {
				continue
			}
			slices.SortFunc(xys, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
			name := column
			if c.by != "" {
				name = fmt.Sprintf("%s %s: %s", c.by, of, column)
			}
			lines = append(lines, rig.Line{Name: name, Points: xys, Color: i, Dashed: j > 0})
		}
	}
	return lines, nil
}
