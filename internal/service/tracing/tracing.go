// Package tracing sends spans of requests, rounds and calls of nodes to an OTLP collector.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"quorate/aggregator"
	"quorate/handlers/signing"
	"quorate/internal/config"
	"quorate/internal/service/hint"
)

// Traces sends spans to a collector: of requests, of what signing takes of them, and
// of calls of nodes. At most 2048 spans wait, further ones are dropped.
type Traces struct {
	provider *sdktrace.TracerProvider
	Tracer   trace.Tracer
	log      *slog.Logger
}

// farewellOfTraces bounds the sending of what is left at the end.
const farewellOfTraces = 3 * time.Second

// New sends to the collector that c names, with the version of the program. It is closed with
// Close.
func New(ctx context.Context, c config.Tracing, version string, log *slog.Logger) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.OTLP), otlptracehttp.WithTimeout(5*time.Second),
		// What a collector does not take is not worth waiting for.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, hint.Mistake(fmt.Errorf("tracing.otlp: %w", config.Redacted(err)), "Give the URL of an OTLP collector, such as http://127.0.0.1:4318, or leave tracing out.")
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&plainExporter{SpanExporter: exporter, log: log}),
		sdktrace.WithSampler(newSampler(c)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "quorate"), attribute.String("service.version", version))),
	)
	return &Traces{provider: provider, Tracer: provider.Tracer("quorate"), log: log}, nil
}

// newSampler keeps a share of the traces. Whether a client keeps its own is heeded if
// that is configured; the trace's ID, of which other samplers make the choice, is the
// client's, too.
func newSampler(c config.Tracing) sdktrace.Sampler {
	own := sampler{c.Share}
	if c.FollowClients {
		return sdktrace.ParentBased(own)
	}
	return sdktrace.ParentBased(own, sdktrace.WithRemoteParentSampled(own), sdktrace.WithRemoteParentNotSampled(own))
}

// sampler keeps a share, 0 to 1, of the traces, whatever they are.
type sampler struct{ share float64 }

// ShouldSample implements sdktrace.Sampler.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if rand.Float64() < s.share {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description implements sdktrace.Sampler.
func (s sampler) Description() string { return fmt.Sprintf("share of %v", s.share) }

// Close sends what waits to be sent, for a few seconds at most.
func (t *Traces) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellOfTraces)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last traces were not sent", slog.Any("error", config.Redacted(err)))
	}
}

// plainExporter logs failures, at most one a minute, instead of handing them to a
// handler that belongs to the whole process.
type plainExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu     sync.Mutex
	logged time.Time // guarded by mu
}

func (e *plainExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.Sub(e.logged) > time.Minute {
		e.logged = now
		e.log.Warn("traces are lost", slog.Int("spans", len(spans)), slog.Any("error", config.Redacted(err)))
	}
	return nil
}

// signer makes a span of each wait for signatures.
type signer struct {
	signing.Signer
	network string
	tracer  trace.Tracer
}

// NewSigner makes spans of what s does for a network of that name.
func NewSigner(s signing.Signer, network string, tracer trace.Tracer) signing.Signer {
	return signer{s, network, tracer}
}

// Sign implements signing.Signer.
func (s signer) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	ctx, span := s.tracer.Start(ctx, "round", trace.WithAttributes(attribute.String("quorate.network", s.network)))
	defer span.End()
	result, err := s.Signer.Sign(ctx, req)
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	return result, err
}

// Transport makes a span of each call of a node. It tells the host alone: paths and
// queries may have tokens.
func (t *Traces) Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, tracer: t.Tracer}
}

type transport struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := t.tracer.Start(r.Context(), "node", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("server.address", r.URL.Host)))
	defer span.End()
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		span.SetStatus(codes.Error, "")
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	return response, nil
}

// CloseIdleConnections is what http.Client's looks for.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
