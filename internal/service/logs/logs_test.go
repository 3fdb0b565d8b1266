package logs

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDurationsAreText(t *testing.T) {
	var out bytes.Buffer
	NewLogger("info", &out).Info("done", slog.Duration("took", 250*time.Millisecond), slog.Group("of", slog.Duration("all", time.Minute)))
	require.Contains(t, out.String(), `"took":"250ms"`)
	require.Contains(t, out.String(), `"all":"1m0s"`)
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{Auto: `"msg":"done"`, JSON: `"msg":"done"`, Text: "msg=done"} {
		var out bytes.Buffer
		New("info", format, &out).Named(Main).Info("done")
		require.Contains(t, out.String(), want, format)
	}
}
