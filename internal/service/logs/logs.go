// Package logs creates the loggers of the service.
package logs

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/mattn/go-isatty"
	"go.opentelemetry.io/otel/trace"

	"github.com/ava-labs/avalanchego/utils/logging"
)

// Levels are the levels of a logger: for what a node writes into files, and for what it
// displays.
type Levels struct{ LogLevel, DisplayLevel logging.Level }

// Loggers has the service's logger and one for each network, by name. Their levels can
// change while they are in use. It is safe for concurrent use.
type Loggers struct {
	handler slog.Handler // of all levels
	initial logging.Level

	mu     sync.Mutex
	levels map[string]Levels         // guarded by mu
	least  map[string]*slog.LevelVar // the lowest level that is written; guarded by mu
}

// Main is the name of the service's logger, as on a node.
const Main = "main"

// Formats of log lines. Auto is Text if the lines are written to a terminal, else JSON.
const (
	Auto = "auto"
	Text = "text"
	JSON = "json"
)

// New returns loggers with a level (debug, info, warn or error) that write lines in a format to w.
func New(level, format string, w io.Writer) *Loggers {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked by package config
	return &Loggers{
		handler: newLogHandler(slog.Level(math.MinInt), format, w), initial: nodeLevel(l),
		levels: make(map[string]Levels), least: make(map[string]*slog.LevelVar),
	}
}

// Named returns the logger with a name.
func (l *Loggers) Named(name string) *slog.Logger {
	l.mu.Lock()
	defer l.mu.Unlock()
	least, ok := l.least[name]
	if !ok {
		least = new(slog.LevelVar)
		l.least[name] = least
		l.set(name, Levels{LogLevel: l.initial, DisplayLevel: l.initial})
	}
	return slog.New(levelled{l.handler, least})
}

// set sets the levels of a logger. A node has a file and a display; the service has one
// output with the lines of both. The caller holds mu.
func (l *Loggers) set(name string, levels Levels) {
	l.levels[name] = levels
	l.least[name].Set(slogLevel(min(levels.LogLevel, levels.DisplayLevel)))
}

// Names returns the names of the loggers.
func (l *Loggers) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.levels))
}

// Levels returns the levels of a logger, false if there is no such logger.
func (l *Loggers) Levels(name string) (Levels, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	levels, ok := l.levels[name]
	return levels, ok
}

// SetLevels sets the levels of a logger. It ignores unknown names.
func (l *Loggers) SetLevels(name string, levels Levels) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.levels[name]; ok {
		l.set(name, levels)
	}
}

// levelOf maps a node's levels to slog's. Some lie between or below slog's own.
var levelOf = map[logging.Level]slog.Level{
	logging.Off: math.MaxInt, logging.Fatal: slog.LevelError + 4, logging.Error: slog.LevelError, logging.Warn: slog.LevelWarn,
	logging.Info: slog.LevelInfo, logging.Trace: slog.LevelDebug + 2, logging.Debug: slog.LevelDebug, logging.Verbo: slog.LevelDebug - 4,
}

func slogLevel(l logging.Level) slog.Level { return levelOf[l] }

// nodeLevel returns the node's level for one of slog's.
func nodeLevel(l slog.Level) logging.Level {
	for level, same := range levelOf {
		if same == l {
			return level
		}
	}
	return logging.Info
}

// levelled is a handler whose lowest level can change.
type levelled struct {
	slog.Handler
	least *slog.LevelVar
}

// Enabled implements slog.Handler.
func (h levelled) Enabled(_ context.Context, l slog.Level) bool { return l >= h.least.Level() }

// Handle implements slog.Handler. Lines of a traced request have the ID of its trace.
func (h levelled) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelled{h.Handler.WithAttrs(attrs), h.least}
}

// WithGroup implements slog.Handler.
func (h levelled) WithGroup(name string) slog.Handler {
	return levelled{h.Handler.WithGroup(name), h.least}
}

// NewLogger returns a logger as New does, with a fixed level and format Auto.
func NewLogger(level string, w io.Writer) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked by package config
	return slog.New(newLogHandler(l, Auto, w))
}

func newLogHandler(l slog.Level, format string, w io.Writer) slog.Handler {
	f, ok := w.(*os.File)
	if format == Text || format == Auto && ok && isatty.IsTerminal(f.Fd()) {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l, ReplaceAttr: durationText})
}

// durationText writes durations as text. In JSON they would be bare nanoseconds.
func durationText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
