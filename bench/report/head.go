package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"quorate/bench/rig"
)

// head is what figures depend on besides what is measured.
type head struct {
	Date                  time.Time
	Form                  string
	System, CPU           string
	Processors            int
	Go, Library, Commit   string
	Seed                  uint64
	LoadBefore, LoadAfter string
	Took                  time.Duration
}

func headOf(ctx context.Context, long bool, seed uint64) (head, error) {
	h := head{
		Date: time.Now().UTC().Truncate(time.Second), Form: "short", System: runtime.GOOS + "/" + runtime.GOARCH,
		Processors: runtime.NumCPU(), Go: runtime.Version(), Seed: seed, LoadBefore: rig.Load(),
	}
	if long {
		h.Form = "long, medians of three runs"
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.System += ", Linux " + strings.TrimSpace(string(b))
	}
	h.CPU = processor()
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "github.com/ava-labs/avalanchego").Output()
	if err != nil {
		return h, fmt.Errorf("asking for the version of avalanchego: %w", err)
	}
	h.Library = strings.TrimSpace(string(version))
	commit, err := git(ctx, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		h.Commit = "unknown" // not a checkout
		return h, ctx.Err()
	}
	changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return h, err
	}
	if h.Commit = commit; changes != "" {
		h.Commit += ", with changes"
	}
	return h, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// processor is its model, as Linux knows it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
