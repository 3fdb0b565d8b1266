// Command report runs the benchmarks in a short or a long form and writes what they measured
// into docs/benchmarks.md, with plots and the figures as JSON in docs/report. Each benchmark
// is a process of its own. If one fails, the report says so and the exit code is 1.
//
//	go -C bench run ./report          about five minutes on two quiet processors
//	go -C bench run ./report -long    about two hours, medians of three runs
//	go -C bench run ./report -again   writes page and plots from the figures, without measuring
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"quorate/bench/rig"
)

func main() {
	log.SetFlags(0)
	long := flag.Bool("long", false, "larger networks and chains, more messages, each benchmark three times, and a real node")
	docs := flag.String("docs", filepath.Join("..", "docs"), "`folder` of benchmarks.md and of the folder report")
	seed := flag.Uint64("seed", 1, "`number` that determines networks and chains")
	again := flag.Bool("again", false, "write page and plots from the figures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *docs, *long, *again, *seed)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, docs string, long, again bool, seed uint64) error {
	if again {
		r, err := load(docs)
		if err != nil {
			return err
		}
		return r.write(docs)
	}
	r, err := measure(ctx, plan(long, seed), long, seed)
	if err != nil {
		return err
	}
	if err := r.save(docs); err != nil {
		return err
	}
	fmt.Printf("%s is written, after %s\n", filepath.Join(docs, page), r.Took)
	var failed error
	for _, one := range r.Results {
		if one.Failure != "" {
			failed = errors.Join(failed, fmt.Errorf("%s failed: %s", one, one.Failure))
		}
	}
	return failed
}

// report is what the benchmarks measured.
type report struct {
	rig.Machine

	Form      string        `json:"form"`
	Seed      uint64        `json:"seed"`
	LoadAfter string        `json:"load_after"`
	Took      time.Duration `json:"took_ns"`
	Results   []result      `json:"results"`
}

// result is what one step measured.
type result struct {
	step

	Tables  []*rig.Table `json:"tables"`
	Failure string       `json:"failure,omitempty"`
}

// measure runs all steps, also after one has failed.
func measure(ctx context.Context, steps []step, long bool, seed uint64) (r *report, err error) {
	dir, err := os.MkdirTemp("", "quorate-report-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r = &report{Form: "short", Seed: seed}
	if long {
		r.Form = "long, medians of three runs"
	}
	if r.Machine, err = rig.ThisMachine(ctx); err != nil {
		return nil, err
	}
	fmt.Println("building the benchmarks")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the benchmarks: %w\n%s", err, text)
	}
	begun := time.Now()
	for i, s := range steps {
		fmt.Printf("[%d of %d, after %s] %s\n", i+1, len(steps), time.Since(begun).Round(time.Second), s)
		one := s.run(ctx, dir)
		if one.Failure != "" {
			fmt.Printf("failed: %s\n", one.Failure)
		}
		r.Results = append(r.Results, one)
	}
	r.Took, r.LoadAfter = time.Since(begun).Round(time.Second), rig.LoadAverage()
	return r, nil
}

// step is one run of a benchmark.
type step struct {
	Name  string   `json:"name"` // a folder of this module, or realNode
	Flags []string `json:"flags"`
}

// realNode is the name of the step that runs Go benchmarks in the folder e2e.
const realNode = "e2e"

// String returns the command.
func (s step) String() string {
	command := "go -C bench run ./" + s.Name
	if s.Name == realNode {
		command = "go -C e2e test"
	}
	return strings.Join(append([]string{command}, s.Flags...), " ")
}

// limit bounds the time of a step.
const limit = 30 * time.Minute

func (s step) run(ctx context.Context, dir string) result {
	r := result{step: s}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	figures := filepath.Join(dir, "figures.json")
	if err := os.Remove(figures); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Failure = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, s.Name), append([]string{"-json", figures}, s.Flags...)...)
	var printed, failed bytes.Buffer
	if s.Name == realNode {
		cmd = exec.CommandContext(ctx, "go", append([]string{"-C", filepath.Join("..", realNode), "test"}, s.Flags...)...)
		cmd.Stdout = &printed
	}
	cmd.Stderr = &failed
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("stopped: %w", ctx.Err())
	case err != nil:
	case s.Name == realNode:
		r.Tables, err = goBenchmarks(printed.String())
	default:
		r.Tables, err = rig.ReadTables(figures)
	}
	if err == nil && len(r.Tables) == 0 {
		err = errors.New("it measured nothing")
	}
	if err != nil {
		text := strings.TrimSpace(failed.String())
		r.Failure = strings.TrimSpace(err.Error() + "\n" + text[max(0, len(text)-2000):])
	}
	return r
}

// goBenchmarks reads the output of go test -bench: lines with a name, a count, and values
// that each stand before their unit.
func goBenchmarks(text string) ([]*rig.Table, error) {
	table := &rig.Table{Title: "Node APIs beside a real node", Labels: []string{"call"}}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		_, name, _ := strings.Cut(fields[0], "/")
		if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of processors
			name = name[:i]
		}
		row := rig.Row{Labels: []string{name}}
		table.Columns = nil
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", fields[0], err)
			}
			row.Values = append(row.Values, value)
			table.Columns = append(table.Columns, rig.Column{Title: fields[i+1], Decimals: 2})
		}
		table.Rows = append(table.Rows, row)
	}
	if len(table.Rows) == 0 {
		return nil, nil
	}
	return []*rig.Table{table}, nil
}

// plan returns the steps of a form.
func plan(long bool, seed uint64) (steps []step) {
	seeded := fmt.Sprintf("-seed=%d", seed)
	add := func(name string, flags ...string) {
		steps = append(steps, step{name, append([]string{seeded}, flags...)})
	}
	if !long {
		for _, faults := range []string{"-faults=0", "-faults=0.2"} {
			add("latency", "-validators=5,100,500,1000", "-c=1", "-rounds=30", "-warmup=15", faults)
		}
		add("ingest", "-txs=5000", "-read=200ms")
		add("ingest", "-txs=20000", "-read=200ms", "-store=postgres")
		add("ingest", "-txs=100000", "-read=200ms")
		add("replicas", "-txs=10000", "-turns=2", "-for=1500ms")
		for _, transactions := range []string{"-txs=5000", "-txs=20000", "-txs=100000"} {
			add("evm", transactions, "-read=400ms")
		}
		return steps
	}
	for range 3 {
		for _, faults := range []string{"-faults=0", "-faults=0.1", "-faults=0.2"} {
			add("latency", "-validators=5,50,100,300,500,1000", "-c=1", "-rounds=80", "-warmup=40", faults)
		}
		for _, transactions := range []string{"-txs=20000", "-txs=100000", "-txs=500000", "-txs=1000000"} {
			add("ingest", transactions)
			add("evm", transactions)
		}
		add("ingest", "-txs=50000", "-store=postgres")
		add("replicas")
		steps = append(steps, step{realNode, []string{"-run", "xxx", "-bench", "NodeAPI", "-benchtime", "1x"}})
	}
	return steps
}
