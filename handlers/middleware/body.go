package middleware

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// maxDrain is how much of an oversized body is read and discarded, in bytes. A client that sends its whole body before
// it reads then gets the response and can reuse the connection.
const maxDrain = 4 << 20

// BodyLimits are the limits of a request body: its size in bytes, and the time for its arrival.
type BodyLimits struct {
	Size int64
	Time time.Duration
}

// Body limits request bodies to what limits returns for each of them. Reading a body beyond either limit fails with a
// 400. The deadline also applies to a body that no handler reads, which net/http consumes afterwards.
func Body(limits func() BodyLimits) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
				return next(c)
			}
			l := limits()
			// The deadline does not limit the handler: net/http removes it at the end of the body. Not every writer
			// supports deadlines; httptest's recorder does not.
			_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(l.Time))
			r.Body = &body{
				ReadCloser: r.Body,
				response:   c.Response(),
				limit:      l.Size,
				left:       l.Size,
				arrival:    l.Time,
				declared:   r.ContentLength,
				waiting:    r.Header.Get("Expect") != "",
			}
			return next(c)
		}
	}
}

type body struct {
	io.ReadCloser
	response    *echo.Response
	limit, left int64
	arrival     time.Duration
	declared    int64 // Content-Length, -1 if unknown
	waiting     bool  // the client waits for 100 Continue before it sends the body
	err         error // sticky
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.declared > b.limit && (b.waiting || b.declared > b.limit+maxDrain) {
		b.response.Header().Set(echo.HeaderConnection, "close")
		b.err = b.tooLarge()
		return 0, b.err
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		err = b.drain()
	}
	b.left -= int64(n)
	if err != nil {
		b.err = b.settle(err)
		return n, b.err
	}
	return n, nil
}

// drain discards what follows the limit.
func (b *body) drain() error {
	_, err := io.CopyN(io.Discard, b.ReadCloser, maxDrain)
	if err == nil { // there is more
		b.response.Header().Set(echo.HeaderConnection, "close")
		return b.tooLarge()
	}
	if errors.Is(err, io.EOF) {
		return b.tooLarge()
	}
	return err
}

// settle converts the error at the end of a body to the error for the handler.
func (b *body) settle(err error) error {
	var known *apierr.Error
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.As(err, &known):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.response.Header().Set(echo.HeaderConnection, "close")
		return apierr.BadRequest("the request body did not arrive within %s; send it at once", b.arrival)
	default:
		b.response.Header().Set(echo.HeaderConnection, "close")
		e := apierr.BadRequest("the request body ended before it was complete; check Content-Length and the connection")
		e.Err = err
		return e
	}
}

func (b *body) tooLarge() error {
	return apierr.BadRequest("the request body is larger than %d bytes; a Warp message with its justification fits in far less", b.limit)
}
