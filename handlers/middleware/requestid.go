// Package middleware has what every request passes through, whatever it asks
// for. Each middleware does one thing; the order is decided where they are put
// together.
package middleware

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"github.com/labstack/echo/v4"
)

// RequestID gives each request an ID: the client's own X-Request-Id if it is
// short and plain, else a random one. The response carries it.
func RequestID() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			id := c.Request().Header.Get(echo.HeaderXRequestID)
			if !plain(id) {
				var b [16]byte // unique, which is all it has to be
				binary.BigEndian.PutUint64(b[:], rand.Uint64())
				binary.BigEndian.PutUint64(b[8:], rand.Uint64())
				id = hex.EncodeToString(b[:])
			}
			c.Response().Header().Set(echo.HeaderXRequestID, id)
			return next(c)
		}
	}
}

// requestID is what RequestID decided on.
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
