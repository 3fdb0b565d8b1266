// Package tracing sends spans of requests, rounds and calls of upstream nodes to an OTLP collector.
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

// Traces sends spans of requests, signing and calls of upstream nodes to a collector. At most 2048 spans wait; further
// ones are dropped.
type Traces struct {
	provider *sdktrace.TracerProvider
	Tracer   trace.Tracer
	log      *slog.Logger
}

// closeTimeout limits the sending of waiting spans at the end.
const closeTimeout = 3 * time.Second

// New returns a Traces that sends to the configured collector. version is the program's. Close closes it.
func New(ctx context.Context, c config.Tracing, version string, log *slog.Logger) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.OTLP), otlptracehttp.WithTimeout(5*time.Second),
		// Spans that the collector refuses are dropped.
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

// newSampler returns a sampler of a share of the traces. It follows the client's decision if that is configured. It
// does not sample by trace ID, because the client chooses the ID.
func newSampler(c config.Tracing) sdktrace.Sampler {
	own := sampler{c.Share}
	if c.FollowClients {
		return sdktrace.ParentBased(own)
	}
	return sdktrace.ParentBased(own, sdktrace.WithRemoteParentSampled(own), sdktrace.WithRemoteParentNotSampled(own))
}

// sampler samples a share of the traces, 0 to 1, at random.
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

// Close sends waiting spans, for a few seconds at most.
func (t *Traces) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last traces were not sent", slog.Any("error", config.Redacted(err)))
	}
}

// plainExporter logs failures, at most one a minute, instead of passing them to the global handler.
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

// signer traces the calls of a signing.Signer.
type signer struct {
	signing.Signer
	network string
	tracer  trace.Tracer
}

// NewSigner returns a signer that traces the calls of s for the named network.
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

// Transport returns a transport that traces each call of an upstream node. Spans contain only the host, because paths
// and queries may contain tokens.
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

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
