package middleware

import (
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Trace makes a span of each request, within the caller's if it names one
// (traceparent). Its name is the route's pattern: no client makes names. Neither
// queries nor bodies are told.
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
				span.SetStatus(codes.Error, "") // what went wrong is in the log, by the request's ID
			} else {
				span.SetAttributes(attribute.Int("http.response.status_code", c.Response().Status))
			}
			return err
		}
	}
}
