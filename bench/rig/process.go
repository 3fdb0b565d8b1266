package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after a signal.
const stopGrace = 30 * time.Second

// Process is a program that runs beside the benchmark. It dies with the benchmark.
type Process struct {
	// Exited is closed once the process has ended.
	Exited <-chan struct{}

	cmd *exec.Cmd
	log string
}

// StartProcess starts a program whose output is appended to the file log.
func StartProcess(log, program string, args ...string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // the process has its own descriptor
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	exited := make(chan struct{})
	go func() { // ends with the process, see Stop
		_ = cmd.Wait()
		close(exited)
	}()
	return &Process{Exited: exited, cmd: cmd, log: log}, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogTail returns the end of what the process wrote, or why it cannot be read.
func (p *Process) LogTail() string {
	const limit = 4000 // bytes
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-limit):])
}

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Stop sends a signal and waits until the process has ended. It kills a process that does
// not end within 30 s and returns an error.
func (p *Process) Stop(signal syscall.Signal) error {
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping process %d: %w", p.PID(), err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.Exited:
		return nil
	case <-grace.C:
		_ = p.cmd.Process.Kill()
		<-p.Exited
		return fmt.Errorf("process %d did not end within %s of %s", p.PID(), stopGrace, signal)
	}
}

// CPUTime returns the processor time of a process and its children, ended children
// included, with a resolution of 10 ms; 0 on systems other than Linux.
func CPUTime(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ, the same on all of Linux
	var ticks int64
	parent := strconv.Itoa(pid)
	found, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range found {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		_, rest, ok := strings.Cut(string(content), ") ") // the name before may hold anything
		fields := strings.Fields(rest)
		if !ok || len(fields) < 15 {
			continue
		}
		if own := filepath.Base(filepath.Dir(path)) == parent; !own && fields[1] != parent {
			continue
		}
		for _, field := range fields[11:15] { // user and system time, and that of ended children
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * tick
}

// Memory returns the resident memory of a process in bytes, now and at its highest; 0 on
// systems other than Linux.
func Memory(pid int) (now, highest float64) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			now = kilobytes * 1024
		case "VmHWM:":
			highest = kilobytes * 1024
		}
	}
	return now, highest
}
