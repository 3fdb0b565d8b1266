// Package doctor examines whether a configuration can work, before it is served or while it is: the machine, the
// store, what the nodes offer, and the connections to validators. It changes nothing but a file that it creates and
// removes in the data folder.
package doctor

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"quorate/internal/config"
)

// Status is the result of a check.
type Status string

// The results of checks.
const (
	OK Status = "ok"
	// Warning: the configuration works, with less than it could.
	Warning Status = "warning"
	// Failure: something that the configuration asks for cannot work.
	Failure Status = "failure"
	// Skipped: not checked, because of another result.
	Skipped Status = "skipped"
)

// Finding is what one check found. Its texts have no secrets.
type Finding struct {
	// Area is what was examined: the machine, the store, a network, or a node of a network.
	Area   string `json:"area"`
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Remedy says what to do; empty for OK.
	Remedy string `json:"remedy,omitempty"`
}

// Options configure Examine. Config and Log are required.
type Options struct {
	// Config must have been checked.
	Config config.Config
	// Connect is the longest time that connections to validators may take.
	Connect time.Duration
	// Log receives what the parts of a network log.
	Log *slog.Logger
}

// findings collects what checks of one area find.
type findings struct {
	area string
	list []Finding
}

func (f *findings) ok(check, detail string) {
	f.list = append(f.list, Finding{f.area, check, OK, detail, ""})
}

func (f *findings) warn(check, detail, remedy string) {
	f.list = append(f.list, Finding{f.area, check, Warning, detail, remedy})
}

func (f *findings) fail(check, detail, remedy string) {
	f.list = append(f.list, Finding{f.area, check, Failure, detail, remedy})
}

func (f *findings) skip(check, detail string) {
	f.list = append(f.list, Finding{f.area, check, Skipped, detail, ""})
}

// Examine returns the findings on a configuration, in an order that does not depend on time. It returns early, with
// what it has, if ctx ends.
func Examine(ctx context.Context, o Options) []Finding {
	names := slices.Sorted(maps.Keys(o.Config.Networks))
	parts := make([][]Finding, 2+len(names))
	var work sync.WaitGroup
	work.Go(func() { parts[1] = examineStore(ctx, o.Config) })
	networkIDs := make([]uint32, len(names))
	for i, name := range names {
		work.Go(func() { parts[2+i], networkIDs[i] = examineNetwork(ctx, name, o) })
	}
	work.Wait()
	parts[0] = examineMachine(o.Config, names, networkIDs)
	return slices.Concat(parts...)
}

// Worst returns the gravest status of findings.
func Worst(list []Finding) Status {
	worst := OK
	for _, f := range list {
		if f.Status == Failure || f.Status == Warning && worst == OK {
			worst = f.Status
		}
	}
	return worst
}
