package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
)

// process runs serve as a process of its own, through the program before, until it ends, and returns its exit code and
// what it printed.
func process(t *testing.T, within time.Duration, before []string, args ...string) (code int, printed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	all := append(append(append([]string{}, before...), os.Args[0], "serve", "--listen", freeAddress(t), "--private-listen", freeAddress(t), "--allow-private-ips"), args...)
	child := exec.CommandContext(ctx, all[0], all[1:]...)
	child.Env = append(os.Environ(), asProgramEnv+"=1")
	said, err := child.CombinedOutput()
	require.NoError(t, ctx.Err(), "the process goes on: %s", said)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return ended.ExitCode(), string(said)
	}
	require.NoError(t, err)
	return 0, string(said)
}

// A process that may open too few files ends at once and says so.
func TestTooFewFilesAtStart(t *testing.T) {
	dir := t.TempDir()
	for _, files := range []string{"8", "12", "16"} {
		code, printed := process(t, 30*time.Second, []string{"sh", "-c", `ulimit -n ` + files + ` && exec "$0" "$@"`}, "--data-dir", dir, "--network", "fuji=http://127.0.0.1:1", "--log-level", "error")
		require.Equal(t, exitFailed, code, "%s files: %s", files, printed)
		require.Contains(t, printed, "too many open files", "%s files", files)
		require.Contains(t, printed, "ulimit -n", "%s files", files)
		require.LessOrEqual(t, strings.Count(printed, "\n"), 4, "%s files: %s", files, printed)
	}
}

// smallDisk returns a folder on a disk of a few MiB, and false if this user may not mount one.
func smallDisk(t *testing.T) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Logf("no disk to fill (%v); the store's own tests fill a simulated one", err)
		return "", false
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir, true
}

// fill leaves no room on the disk of dir. It returns a function that makes room again.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filling"))
	require.NoError(t, err)
	for block := make([]byte, 1<<20); len(block) > 0; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = file.Write(block)
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	require.NoError(t, file.Close())
	return func() { require.NoError(t, os.Remove(file.Name())) }
}

// A full disk at the start ends the process within seconds, with what to do. With room again it starts.
func TestFullDiskAtStart(t *testing.T) {
	disk, ok := smallDisk(t)
	if !ok {
		return
	}
	n := startSimnet(t, simnet.Options{Seed: 71, Validators: 4})
	// The process is killed, so that its log is to be replayed.
	child := exec.Command(os.Args[0], "serve", "--listen", freeAddress(t), "--private-listen", freeAddress(t), "--allow-private-ips", "--data-dir", disk, "--network", "fuji="+n.NodeURL())
	child.Env = append(os.Environ(), asProgramEnv+"=1")
	log, err := child.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	for said := ""; !strings.Contains(said, "network open"); {
		line := make([]byte, 4096)
		read, err := log.Read(line)
		require.NoError(t, err, said)
		said += string(line[:read])
	}
	require.NoError(t, child.Process.Kill())
	_, _ = io.Copy(io.Discard, log)
	require.Error(t, child.Wait())

	empty := fill(t, disk)
	code, printed := process(t, 30*time.Second, nil, "--data-dir", disk, "--network", "fuji="+n.NodeURL())
	require.Equal(t, exitFailed, code, printed)
	require.Contains(t, printed, "no space left on device")
	require.Contains(t, printed, "Free space on the disk of "+disk)
	require.LessOrEqual(t, strings.Count(printed, "\n"), 4, printed)

	empty()
	s := serveURL(t, disk, n.NodeURL())
	s.awaitReady(t)
	s.stop(t)
}
