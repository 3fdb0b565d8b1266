package rig

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

	"quorate/internal/store/storetest/pgserver"
)

// Machine is what figures depend on besides what is measured.
type Machine struct {
	Date time.Time `json:"date"`
	// System is the operating system, CPU the processor's model, and Processors how many
	// of them there are.
	System     string `json:"system"`
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	// Go and Library are versions, that of avalanchego the latter; Commit is the checkout's,
	// with a word if there are changes.
	Go      string `json:"go"`
	Library string `json:"avalanchego"`
	Commit  string `json:"commit"`
	// Postgres is the version of the PostgreSQL server; empty if there is none.
	Postgres string `json:"postgresql,omitempty"`
	// Load is the load average when it was asked.
	Load string `json:"load"`
}

// ThisMachine is this one, now. The current folder has to be in the module.
func ThisMachine(ctx context.Context) (Machine, error) {
	m := Machine{
		Date: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, CPU: processor(),
		Processors: runtime.NumCPU(), Go: runtime.Version(), Load: Load(), Commit: "unknown",
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += ", Linux " + strings.TrimSpace(string(b))
	}
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "github.com/ava-labs/avalanchego").Output()
	if err != nil {
		return m, fmt.Errorf("asking for the version of avalanchego: %w", err)
	}
	m.Library = strings.TrimSpace(string(version))
	m.Postgres, _ = pgserver.Version(ctx) // which only some benchmarks need
	commit, err := git(ctx, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return m, ctx.Err() // not a checkout
	}
	changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return m, err
	}
	if m.Commit = commit; changes != "" {
		m.Commit += ", with changes"
	}
	return m, nil
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
