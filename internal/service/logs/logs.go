// Package logs makes the loggers: one for the service and one for each network, whose levels
// can change while they are in use.
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

	"github.com/ava-labs/avalanchego/utils/logging"

	"quorate/handlers/rpc/admin"
)

// Loggers are the service's own and one for each network, by name, with levels that
// can be changed while they are in use. Safe for concurrent use.
type Loggers struct {
	handler slog.Handler // lets everything through
	initial logging.Level

	mu     sync.Mutex
	levels map[string]admin.Levels   // guarded by mu
	bounds map[string]*slog.LevelVar // guarded by mu
}

// Main is the name of the one that belongs to no network, as it is on a node.
const Main = "main"

// New makes loggers of a level (debug, info, warn or error) that write to w: text on a
// terminal, else a JSON object a line.
func New(level string, w io.Writer) *Loggers {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked with the configuration
	return &Loggers{
		handler: newLogHandler(slog.Level(math.MinInt), w), initial: nodeLevel(l),
		levels: make(map[string]admin.Levels), bounds: make(map[string]*slog.LevelVar),
	}
}

// Named is the logger of a name.
func (l *Loggers) Named(name string) *slog.Logger {
	l.mu.Lock()
	defer l.mu.Unlock()
	bound, ok := l.bounds[name]
	if !ok {
		bound = new(slog.LevelVar)
		l.bounds[name] = bound
		l.set(name, admin.Levels{LogLevel: l.initial, DisplayLevel: l.initial})
	}
	return slog.New(levelled{l.handler, bound})
}

// set needs mu. A node has a file and a display, we have one output: it gets what
// either of them would.
func (l *Loggers) set(name string, levels admin.Levels) {
	l.levels[name] = levels
	l.bounds[name].Set(slogLevel(min(levels.LogLevel, levels.DisplayLevel)))
}

// Names implements admin.Loggers.
func (l *Loggers) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.levels))
}

// Levels implements admin.Loggers.
func (l *Loggers) Levels(name string) (admin.Levels, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	levels, ok := l.levels[name]
	return levels, ok
}

// SetLevels implements admin.Loggers.
func (l *Loggers) SetLevels(name string, levels admin.Levels) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.levels[name]; ok {
		l.set(name, levels)
	}
}

// levelOf are slog's levels for a node's, of which the finer ones lie between and
// below slog's own.
var levelOf = map[logging.Level]slog.Level{
	logging.Off: math.MaxInt, logging.Fatal: slog.LevelError + 4, logging.Error: slog.LevelError, logging.Warn: slog.LevelWarn,
	logging.Info: slog.LevelInfo, logging.Trace: slog.LevelDebug + 2, logging.Debug: slog.LevelDebug, logging.Verbo: slog.LevelDebug - 4,
}

func slogLevel(l logging.Level) slog.Level { return levelOf[l] }

// nodeLevel is a node's name for one of slog's levels.
func nodeLevel(l slog.Level) logging.Level {
	for level, same := range levelOf {
		if same == l {
			return level
		}
	}
	return logging.Info
}

// levelled passes on what is of a level that may change.
type levelled struct {
	slog.Handler
	bound *slog.LevelVar
}

// Enabled implements slog.Handler.
func (h levelled) Enabled(_ context.Context, l slog.Level) bool { return l >= h.bound.Level() }

// WithAttrs implements slog.Handler.
func (h levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelled{h.Handler.WithAttrs(attrs), h.bound}
}

// WithGroup implements slog.Handler.
func (h levelled) WithGroup(name string) slog.Handler {
	return levelled{h.Handler.WithGroup(name), h.bound}
}

// NewLogger makes one logger, as New does, whose level stays.
func NewLogger(level string, w io.Writer) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked with the configuration
	return slog.New(newLogHandler(l, w))
}

func newLogHandler(l slog.Level, w io.Writer) slog.Handler {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})
}
