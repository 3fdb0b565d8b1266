package middleware

import (
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// Colons makes %3A in a path mean the same as a literal colon, which is part of
// some operations' names. It comes before routing.
func Colons() echo.MiddlewareFunc {
	colons := strings.NewReplacer("%3A", ":", "%3a", ":")
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			u := c.Request().URL
			if u.RawPath != "" {
				u.RawPath = colons.Replace(u.RawPath)
				if !strings.Contains(u.RawPath, "%") {
					u.RawPath = "" // Path says the same
				}
			}
			return next(c)
		}
	}
}

// Params decodes path parameters once. The router leaves them as they were sent
// when the path has escapes that matter to it.
func Params() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if c.Request().URL.RawPath == "" {
				return next(c)
			}
			names, values := c.ParamNames(), c.ParamValues()
			decoded := make([]string, len(names))
			for i, name := range names {
				value, err := url.PathUnescape(values[i])
				if err != nil {
					return apierr.BadRequest("%s has an invalid percent escape in the path", name)
				}
				decoded[i] = value
			}
			c.SetParamValues(decoded...)
			return next(c)
		}
	}
}
