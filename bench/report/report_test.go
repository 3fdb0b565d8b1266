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
	ran := step{name: "latency", flags: []string{"-validators=5,1000"}}
	require.NoError(t, write(dir, head{Commit: "c0ffee", Seed: 77}, []result{
		{step: ran, figures: []rig.Figures{
			{Of: of("1000", "0"), Values: map[string]float64{"p50_ms": 94, "floor_p50_ms": 61.6, "cpu_ms": 61}},
			{Of: of("5", "0"), Values: map[string]float64{"p50_ms": 75, "floor_p50_ms": 72, "cpu_ms": 3}},
		}},
		{step: step{name: "evm", flags: []string{"-txs=20"}}, failure: "the chain is <short>"},
	}))
	content, err := os.ReadFile(filepath.Join(dir, page))
	require.NoError(t, err)
	for _, want := range []string{
		"c0ffee", "<td>77", "go run ./bench/latency -validators=5,1000", "<td>1000<td>0<td>62<td>-<td>94",
		"<strong>Failed:</strong> go run ./bench/evm -txs=20", "the chain is &lt;short&gt;", "data:image/png;base64,iVBOR", "Several replicas", "Not measured",
	} {
		require.Contains(t, string(content), want)
	}
	require.NotContains(t, string(content), "#ZgotmplZ", "the template refused something")
	plot, err := os.ReadFile(filepath.Join(dir, "latency-p50.png"))
	require.NoError(t, err)
	drawn, err := png.Decode(bytes.NewReader(plot))
	require.NoError(t, err)
	require.Greater(t, drawn.Bounds().Dx(), 500)
	require.NoFileExists(t, filepath.Join(dir, "evm-pages.png"), "a plot of nothing")
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
			r := step{name: "fake", about: about}.run(context.Background(), dir)
			if test.failure == "" {
				require.Empty(t, r.failure)
				require.Equal(t, []rig.Figures{{Of: map[string]string{"validators": "5"}, Values: map[string]float64{"p50_ms": 1}}}, r.figures)
				return
			}
			require.Contains(t, r.failure, test.failure)
			require.Empty(t, r.figures)
		})
	}
}

// TestInterrupted runs nothing any more.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, "not run: interrupted", step{name: "fake", about: time.Second}.run(ctx, t.TempDir()).failure)
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
