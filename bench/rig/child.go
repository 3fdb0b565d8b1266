package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// childEnv holds the task of a child process, as JSON.
const childEnv = "QUORATE_BENCH_CHILD"

// child is this program once more, with a task of its own, so that its processor time can
// be distinguished. It talks JSON on its standard input and output and dies with this process.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func serveChild(text string) error {
	var task networkTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return fmt.Errorf("task of a child process: %w", err)
	}
	return task.serve()
}

// startChild starts a child process and reads its first message into ready. The child runs
// on one processor if its number is given.
func startChild(ctx context.Context, processor string, task networkTask, ready any) (*child, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := pinned(processor, self)
	c := &child{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
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
		return nil, fmt.Errorf("starting %s: %w", strings.Join(command, " "), err)
	}
	c.out = json.NewDecoder(bufio.NewReader(out))
	if err := c.out.Decode(ready); err != nil {
		c.Stop()
		return nil, fmt.Errorf("a child process did not start: %w", err)
	}
	return c, nil
}

// pinned returns the command that runs a program on one processor, or on all if processor
// is empty. It needs taskset (util-linux).
func pinned(processor, program string, args ...string) []string {
	command := append([]string{program}, args...)
	if processor != "" {
		command = append([]string{"taskset", "-c", processor}, command...)
	}
	return command
}

// send sends an order.
func (c *child) send(order any) error { return json.NewEncoder(c.in).Encode(order) }

// PID returns the process ID.
func (c *child) PID() int { return c.cmd.Process.Pid }

// Stop ends the process and waits for it. It kills a process that does not end within 30 s.
func (c *child) Stop() {
	_ = c.in.Close()
	kill := time.AfterFunc(stopGrace, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.cmd.Wait()
}
