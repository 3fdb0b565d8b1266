// Package apierr defines the error type of the HTTP API and encodes errors as response bodies. Handlers decide what is
// an error.
package apierr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/internal/store"
)

var (
	// ErrClientGone reports that the client has disconnected. Nothing is sent, and it is no failure of the service.
	ErrClientGone = errors.New("the client has gone")
	// ErrStopping is the cause with which a stopping server cancels requests at the end of its grace period.
	ErrStopping = errors.New("the service is stopping")
)

// HasGone reports whether the client of a request has disconnected: its context ended, and not because the server stops.
func HasGone(request context.Context) bool {
	return request.Err() != nil && !errors.Is(context.Cause(request), ErrStopping)
}

// StatusClientGone is the status of ErrClientGone in logs and metrics; it is never sent.
const StatusClientGone = 499

// Error is the error of a failed request, as the client gets it.
type Error struct {
	// Status is one of 400, 401, 403, 404, 429, 500, 502 and 503: the generated clients have typed exceptions only for
	// these. Streams, which they do not call, also have 410. The Peer form also has 405, and 500 for all of 5xx.
	Status int
	// Message tells the user what is wrong, with which parameter, and what to do.
	Message string
	// Code is the reason as one machine-readable word; it may be empty.
	Code string
	// RetryAfter is when the same request may succeed; 0 if that is not known. Handler sends it as Retry-After.
	RetryAfter time.Duration
	// Outcomes lists the outcomes of a failed aggregation; it may be nil.
	Outcomes any
	// Err is the cause. It is only logged.
	Err error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%d: %s: %v", e.Status, e.Message, e.Err)
	}
	return fmt.Sprintf("%d: %s", e.Status, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// BadRequest returns the error for an invalid request. The message begins with the parameter.
func BadRequest(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// NotFound returns the error for a resource that does not exist or is not served.
func NotFound(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

// Unavailable returns the error for a temporary condition.
func Unavailable(cause error, format string, args ...any) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...), Err: cause}
}

// Unreadable returns the error for an answer from the index while the store is unavailable.
func Unreadable(cause error) *Error {
	e := Unavailable(cause, "the index cannot be read at the moment; try again in a few seconds")
	e.Code, e.RetryAfter = string(l1message.CodeNotIndexed), l1message.IndexPause
	return e
}

// Stopping returns the error for a request that the end of the service interrupts.
func Stopping(cause error) *Error {
	e := Unavailable(cause, "the service is stopping; send the request again")
	e.Code = string(aggregator.CodeShutdown)
	return e
}

// Internal returns the error for a fault of the service; cause is logged and never sent.
func Internal(cause error) *Error {
	return &Error{
		Status:  http.StatusInternalServerError,
		Message: "something went wrong inside the service; try again, and if it persists report the x-request-id of this response",
		Err:     cause,
	}
}

// from converts an error of a handler or of the router to an Error.
func from(err error, c echo.Context, form Form) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(c.Request().Context()), ErrStopping) {
		return Stopping(err)
	}
	if errors.Is(err, store.ErrUnavailable) {
		return Unreadable(err)
	}
	var routing *echo.HTTPError
	if !errors.As(err, &routing) {
		return Internal(err)
	}
	r := c.Request()
	switch {
	case routing.Code == http.StatusMethodNotAllowed && form == Peer:
		return &Error{Status: routing.Code, Message: fmt.Sprintf("method %s is not allowed here; use POST", Excerpt(r.Method))}
	case routing.Code == http.StatusNotFound && (strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/v2/")):
		return NotFound("there is no %s %s: this address does not offer such an operation; check the method and the path (GET /docs/openapi.json at the public address lists all operations)", Excerpt(r.Method), Excerpt(r.URL.Path))
	case routing.Code == http.StatusNotFound, routing.Code == http.StatusMethodNotAllowed:
		return NotFound("there is no %s %s; check the method and the path (GET /docs at the public address lists them)", Excerpt(r.Method), Excerpt(r.URL.Path))
	case routing.Code >= 400 && routing.Code < 500:
		return &Error{Status: http.StatusBadRequest, Message: fmt.Sprint(routing.Message), Err: err}
	default:
		return Internal(err)
	}
}

// Excerpt shortens text that a client sent, so that it cannot inflate bodies and logs.
func Excerpt(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
