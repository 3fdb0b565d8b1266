package main

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/bench/rig"
)

// indexing returns a table with one row.
func indexing(n string, rate float64) []*rig.Table {
	return []*rig.Table{{
		Title: "Indexing EVM chains", Labels: []string{"transactions"}, Columns: []rig.Column{{Title: "transactions/s", Decimals: 1}},
		Rows: []rig.Row{{Labels: []string{n}, Values: []float64{rate}}},
	}}
}

// TestTables joins the tables of several runs: rows with the same labels become one.
func TestTables(t *testing.T) {
	r := report{Results: []result{
		{Tables: indexing("10", 3)}, {Tables: indexing("20", 7)}, {Failure: "too slow"}, {Tables: indexing("10", 1)}, {Tables: indexing("10", 2)},
	}}
	tables := r.tables()
	require.Len(t, tables, 1)
	require.Equal(t, []rig.Row{{Labels: []string{"10"}, Values: []float64{2}}, {Labels: []string{"20"}, Values: []float64{7}}}, tables[0].Rows)
}

// TestReport writes what was measured and what failed, and reads it again.
func TestReport(t *testing.T) {
	docs := t.TempDir()
	r := &report{
		Machine: rig.Machine{Commit: "c0ffee", Postgres: "15.14"}, Seed: 77, Took: time.Minute,
		Results: []result{
			{step: step{Name: "evm", Flags: []string{"-txs=5"}}, Tables: indexing("5", 3.25)},
			{step: step{Name: "evm", Flags: []string{"-txs=1000"}}, Tables: indexing("1000", 90)},
			{step: step{Name: "evm", Flags: []string{"-txs=20"}}, Failure: "the chain is short\nuse more"},
		},
	}
	require.Error(t, r.save(docs), "without a page")
	name := filepath.Join(docs, page)
	require.NoError(t, os.WriteFile(name, []byte("no report"), 0o600))
	require.ErrorContains(t, r.save(docs), "are missing")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600))
	stale := filepath.Join(docs, folder, "evm-pages.png")
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	require.NoError(t, r.save(docs))
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Regexp(t, `^before\n<!--.*-->\n.*, PostgreSQL 15\.14, commit c0ffee, seed 77`, string(content))
	require.Contains(t, string(content), "    go -C bench run ./evm -txs=5\n    go -C bench run ./evm -txs=1000\n\n![Indexing an EVM chain](report/evm-ingest.png)\n\n"+
		"| transactions | transactions/s |\n|---|---|\n| 5 | 3.2 |\n| 1000 | 90.0 |\n")
	require.Contains(t, string(content), "**Failed:** `go -C bench run ./evm -txs=20`\n\n    the chain is short\n    use more\n")
	require.Regexp(t, `<!-- end of figures -->\nafter\n$`, string(content))
	require.NotContains(t, string(content), "old\n")
	require.NoFileExists(t, stale)
	plot, err := os.ReadFile(filepath.Join(docs, folder, "evm-ingest.png"))
	require.NoError(t, err)
	drawn, err := png.Decode(bytes.NewReader(plot))
	require.NoError(t, err)
	require.Greater(t, drawn.Bounds().Dx(), 500)
	again, err := load(docs)
	require.NoError(t, err)
	require.NoError(t, again.write(docs))
	rewritten, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(content), string(rewritten))
}

// TestStep runs programs in place of benchmarks.
func TestStep(t *testing.T) {
	for _, test := range []struct{ name, script, failure string }{
		{"measures", `echo '{"title":"Rounds","labels":["validators"],"columns":[],"rows":[{"labels":["5"],"values":[]}]}' > "$2"`, ""},
		{"fails", `echo out of luck >&2; exit 3`, "exit status 3\nout of luck"},
		{"measures nothing", `: > "$2"`, "it measured nothing"},
		{"is cut off", `echo '{"title":' > "$2"`, "unexpected EOF"},
		{"writes nothing", `exit 0`, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "fake"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o700))
			r := step{Name: "fake"}.run(context.Background(), dir)
			if test.failure != "" {
				require.Contains(t, r.Failure, test.failure)
				return
			}
			require.Empty(t, r.Failure)
			require.Len(t, r.Tables, 1)
			require.Equal(t, "Rounds", r.Tables[0].Title)
		})
	}
}

// TestStopped runs a benchmark that does not end.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fake"), []byte("#!/bin/sh\nexec sleep 60\n"), 0o700))
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	require.Contains(t, step{Name: "fake"}.run(ctx, dir).Failure, "stopped: ")
}

// TestPlan names folders of this module.
func TestPlan(t *testing.T) {
	for _, s := range append(plan(false, 1), plan(true, 1)...) {
		if s.Name != realNode {
			require.FileExists(t, filepath.Join("..", s.Name, "main.go"))
		}
	}
}

// TestGoBenchmarks reads the output of go test -bench.
func TestGoBenchmarks(t *testing.T) {
	got, err := goBenchmarks("goos: linux\nBenchmarkNodeAPI/avm.getUTXOs/again-2 \t 1\t 7218 node-req/s\t 5.25 x-rate\nPASS\nok  e2e 3s\n")
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, []rig.Row{{Labels: []string{"avm.getUTXOs/again"}, Values: []float64{7218, 5.25}}}, got[0].Rows)
	require.Equal(t, "x-rate", got[0].Columns[1].Title)
	_, err = goBenchmarks("BenchmarkNodeAPI/x-2 1 many node-req/s")
	require.Error(t, err)
}

// TestPageHasTheReport compares docs/benchmarks.md with the figures beside it.
func TestPageHasTheReport(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	r, err := load(docs)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(docs, page))
	require.NoError(t, err)
	before, after, err := split(content)
	require.NoError(t, err)
	plots, err := r.plots()
	require.NoError(t, err)
	require.Equal(t, r.markdown(plots), string(content[len(before):len(content)-len(after)]), "run: go -C bench run ./report -again")
	for file := range plots {
		require.FileExists(t, filepath.Join(docs, folder, file))
	}
	for _, one := range r.Results {
		require.Empty(t, one.Failure, one.String())
	}
}
