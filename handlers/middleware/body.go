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

// maxDrain bounds what is read and dropped of a body that is too large, in bytes.
// A client that sends all of it before it looks at the response then finds one,
// on a connection that it can go on using.
const maxDrain = 4 << 20

// Body bounds the bodies of requests: limit in bytes, and patience for all of it
// to arrive. Reading a body beyond either fails with a 400. The deadline also
// covers a body that no handler reads, which net/http consumes afterwards.
func Body(limit int64, patience time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
				return next(c)
			}
			// The deadline does not cut short the work on the request: net/http
			// lifts it when the body ends. Not every writer has deadlines; a
			// recorder needs none.
			_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(patience))
			r.Body = &body{
				ReadCloser: r.Body,
				response:   c.Response(),
				limit:      limit,
				left:       limit,
				patience:   patience,
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
	patience    time.Duration
	declared    int64 // Content-Length, -1 if unknown
	waiting     bool  // the client sends nothing before the body is read
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

// drain takes in what follows the limit.
func (b *body) drain() error {
	_, err := io.CopyN(io.Discard, b.ReadCloser, maxDrain)
	if err == nil { // there is more still
		b.response.Header().Set(echo.HeaderConnection, "close")
		return b.tooLarge()
	}
	if errors.Is(err, io.EOF) {
		return b.tooLarge()
	}
	return err
}

// settle turns the end of a body into what the handler sees.
func (b *body) settle(err error) error {
	var known *apierr.Error
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.As(err, &known):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.response.Header().Set(echo.HeaderConnection, "close")
		return apierr.BadRequest("the request body did not arrive within %s; send it at once", b.patience)
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
