package tracing

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"quorate/internal/config"
)

// Clients decide neither that their requests are traced nor that they are not, be it by
// what they say or by the IDs that they choose, unless they are trusted to.
func TestClientsDoNotDecideWhatIsTraced(t *testing.T) {
	for name, test := range map[string]struct {
		share   float64
		follow  bool
		sampled bool
		want    sdktrace.SamplingDecision
	}{
		"asks for it":               {share: 0, sampled: true, want: sdktrace.Drop},
		"asks for none":             {share: 1, want: sdktrace.RecordAndSample},
		"asks for it, followed":     {share: 0, follow: true, sampled: true, want: sdktrace.RecordAndSample},
		"asks for none, followed":   {share: 1, follow: true, want: sdktrace.Drop},
		"of the share and asks":     {share: 1, sampled: true, want: sdktrace.RecordAndSample},
		"of no share and asks none": {share: 0, want: sdktrace.Drop},
	} {
		c := trace.SpanContextConfig{TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{1}, Remote: true}
		if test.sampled {
			c.TraceFlags = trace.FlagsSampled
		}
		s := newSampler(config.Tracing{Share: test.share, FollowClients: test.follow})
		got := s.ShouldSample(sdktrace.SamplingParameters{ParentContext: trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(c)), TraceID: c.TraceID})
		require.Equal(t, test.want, got.Decision, name)
	}
	// What is within a request belongs to its trace.
	inner := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled}
	got := newSampler(config.Tracing{}).ShouldSample(sdktrace.SamplingParameters{ParentContext: trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(inner))})
	require.Equal(t, sdktrace.RecordAndSample, got.Decision)

	kept := 0
	half := newSampler(config.Tracing{Share: 0.5})
	for range 1000 { // of one ID, as a client may choose it
		c := trace.SpanContextConfig{TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{1}, Remote: true}
		if half.ShouldSample(sdktrace.SamplingParameters{ParentContext: trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(c)), TraceID: c.TraceID}).Decision == sdktrace.RecordAndSample {
			kept++
		}
	}
	require.InDelta(t, 500, kept, 150)
}
