package p2p

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ava-labs/avalanchego/utils/logging"
)

var _ logging.Logger = libraryLog{}

// libraryLog writes what the library logs to the debug level of log, since most
// of it is about what single peers do. Its errors, which are about itself, are
// warnings. Its traces, one for each message, are dropped.
type libraryLog struct {
	logging.NoLog

	log *slog.Logger
}

func (l libraryLog) Fatal(msg string, fields ...zap.Field) { l.write(slog.LevelWarn, msg, fields) }
func (l libraryLog) Error(msg string, fields ...zap.Field) { l.write(slog.LevelWarn, msg, fields) }
func (l libraryLog) Warn(msg string, fields ...zap.Field)  { l.write(slog.LevelDebug, msg, fields) }
func (l libraryLog) Info(msg string, fields ...zap.Field)  { l.write(slog.LevelDebug, msg, fields) }
func (l libraryLog) Debug(msg string, fields ...zap.Field) { l.write(slog.LevelDebug, msg, fields) }

// With drops the fields; the network stack does not use it.
func (l libraryLog) With(...zap.Field) logging.Logger { return l }

func (l libraryLog) WithOptions(...zap.Option) logging.Logger { return l }

func (l libraryLog) write(level slog.Level, msg string, fields []zap.Field) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	encoder := zapcore.NewMapObjectEncoder()
	attrs := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(encoder)
		attrs = append(attrs, slog.Any(f.Key, encoder.Fields[f.Key]))
	}
	l.log.LogAttrs(context.Background(), level, "avalanchego: "+msg, attrs...)
}
