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

// TestMedians puts runs of the same together, and nothing else.
func TestMedians(t *testing.T) {
	one := func(txs string, ms float64) rig.Figures {
		return rig.Figures{Of: map[string]string{"transactions": txs}, Values: map[string]float64{"p50_ms": ms}}
	}
	got, err := medians([]rig.Figures{one("10", 3), one("20", 7), one("10", 1), one("10", 2)})
	require.NoError(t, err)
	require.Equal(t, []rig.Figures{one("10", 2), one("20", 7)}, got)
}

// TestReport writes what was measured and what was not.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	of := func(validators string, faults string) map[string]string {
		return map[string]string{"validators": validators, "faults_%": faults}
	}
	ran := step{Name: "latency", Flags: []string{"-validators=5,1000"}}
	r := report{head{Machine: rig.Machine{Commit: "c0ffee", Postgres: "15.14"}, Seed: 77}, []result{
		{step: ran, Figures: []rig.Figures{
			{Of: of("1000", "0"), Values: map[string]float64{"p50_ms": 94, "floor_p50_ms": 61.6, "cpu_ms": 61}},
			{Of: of("5", "0"), Values: map[string]float64{"p50_ms": 75, "floor_p50_ms": 72, "cpu_ms": 3}},
		}},
		{step: step{Name: "replicas"}, Figures: []rig.Figures{
			{Of: map[string]string{"replicas": "1", "reads": "the server"}, Values: map[string]float64{"requests_per_second": 900, "p50_ms": 1, "p99_ms": 9.25, "cpu_us": 700}},
			{Of: map[string]string{"replicas": "2", "reads": "the server"}, Values: map[string]float64{"requests_per_second": 950}},
			{Of: map[string]string{"page": "unspent outputs", "reads": "the server", "transactions": "10"}, Values: map[string]float64{"p50_ms": 7, "p99_ms": 8}},
		}},
		{step: step{Name: "evm", Flags: []string{"-txs=20"}}, Failure: "the chain is <short>"},
	}}
	require.NoError(t, r.save(dir))
	content, err := os.ReadFile(filepath.Join(dir, page))
	require.NoError(t, err)
	for _, want := range []string{
		"c0ffee", ", PostgreSQL 15.14\n", "<td>77", "go -C bench run ./latency -validators=5,1000", "<td>1000<td>0<td>62<td>-<td>94",
		"<strong>Failed:</strong> go -C bench run ./evm -txs=20", "the chain is &lt;short&gt;", `src="latency-p50.png"`, "<td>1<td>the server<td>900<td>1.00<td>9.25<td>700<td>-",
		"<p>Not measured: go -C bench run ./blsbatch is no part of this report.</p>", "cd e2e &amp;&amp; go test is no part of this report. It is not in the short form",
	} {
		require.Contains(t, string(content), want)
	}
	require.Contains(t, string(content), "<tr><td>unspent outputs<td>the server<td>10<td>7.00<td>8.00\n")
	require.NotContains(t, string(content), "<tr><td><td>", "a row of what the table is not about")
	require.NotContains(t, string(content), "#ZgotmplZ", "the template refused something")
	plot, err := os.ReadFile(filepath.Join(dir, "latency-p50.png"))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "replicas.png"))
	drawn, err := png.Decode(bytes.NewReader(plot))
	require.NoError(t, err)
	require.Greater(t, drawn.Bounds().Dx(), 500)
	require.NoFileExists(t, filepath.Join(dir, "evm-pages.png"), "a plot of nothing")

	require.NoError(t, os.Remove(filepath.Join(dir, page)))
	require.NoError(t, renew(dir))
	again, err := os.ReadFile(filepath.Join(dir, page))
	require.NoError(t, err)
	require.Equal(t, string(content), string(again))

	readme := filepath.Join(dir, "README.md")
	require.Error(t, r.tell(readme))
	require.NoError(t, os.WriteFile(readme, []byte("no place"), 0o600))
	require.ErrorContains(t, r.tell(readme), "no place for figures")
	require.NoError(t, os.WriteFile(readme, []byte("before\n"+figuresBegin+"old\n"+figuresEnd+"after\n"), 0o600))
	require.NoError(t, r.tell(readme))
	content, err = os.ReadFile(readme)
	require.NoError(t, err)
	require.Regexp(t, `^before\n<!--.*-->\n.*, PostgreSQL 15\.14, commit c0ffee, seed 77`, string(content))
	require.Contains(t, string(content), "| 1000 | 0 % | 62 / - | 94 / - | 61.0 | - |")
	require.Contains(t, string(content), "1, from the server: 900/s, 1.00 / 9.25 ms, 700 us; 2, from the server: 950/s, - / - ms, - us |")
	require.NotContains(t, string(content), "7.00 / 8.00")
	require.Contains(t, string(content), "| not measured: go -C bench run ./ingest is no part of this report |")
	require.NotContains(t, string(content), "not measured |", "without a reason")
	require.Equal(t, "none of 1 runs of go -C bench run ./latency was to", whyNot(r.Results, "latency"))
	require.Regexp(t, `EVM chain with traces \| not measured: go -C bench run ./evm -txs=20 failed: the chain is <short> \|(.|\n)*<!-- end of figures -->\nafter\n$`, string(content))
}

// TestStep runs benchmarks that are none.
func TestStep(t *testing.T) {
	for _, test := range []struct{ name, script, failure string }{
		{"measures", `echo '{"of":{"validators":"5"},"values":{"p50_ms":1}}' > "$2"`, ""},
		{"fails", `echo out of luck >&2; exit 3`, "exit status 3\nout of luck"},
		{"measures nothing", `: > "$2"`, "it measured nothing"},
		{"is cut off", `echo '{"of":' > "$2"`, "unexpected EOF"},
		{"writes nothing", `exit 0`, "no such file"},
		{"hangs", `exec sleep 60`, "given up after 500ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "fake"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o700))
			about := 6 * time.Second
			if test.name == "hangs" {
				about = 50 * time.Millisecond
			}
			r := step{Name: "fake", about: about}.run(context.Background(), dir)
			if test.failure == "" {
				require.Empty(t, r.Failure)
				require.Equal(t, []rig.Figures{{Of: map[string]string{"validators": "5"}, Values: map[string]float64{"p50_ms": 1}}}, r.Figures)
				return
			}
			require.Contains(t, r.Failure, test.failure)
			require.Empty(t, r.Figures)
		})
	}
}

// TestInterrupted runs nothing any more.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, "not run: interrupted", step{Name: "fake", about: time.Second}.run(ctx, t.TempDir()).Failure)
}

// TestRemaining expects a slow machine to stay slow.
func TestRemaining(t *testing.T) {
	steps := []step{{about: time.Minute}, {about: 30 * time.Second}}
	require.Equal(t, 90*time.Second, remaining(steps, 0, 0))
	require.Equal(t, 180*time.Second, remaining(steps, time.Minute, 2*time.Minute))
}

// TestPlanIsShort holds the short form to the time that it promises.
func TestPlanIsShort(t *testing.T) {
	require.Less(t, remaining(plan(false, 1), 0, 0), 9*time.Minute)
	require.Greater(t, len(plan(true, 1)), len(plan(false, 1)))
}

// TestGoBenchmarks reads what go test -bench prints.
func TestGoBenchmarks(t *testing.T) {
	got, err := ofGoBenchmarks("goos: linux\nBenchmarkNodeAPI/avm.getUTXOs/again-2 \t 1\t 7218 node-req/s\t 5.25 x-rate\nPASS\nok  e2e 3s\n")
	require.NoError(t, err)
	require.Equal(t, []rig.Figures{{Of: map[string]string{"call": "avm.getUTXOs/again"}, Values: map[string]float64{"node-req/s": 7218, "x-rate": 5.25}}}, got)
	_, err = ofGoBenchmarks("BenchmarkNodeAPI/x-2 1 many node-req/s")
	require.Error(t, err)
}

// TestBenchmarksHaveTheReport holds the figures of docs/benchmarks.md to those of the report in docs.
func TestBenchmarksHaveTheReport(t *testing.T) {
	r, err := load(filepath.Join("..", committed))
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join("..", benchmarks))
	require.NoError(t, err)
	got, _, _, err := r.place(readme)
	require.NoError(t, err)
	want, err := r.part()
	require.NoError(t, err)
	require.Equal(t, want, got, "go -C bench run ./report -again puts them there")
	for _, one := range r.Results {
		require.Empty(t, one.Failure, one.String())
	}
	for _, s := range sections() {
		for _, c := range s.charts {
			if all, err := figuresOf(r.Results, s.from, s.match); err == nil && len(all) > 0 {
				require.FileExists(t, filepath.Join("..", committed, c.file+".png"))
			}
		}
	}
	size, err := rig.Size(filepath.Join("..", committed))
	require.NoError(t, err)
	require.Less(t, size, int64(2<<20))
}
