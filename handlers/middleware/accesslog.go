package middleware

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
)

// maxInside is of how many failures inside an answer there is a line; the last line
// says how many more there were.
const maxInside = 10

// AccessLog writes one line per request, and before it one for each part of the answer
// that failed for a reason of ours. Queries, headers other than the user agent, and
// bodies are left out: they may carry keys. Requests for which quiet is true are logged
// at the debug level unless they fail.
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
			if e != nil {
				if e.Code != "" {
					attrs = append(attrs, slog.String("code", e.Code))
				}
				attrs = append(attrs, slog.String("message", e.Message))
				if status >= http.StatusInternalServerError && e.Err != nil {
					attrs = append(attrs, slog.String("cause", e.Err.Error()))
				}
			}
			log.LogAttrs(r.Context(), level, "request", attrs...)
			return err
		}
	}
}

// levelOf is that of a failure with a status of 500 or more. A code says that the
// network, not the service, is at fault.
func levelOf(code string, status int) slog.Level {
	if code != "" || status == http.StatusServiceUnavailable {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// logInside tells of what failed inside an answer that was sent with status 200.
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
