package middleware

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// Recover turns a panic into a 500 and logs it with its stack.
func Recover(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				p := recover()
				if p == nil {
					return
				}
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p) // net/http drops the connection
				}
				log.LogAttrs(c.Request().Context(), slog.LevelError, "a handler panicked",
					slog.String("request_id", requestID(c)),
					slog.String("route", c.Path()),
					slog.Any("panic", p),
					slog.String("stack", string(debug.Stack())))
				err = apierr.Internal(fmt.Errorf("panic: %v", p))
			}()
			return next(c)
		}
	}
}
