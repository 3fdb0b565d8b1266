package p2p

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestLibraryLog(t *testing.T) {
	for _, tc := range []struct {
		level slog.Level
		want  string
	}{
		{slog.LevelInfo, "level=WARN msg=\"avalanchego: broken\"\n"},
		{slog.LevelDebug, "level=DEBUG msg=\"avalanchego: met\" peer=x times=3 error=why\nlevel=WARN msg=\"avalanchego: broken\"\n"},
	} {
		var out bytes.Buffer
		log := libraryLog{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			Level: tc.level,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))}
		log.Verbo("message", zap.Binary("bytes", make([]byte, 1000)))
		log.Trace("step")
		log.Debug("met", zap.String("peer", "x"), zap.Int("times", 3), zap.Error(errors.New("why")))
		log.Error("broken")
		require.Equal(t, tc.want, out.String(), "at level %s", tc.level)
	}
}
