package middleware

import (
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Trace starts a span for each request, as a child of the caller's span (traceparent). The name of the span is the
// route's pattern, so that clients cannot create names. Spans contain neither queries nor bodies.
func Trace(t trace.Tracer) echo.MiddlewareFunc {
	var caller propagation.TraceContext
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			route := c.Path()
			if route == "" {
				route = unmatched
			}
			ctx := caller.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			ctx, span := t.Start(ctx, route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.String("http.route", route),
				attribute.String("quorate.request_id", requestID(c)),
			))
			defer span.End()
			c.SetRequest(r.WithContext(ctx))
			err := next(c)
			if err != nil {
				span.SetStatus(codes.Error, "") // the error is in the log, with the request ID
			} else {
				span.SetAttributes(attribute.Int("http.response.status_code", c.Response().Status))
			}
			return err
		}
	}
}
