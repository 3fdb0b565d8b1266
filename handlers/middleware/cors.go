package middleware

import (
	"net/http"

	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
)

// CORS lets pages of the given origins call the service from a browser; * means all. Without origins only pages of the
// same origin may. Credentials are forbidden, since the service has no cookies. Both names of the API key header are
// allowed: the documented one and the one that the official clients send.
func CORS(origins ...string) echo.MiddlewareFunc {
	if len(origins) == 0 { // echo takes an empty list for all origins
		return func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	}
	return echomiddleware.CORSWithConfig(echomiddleware.CORSConfig{
		AllowOrigins: origins,
		AllowMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions},
		AllowHeaders: []string{
			echo.HeaderAccept, echo.HeaderContentType, "User-Agent", echo.HeaderXRequestID,
			"X-Data-Api-Key", "X-Glacier-Api-Key", "X-App-Component", "Last-Event-ID",
		},
		ExposeHeaders: []string{
			echo.HeaderXRequestID, "Indexed-From", "Indexed-Height", "Indexed-Timestamp", "Indexed-Lag", "Indexed-State", "Indexed-Without", "Proven-From", "Proven-Height", "Signing-Summary", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", echo.HeaderRetryAfter,
		},
		MaxAge: 7200, // seconds; the maximum that browsers honour
	})
}
