package store

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLog hands the engine's messages to slog.
type pebbleLog struct{ log *slog.Logger }

func (l pebbleLog) Infof(format string, args ...any) {
	l.log.Debug("embedded store", "event", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Error("embedded store", "error", fmt.Sprintf(format, args...))
}

// Fatalf ends the process, as the engine demands: it is called when the log can
// no longer be written, with locks held. A panic could be recovered by an HTTP
// handler and leave every later commit hanging.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.log.Error("embedded store cannot go on, ending the process; is the disk full or gone, or the limit of open files (ulimit -n) too low?",
		"error", fmt.Sprintf(format, args...))
	os.Exit(1)
}

// pebbleEvents logs the events that an operator should see. Damage does not end the process: reads of the damaged rows return
// ErrCorrupt, and the others continue.
func pebbleEvents(log *slog.Logger, opening *opening) pebble.EventListener {
	var lines seldom
	return pebble.EventListener{
		BackgroundError: func(err error) {
			opening.failure(err)
			if lines.pass() {
				log.Error("embedded store failed in the background; it tries again", "error", err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			log.Error("embedded store is damaged", "path", info.Path, "error", info.Details)
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			log.Warn("disk is slow", "path", info.Path, "took", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Debug("embedded store makes writers wait", "reason", info.Reason)
		},
		WriteStallEnd: func() {
			log.Debug("embedded store lets writers go on")
		},
	}
}
