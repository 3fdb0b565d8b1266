// Package rig holds what the benchmarks share: the service and the simulated network as
// processes of their own, the load, the tables and the plots.
package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Run is one run of a benchmark.
type Run struct {
	*Output

	// Dir is a temporary folder, which the end of the run removes.
	Dir string
	// Seed determines the simulated network and its chains.
	Seed uint64

	profiles string // a folder; empty for no profiles
	program  string // the service; empty until it is built
}

// Main parses the flags, adding those that all benchmarks have, and calls measure. The
// context ends on an interrupt. In a child process Main is that process instead; see
// StartNetwork.
func Main(measure func(ctx context.Context, r *Run) error) {
	log.SetFlags(0)
	if text := os.Getenv(childEnv); text != "" {
		if err := serveChild(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	r := new(Run)
	dir := flag.String("dir", "", "parent `folder` of the temporary folder for blocks and stores; default: the system's")
	figures := flag.String("json", "", "`file` to which to write the tables as lines of JSON")
	flag.Uint64Var(&r.Seed, "seed", 1, "`number` that determines the network and its chains")
	flag.StringVar(&r.profiles, "cpuprofiles", "", "`folder` to which to write CPU profiles of the service's processes")
	flag.StringVar(&r.program, "binary", "", "`program` of the service to measure; default: build this source")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dir, *figures, r, measure)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, parent, figures string, r *Run, measure func(context.Context, *Run) error) (err error) {
	if r.profiles != "" {
		if r.profiles, err = filepath.Abs(r.profiles); err != nil {
			return err
		}
	}
	if r.Dir, err = os.MkdirTemp(parent, "quorate-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.Dir)) }()
	if r.Output, err = openOutput(figures); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Output.close()) }()
	fmt.Printf("%s/%s, %d processors, %s, load %s, seed %d\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), LoadAverage(), r.Seed)
	begun := time.Now()
	if err := measure(ctx, r); err != nil {
		return err
	}
	fmt.Printf("\nmeasured in %s, load %s at the end\n", time.Since(begun).Round(time.Second), LoadAverage())
	return nil
}

// Folder creates a folder in r.Dir.
func (r *Run) Folder(name string) (string, error) {
	dir := filepath.Join(r.Dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// Pause waits for d. It returns false if ctx ended meanwhile.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Size returns the size of all files below a folder, in bytes.
func Size(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// Milliseconds returns d in milliseconds.
func Milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// Microseconds returns d in microseconds.
func Microseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }
