package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"quorate/internal/store/storetest/pgserver"
)

// Machine describes where and when something was measured.
type Machine struct {
	Date time.Time `json:"date"`
	// System is the operating system, CPU the model of the processors.
	System     string `json:"system"`
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	// Go and Library are the versions of Go and of avalanchego.
	Go      string `json:"go"`
	Library string `json:"avalanchego"`
	// Commit ends with "with changes" if files differ from it, new ones included, other than the documentation, into which
	// figures go.
	Commit string `json:"commit"`
	// Postgres is the version of the PostgreSQL server, empty if none is installed.
	Postgres string `json:"postgresql,omitempty"`
	// Load is the load average at the start.
	Load string `json:"load"`
}

// ThisMachine describes this machine now. The current folder must be in the module.
func ThisMachine(ctx context.Context) (Machine, error) {
	m := Machine{
		Date: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, CPU: "unknown",
		Processors: runtime.NumCPU(), Go: runtime.Version(), Load: LoadAverage(), Commit: "unknown",
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += ", Linux " + strings.TrimSpace(string(release))
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if found := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); found != nil {
			m.CPU = strings.TrimSpace(string(found[1]))
		}
	}
	var err error
	if m.Library, err = output(ctx, "go", "list", "-m", "-f", "{{.Version}}", "github.com/ava-labs/avalanchego"); err != nil {
		return m, err
	}
	m.Postgres, _ = pgserver.Version(ctx) // only some benchmarks need it
	commit, err := output(ctx, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return m, ctx.Err() // not a checkout
	}
	// A file that is not in Git may be part of the build too.
	changes, err := output(ctx, "git", "status", "--porcelain", "--untracked-files=all", ":/", ":(top,exclude)docs")
	if m.Commit = commit; changes != "" {
		m.Commit += ", with changes"
	}
	return m, err
}

func output(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// LoadAverage returns the machine's load average over a minute.
func LoadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(content), " ")
	return minute
}
