// Package middleware implements the middleware of all requests. Each middleware does one thing; the caller decides the
// order.
package middleware

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"github.com/labstack/echo/v4"
)

// RequestID gives each request an ID: the client's X-Request-Id if it is short and plain, otherwise a random one. The
// response contains it.
func RequestID() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			id := c.Request().Header.Get(echo.HeaderXRequestID)
			if !plain(id) {
				var b [16]byte // enough to be unique
				binary.BigEndian.PutUint64(b[:], rand.Uint64())
				binary.BigEndian.PutUint64(b[8:], rand.Uint64())
				id = hex.EncodeToString(b[:])
			}
			c.Response().Header().Set(echo.HeaderXRequestID, id)
			return next(c)
		}
	}
}

// requestID returns the ID of the request.
func requestID(c echo.Context) string {
	return c.Response().Header().Get(echo.HeaderXRequestID)
}

func plain(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, b := range []byte(id) {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}
