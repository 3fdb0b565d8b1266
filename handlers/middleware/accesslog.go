package middleware

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
)

// maxInside is the maximum number of logged failures in parts of one answer; the last line counts the others.
const maxInside = 10

// AccessLog logs one line per request. Before it, it logs a line for each part of the answer that failed with a status
// of 500 or more. It omits queries, bodies, and headers other than the user agent, because they may contain API keys.
// Successful requests for which quiet returns true are logged at debug level.
func AccessLog(log *slog.Logger, quiet func(echo.Context) bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			start := time.Now()
			err := next(c)
			r, status := c.Request(), c.Response().Status
			logInside(log, c)
			e, level := apierr.Of(c), slog.LevelInfo
			if e != nil && status >= http.StatusInternalServerError {
				level = levelOf(e.Code, status)
			} else if status < http.StatusBadRequest && quiet(c) {
				level = slog.LevelDebug
			}
			if !log.Enabled(r.Context(), level) {
				return err
			}
			attrs := []slog.Attr{
				slog.String("request_id", requestID(c)),
				slog.String("method", apierr.Excerpt(r.Method)),
				slog.String("path", excerptPath(r.URL.Path)),
				slog.Int("status", status),
				slog.Int64("response_bytes", c.Response().Size),
				slog.Duration("took", time.Since(start)),
				slog.String("client", c.RealIP()),
				slog.String("user_agent", apierr.Excerpt(r.UserAgent())),
			}
			if key := access.KeyName(c); key != "" {
				attrs = append(attrs, slog.String("key", key))
			}
			attrs = append(attrs, apierr.Details(c)...)
			if e != nil {
				if e.Code != "" {
					attrs = append(attrs, slog.String("code", e.Code))
				}
				attrs = append(attrs, slog.String("message", e.Message))
				if status >= http.StatusInternalServerError && e.Err != nil && !strings.HasSuffix(e.Err.Error(), e.Message) {
					attrs = append(attrs, slog.String("cause", e.Err.Error()))
				}
			}
			log.LogAttrs(r.Context(), level, "request", attrs...)
			return err
		}
	}
}

// levelOf returns the level for a failure with a status of 500 or more. A code means that the network is at fault, not
// the service.
func levelOf(code string, status int) slog.Level {
	if code != "" || status == http.StatusServiceUnavailable {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// logInside logs failures in parts of an answer that was sent with status 200.
func logInside(log *slog.Logger, c echo.Context) {
	var failures []apierr.Failure
	for _, f := range apierr.Inside(c) {
		if f.Status >= http.StatusInternalServerError {
			failures = append(failures, f)
		}
	}
	for i, f := range failures {
		attrs := []slog.Attr{
			slog.String("request_id", requestID(c)), slog.String("part", f.Part), slog.Int("status", f.Status),
			slog.String("code", f.Code), slog.String("message", f.Message),
		}
		attrs = append(attrs, f.Attrs...)
		if f.Err != nil {
			attrs = append(attrs, slog.String("cause", f.Err.Error()))
		}
		more := len(failures) - maxInside
		if last := i == maxInside-1; last && more > 0 {
			attrs = append(attrs, slog.Int("more", more))
		}
		log.LogAttrs(c.Request().Context(), levelOf(f.Code, f.Status), "part of an answer failed", attrs...)
		if i == maxInside-1 {
			return
		}
	}
}

func excerptPath(p string) string {
	const most = 256
	if len(p) > most {
		return p[:most] + "..."
	}
	return p
}
