package middleware

import (
	"net/http"

	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
)

// CORS lets pages of the given origins call the service from a browser, * for any;
// without origins only pages of its own may. Nothing depends on cookies, so credentials
// stay forbidden. Both names of the API key header are allowed: the documented one and
// the one that the official clients send.
func CORS(origins ...string) echo.MiddlewareFunc {
	if len(origins) == 0 { // echo would take that for all
		return func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	}
	return echomiddleware.CORSWithConfig(echomiddleware.CORSConfig{
		AllowOrigins: origins,
		AllowMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions},
		AllowHeaders: []string{
			echo.HeaderAccept, echo.HeaderContentType, "User-Agent", echo.HeaderXRequestID,
			"X-Data-Api-Key", "X-Glacier-Api-Key", "X-App-Component",
		},
		ExposeHeaders: []string{
			echo.HeaderXRequestID, "Indexed-From", "Indexed-Height", "Indexed-Timestamp", "Indexed-Lag", "Indexed-State", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", echo.HeaderRetryAfter,
		},
		MaxAge: 7200, // seconds; the most that browsers honour
	})
}
