package middleware

import "github.com/labstack/echo/v4"

// Errors sends the response for a failed request, so that outer middleware (log, metrics) gets the final status.
func Errors() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := next(c); err != nil {
				c.Error(err)
			}
			return nil
		}
	}
}
