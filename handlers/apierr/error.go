// Package apierr has the one error type of the HTTP surface and the one place
// where an error becomes a response body. It decides nothing about what is an
// error; the handlers do.
package apierr

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

var (
	// ErrClientGone says that nobody waits for the answer any more: nothing is
	// sent and it is no failure of the service.
	ErrClientGone = errors.New("the client has gone")
	// ErrStopping is the cause with which a stopping server cancels the requests
	// that outlast its grace.
	ErrStopping = errors.New("the service is stopping")
)

// StatusClientGone is what logs and metrics show for ErrClientGone; it is never
// sent.
const StatusClientGone = 499

// Error is what a client is told about a failed request.
type Error struct {
	// Status is one of 400, 401, 403, 404, 429, 500, 502 and 503: the generated
	// clients know typed exceptions for these alone. The peer's form has 405 besides,
	// and 500 for all of 5xx.
	Status int
	// Message is for the user: what was wrong, with which parameter, what to do.
	Message string
	// Code says in one machine-readable word why; may be empty.
	Code string
	// Outcomes accounts for a failed aggregation; may be nil.
	Outcomes any
	// Err is the cause, for the log alone.
	Err error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%d: %s: %v", e.Status, e.Message, e.Err)
	}
	return fmt.Sprintf("%d: %s", e.Status, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// BadRequest is a client's mistake; the message begins with the parameter.
func BadRequest(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// NotFound is a thing that does not exist, or is not served here.
func NotFound(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

// Unavailable is a passing lack of something the answer needs.
func Unavailable(cause error, format string, args ...any) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...), Err: cause}
}

// Internal is a fault of the service itself; cause is logged, never sent.
func Internal(cause error) *Error {
	return &Error{
		Status:  http.StatusInternalServerError,
		Message: "something went wrong inside the service; try again, and if it persists report the x-request-id of this response",
		Err:     cause,
	}
}

// from makes an Error of whatever a handler or the router returned.
func from(err error, c echo.Context, form Form) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(c.Request().Context()), ErrStopping) {
		return Unavailable(err, "the service is stopping; send the request again")
	}
	var routing *echo.HTTPError
	if !errors.As(err, &routing) {
		return Internal(err)
	}
	r := c.Request()
	switch {
	case routing.Code == http.StatusMethodNotAllowed && form == Peer:
		return &Error{Status: routing.Code, Message: fmt.Sprintf("method %s is not allowed here; use POST", Excerpt(r.Method))}
	case routing.Code == http.StatusNotFound, routing.Code == http.StatusMethodNotAllowed:
		return NotFound("there is no %s %s; check the method and the path (GET /docs at the public address lists them)", Excerpt(r.Method), Excerpt(r.URL.Path))
	case routing.Code >= 400 && routing.Code < 500:
		return &Error{Status: http.StatusBadRequest, Message: fmt.Sprint(routing.Message), Err: err}
	default:
		return Internal(err)
	}
}

// Excerpt shortens text of a client's making, so that neither bodies nor logs
// grow with it.
func Excerpt(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
