// Package cputime reads the processor time of this process, for benchmarks.
package cputime

import (
	"syscall"
	"time"
)

// Used returns the processor time that this process has used so far, in user and in
// kernel mode.
func Used() time.Duration {
	var usage syscall.Rusage
	// Getrusage cannot fail for the process itself.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
