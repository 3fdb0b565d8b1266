// Package rig is what benchmarks have in common: parts that run in processes of
// their own, so that processor time can be told apart, and what is read from the
// machine and from a store.
package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"quorate/internal/cputime"
	"quorate/internal/store"
)

// Child is a process of this program's that was given a task and tells what it has to
// say in lines of JSON. It dies with this one.
type Child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// Start starts this program again with task, as JSON, in the environment variable env.
func Start(ctx context.Context, env string, task any) (*Child, error) {
	return StartPinned(ctx, "", env, task)
}

// StartPinned is Start on one processor; an empty one means all of them. It needs taskset
// (util-linux).
func StartPinned(ctx context.Context, processor, env string, task any) (*Child, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{self}
	if processor != "" {
		command = []string{"taskset", "-c", processor, self}
	}
	c := &Child{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	c.cmd.Env = append(os.Environ(), env+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	c.out = json.NewDecoder(bufio.NewReader(out))
	return c, nil
}

// Once starts a process that tells one thing, which is read into answer.
func Once(ctx context.Context, env string, task, answer any) error {
	c, err := Start(ctx, env, task)
	if err != nil {
		return err
	}
	defer c.Stop()
	return c.Read(answer)
}

// Read reads the next thing that it tells.
func (c *Child) Read(v any) error { return c.out.Decode(v) }

// Spent asks a process that is at TellSpent for its processor time.
func (c *Child) Spent() (d time.Duration, err error) {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return 0, err
	}
	err = c.Read(&d)
	return d, err
}

// Ask sends a process that reads orders from its standard input one, as a line of JSON,
// and reads what it answers.
func (c *Child) Ask(order, answer any) error {
	if err := json.NewEncoder(c.in).Encode(order); err != nil {
		return err
	}
	return c.Read(answer)
}

// PID returns the process ID.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Stop ends its input and waits until it has ended.
func (c *Child) Stop() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// Kill ends it at once.
func (c *Child) Kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = c.cmd.Wait() // it says that it was killed
	return nil
}

// TellSpent answers each line of standard input with the processor time so far, until
// the input ends.
func TellSpent(out *json.Encoder) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := out.Encode(cputime.Used()); err != nil {
			return err
		}
	}
	return nil
}

// Profile writes what this process spends processor time on to a file until stop is
// called; an empty name does nothing.
func Profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// Load is the machine's load average over a minute: how much else is going on.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	var one float64
	if _, err := fmt.Sscan(string(b), &one); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f", one)
}

// Calm waits until a store has put its files in order: until nothing has been under way
// for two seconds, five minutes at most.
func Calm(rows store.Store) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	since := time.Now()
	for range 3000 {
		if rows.Stats().Compactions > 0 {
			since = time.Now()
		}
		if time.Since(since) > 2*time.Second {
			return
		}
		<-ticker.C
	}
}

// Size is that of all files in a folder, in bytes.
func Size(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// Milliseconds is d with a thousandth's precision, for tables.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
