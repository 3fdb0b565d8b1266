// Command report runs the benchmarks and writes what they measured as one page with
// plots, as JSON, and as tables into docs/benchmarks.md. Each benchmark is a process of its own
// and tells its figures with -json; one that fails is in the report as failed, and the
// exit code is 1 then.
//
//	go -C bench run ./report          about nine minutes on two quiet processors
//	go -C bench run ./report -long    about two hours, medians of three runs
//	go -C bench run ./report -again   writes all of it anew from the JSON, without measuring
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quorate/bench/rig"
)

func main() {
	log.SetFlags(0)
	long := flag.Bool("long", false, "larger networks and chains, more messages, each benchmark three times")
	out := flag.String("out", committed, "`folder` for index.html, the plots and figures.json; only with the default one docs/benchmarks.md gets the figures, too")
	seed := flag.Uint64("seed", 1, "`number` from which networks and chains follow")
	again := flag.Bool("again", false, "write the report anew from the figures in its folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var failed int
	var err error
	if *again {
		err = renew(*out)
	} else {
		failed, err = run(ctx, *out, *long, *seed)
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
	if failed > 0 {
		log.Fatalf("%d benchmarks failed; the report says which, and why", failed)
	}
}

// committed is the folder of the report that docs/benchmarks.md shows.
var committed = filepath.Join("..", "docs", "report")

// head is what figures depend on besides what is measured.
type head struct {
	rig.Machine

	Form      string        `json:"form"`
	Seed      uint64        `json:"seed"`
	LoadAfter string        `json:"load_after"`
	Took      time.Duration `json:"took_ns"`
}

// report is all that was measured.
type report struct {
	Head    head     `json:"head"`
	Results []result `json:"results"`
}

// result is what came of a step.
type result struct {
	step

	Figures []rig.Figures `json:"figures"`
	Failure string        `json:"failure,omitempty"` // empty if it did not fail
}

// run measures all there is and writes the report, that of failures included.
func run(ctx context.Context, out string, long bool, seed uint64) (failed int, err error) {
	dir, err := os.MkdirTemp("", "quorate-report-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h := head{Form: "short", Seed: seed}
	if long {
		h.Form = "long, medians of three runs"
	}
	if h.Machine, err = rig.ThisMachine(ctx); err != nil {
		return 0, err
	}
	fmt.Println("building the benchmarks")
	steps := plan(long, seed)
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, s := range steps {
		if one := "./" + s.Name; !s.nodes() && !slices.Contains(args, one) {
			args = append(args, one)
		}
	}
	build := exec.CommandContext(ctx, "go", args...)
	if text, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the benchmarks, in the folder bench: %w\n%s", err, text)
	}
	var all []result
	begun := time.Now()
	var done time.Duration // of what was expected
	for i, s := range steps {
		fmt.Printf("[%d of %d, about %s to go] %s\n", i+1, len(steps), remaining(steps[i:], done, time.Since(begun)).Round(time.Second), s)
		r := s.run(ctx, dir)
		if r.Failure != "" {
			failed++
			fmt.Printf("failed: %s\n", r.Failure)
		}
		all = append(all, r)
		done += s.about
	}
	h.Took, h.LoadAfter = time.Since(begun).Round(time.Second), rig.Load()
	if err := (&report{h, all}).save(out); err != nil {
		return failed, err
	}
	fmt.Printf("%s is written, after %s\n", filepath.Join(out, page), h.Took)
	return failed, nil
}

// remaining is how long steps take if they are as much slower than on a quiet machine
// as those before, which were expected to take done and took elapsed.
func remaining(steps []step, done, elapsed time.Duration) (sum time.Duration) {
	for _, s := range steps {
		sum += s.about
	}
	if done > 0 {
		sum = time.Duration(float64(sum) * elapsed.Seconds() / done.Seconds())
	}
	return sum
}

// step is a run of a benchmark.
type step struct {
	Name  string        `json:"name"` // of a folder in bench, or realNodes
	Flags []string      `json:"flags"`
	about time.Duration // that it takes on two quiet processors
}

// realNodes is the name of a step that is Go's benchmarks in the folder e2e.
const realNodes = "e2e"

func (s step) nodes() bool { return s.Name == realNodes }

// String is the command, as one would enter it.
func (s step) String() string {
	command := "go -C bench run ./" + s.Name
	if s.nodes() {
		command = "cd e2e && go test"
	}
	return strings.Join(append([]string{command}, s.Flags...), " ")
}

// patience is how many times longer than expected a benchmark may take.
const patience = 10

func (s step) run(ctx context.Context, dir string) result {
	r := result{step: s}
	if ctx.Err() != nil { // there is a report of what was measured before
		r.Failure = "not run: interrupted"
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, patience*s.about)
	defer cancel()
	figures := filepath.Join(dir, "figures.json")
	if err := os.Remove(figures); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Failure = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, s.Name), append([]string{"-json", figures}, s.Flags...)...)
	var told, said bytes.Buffer
	if s.nodes() {
		cmd = exec.CommandContext(ctx, "go", append([]string{"test"}, s.Flags...)...)
		cmd.Dir, cmd.Stdout = filepath.Join("..", realNodes), &told
	}
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("given up after %s", patience*s.about)
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	switch {
	case err != nil:
	case s.nodes():
		r.Figures, err = ofGoBenchmarks(told.String())
	default:
		r.Figures, err = rig.ReadFigures(figures)
	}
	if err == nil && len(r.Figures) == 0 {
		err = errors.New("it measured nothing")
	}
	if err != nil {
		said := strings.TrimSpace(said.String())
		r.Failure = strings.TrimSpace(err.Error() + "\n" + said[max(0, len(said)-2000):])
	}
	return r
}

// ofGoBenchmarks reads lines of Go's benchmarks: a name, how often it was done, and
// values, each before its unit.
func ofGoBenchmarks(text string) (all []rig.Figures, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		_, name, _ := strings.Cut(fields[0], "/")
		if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of processors
			name = name[:i]
		}
		one := rig.Figures{Of: map[string]string{"call": name}, Values: make(map[string]float64)}
		for i := 2; i+1 < len(fields); i += 2 {
			if one.Values[fields[i+1]], err = strconv.ParseFloat(fields[i], 64); err != nil {
				return nil, fmt.Errorf("%s: %w", fields[0], err)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// plan is what is run.
func plan(long bool, seed uint64) (steps []step) {
	seeded := fmt.Sprintf("-seed=%d", seed)
	add := func(about time.Duration, name string, flags ...string) {
		steps = append(steps, step{name, flags, about})
	}
	if !long {
		add(20*time.Second, "blsbatch", "-runs=3")
		for _, faults := range []string{"-faults=0", "-faults=0.2"} {
			add(35*time.Second, "latency", "-validators=5,100,500,1000", "-c=1", "-rounds=30", "-warmup=15", faults, seeded)
		}
		add(30*time.Second, "service", "-n=30000", "warm")
		add(30*time.Second, "ingest", "-txs=5000", seeded)
		add(65*time.Second, "ingest", "-txs=20000", "-store=postgres", seeded)
		add(80*time.Second, "ingest", "-txs=100000", seeded)
		add(45*time.Second, "replicas", "-txs=10000", "-turns=2", "-for=1500ms", seeded)
		add(35*time.Second, "evm", "-txs=5000", "-read=400ms", seeded)
		add(40*time.Second, "evm", "-txs=20000", "-read=400ms", seeded)
		add(50*time.Second, "evm", "-txs=100000", "-read=400ms", seeded)
		return steps
	}
	for range 3 {
		add(20*time.Second, "blsbatch")
		for _, faults := range []string{"-faults=0", "-faults=0.1", "-faults=0.2"} {
			add(2*time.Minute, "latency", "-validators=5,50,100,300,500,1000", "-c=1", "-rounds=80", "-warmup=40", faults, seeded)
		}
		add(time.Minute, "service", "-n=200000", "warm")
		for _, size := range []struct {
			txs         string
			ingest, evm time.Duration
		}{
			{"-txs=20000", 40 * time.Second, 75 * time.Second},
			{"-txs=100000", 80 * time.Second, 85 * time.Second},
			{"-txs=500000", 5 * time.Minute, 2 * time.Minute},
			{"-txs=1000000", 10 * time.Minute, 3 * time.Minute},
		} {
			add(size.ingest, "ingest", size.txs, seeded)
			add(size.evm, "evm", size.txs, seeded)
		}
		add(3*time.Minute, "ingest", "-txs=50000", "-store=postgres", seeded)
		add(3*time.Minute, "replicas", seeded)
		add(4*time.Minute, realNodes, "-run", "xxx", "-bench", "NodeAPI", "-benchtime", "1x")
	}
	return steps
}
