package middleware

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
)

// AccessLog writes one line per request. Queries, headers other than the user
// agent, and bodies are left out: they may carry keys.
func AccessLog(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			start := time.Now()
			err := next(c)
			r, status := c.Request(), c.Response().Status
			e, level := apierr.Of(c), slog.LevelInfo
			if e != nil && status >= http.StatusInternalServerError {
				// A code says that the network, not the service, is at fault.
				level = slog.LevelError
				if e.Code != "" || status == http.StatusServiceUnavailable {
					level = slog.LevelWarn
				}
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

func excerptPath(p string) string {
	const most = 256
	if len(p) > most {
		return p[:most] + "..."
	}
	return p
}
