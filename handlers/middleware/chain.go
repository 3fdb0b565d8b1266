package middleware

import "github.com/labstack/echo/v4"

// Chain returns one middleware that applies all, the first one outermost. Echo would compose its middleware for each
// request; Chain composes it once.
func Chain(all ...echo.MiddlewareFunc) echo.MiddlewareFunc {
	chain := func(c echo.Context) error { return c.Handler()(c) }
	for i := len(all) - 1; i >= 0; i-- {
		chain = all[i](chain)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.SetHandler(next)
			return chain(c)
		}
	}
}

// Except returns a middleware that applies m except to requests for which skip returns true.
func Except(skip func(echo.Context) bool, m echo.MiddlewareFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		with := m(next)
		return func(c echo.Context) error {
			if skip(c) {
				return next(c)
			}
			return with(c)
		}
	}
}
