package logs

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

func TestDurationsAreText(t *testing.T) {
	var out bytes.Buffer
	NewLogger("info", &out).Info("done", slog.Duration("took", 250*time.Millisecond), slog.Group("of", slog.Duration("all", time.Minute)))
	require.Contains(t, out.String(), `"took":"250ms"`)
	require.Contains(t, out.String(), `"all":"1m0s"`)
}

func TestTracedLines(t *testing.T) {
	var out bytes.Buffer
	log := New("info", JSON, &out).Named(Main).With(slog.String("network", "fuji"))
	log.InfoContext(t.Context(), "not traced")
	require.NotContains(t, out.String(), "trace_id")
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{1}}))
	log.InfoContext(ctx, "traced")
	require.Contains(t, out.String(), `"network":"fuji","trace_id":"ab000000000000000000000000000000"`)
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{Auto: `"msg":"done"`, JSON: `"msg":"done"`, Text: "msg=done"} {
		var out bytes.Buffer
		New("info", format, &out).Named(Main).Info("done")
		require.Contains(t, out.String(), want, format)
	}
}
