// Command report runs the benchmarks and writes what they measured as one page with
// plots. Each benchmark is a process of its own and tells its figures with -json; one
// that fails is in the report as failed, and the exit code is 1 then.
//
//	go run ./bench/report          about eight minutes on two quiet processors
//	go run ./bench/report -long    about an hour and a half, medians of three runs
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
	"strings"
	"syscall"
	"time"

	"quorate/bench/rig"
)

func main() {
	log.SetFlags(0)
	long := flag.Bool("long", false, "larger networks and chains, more messages, each benchmark three times")
	out := flag.String("out", filepath.Join("docs", "report"), "`folder` for index.html and the plots")
	seed := flag.Uint64("seed", 1, "`number` from which networks and chains follow")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, *out, *long, *seed)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	if failed > 0 {
		log.Fatalf("%d benchmarks failed; the report says which, and why", failed)
	}
}

// result is what came of a step.
type result struct {
	step
	figures []rig.Figures
	failure string // empty if it did not fail
}

// run measures all there is and writes the report, that of failures included.
func run(ctx context.Context, out string, long bool, seed uint64) (failed int, err error) {
	dir, err := os.MkdirTemp("", "quorate-report-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h, err := headOf(ctx, long, seed)
	if err != nil {
		return 0, err
	}
	fmt.Println("building the benchmarks")
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator),
		"./bench/latency", "./bench/service", "./bench/ingest", "./bench/evm")
	if text, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the benchmarks, in the folder of the module: %w\n%s", err, text)
	}
	steps := plan(long, seed)
	var all []result
	begun := time.Now()
	var done time.Duration // of what was expected
	for i, s := range steps {
		fmt.Printf("[%d of %d, about %s to go] %s\n", i+1, len(steps), remaining(steps[i:], done, time.Since(begun)).Round(time.Second), s)
		r := s.run(ctx, dir)
		if r.failure != "" {
			failed++
			fmt.Printf("failed: %s\n", r.failure)
		}
		all = append(all, r)
		done += s.about
	}
	h.Took, h.LoadAfter = time.Since(begun).Round(time.Second), rig.Load()
	if err := write(out, h, all); err != nil {
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
	name  string // of a folder in bench
	flags []string
	about time.Duration // that it takes on two quiet processors
}

// String is the command, as one would enter it.
func (s step) String() string {
	return "go run ./bench/" + s.name + " " + strings.Join(s.flags, " ")
}

// patience is how many times longer than expected a benchmark may take.
const patience = 10

func (s step) run(ctx context.Context, dir string) result {
	r := result{step: s}
	if ctx.Err() != nil { // there is a report of what was measured before
		r.failure = "not run: interrupted"
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, patience*s.about)
	defer cancel()
	figures := filepath.Join(dir, "figures.json")
	if err := os.Remove(figures); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.failure = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, s.name), append([]string{"-json", figures}, s.flags...)...)
	var said bytes.Buffer
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
	if err == nil {
		r.figures, err = rig.ReadFigures(figures)
	}
	if err == nil && len(r.figures) == 0 {
		err = errors.New("it measured nothing")
	}
	if err != nil {
		said := strings.TrimSpace(said.String())
		r.failure = strings.TrimSpace(err.Error() + "\n" + said[max(0, len(said)-2000):])
	}
	return r
}

// plan is what is run.
func plan(long bool, seed uint64) (steps []step) {
	seeded := fmt.Sprintf("-seed=%d", seed)
	add := func(about time.Duration, name string, flags ...string) {
		steps = append(steps, step{name, flags, about})
	}
	if !long {
		for _, faults := range []string{"-faults=0", "-faults=0.2"} {
			add(45*time.Second, "latency", "-validators=5,100,500,1000", "-c=1", "-rounds=40", "-warmup=20", faults, seeded)
		}
		add(40*time.Second, "service", "-n=50000", "warm")
		add(30*time.Second, "ingest", "-txs=5000", "-sqlite=0", seeded)
		add(40*time.Second, "ingest", "-txs=20000", "-sqlite=0", seeded)
		add(80*time.Second, "ingest", "-txs=100000", "-sqlite=0", seeded)
		add(70*time.Second, "evm", "-txs=5000", seeded)
		add(75*time.Second, "evm", "-txs=20000", seeded)
		add(85*time.Second, "evm", "-txs=100000", seeded)
		return steps
	}
	for range 3 {
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
			add(size.ingest, "ingest", size.txs, "-sqlite=0", seeded)
			add(size.evm, "evm", size.txs, seeded)
		}
	}
	return steps
}
