package middleware

import (
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// Colons replaces %3A in a path by a literal colon, which some operations' names contain. It must run before routing.
func Colons() echo.MiddlewareFunc {
	colons := strings.NewReplacer("%3A", ":", "%3a", ":")
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			u := c.Request().URL
			if u.RawPath != "" {
				u.RawPath = colons.Replace(u.RawPath)
				if !strings.Contains(u.RawPath, "%") {
					u.RawPath = "" // Path is equivalent
				}
			}
			return next(c)
		}
	}
}

// Params decodes path parameters once. The router does not decode them if the path has an escaped slash.
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
