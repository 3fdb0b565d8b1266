package apierr

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
)

// Form is a format of error bodies.
type Form int

const (
	// DataAPI is {message, statusCode, error}.
	DataAPI Form = iota
	// Peer is {error}, the format of the stand-alone signature aggregator.
	Peer
	// MetricsAPI is DataAPI with a list of messages.
	MetricsAPI
)

type dataBody struct {
	Message    string `json:"message"`
	StatusCode int    `json:"statusCode"`
	Error      string `json:"error"`
	Code       string `json:"code,omitempty"`
	Outcomes   any    `json:"outcomes,omitempty"`
}

type metricsBody struct {
	Message    []string `json:"message"`
	StatusCode int      `json:"statusCode"`
	Error      string   `json:"error"`
	Code       string   `json:"code,omitempty"`
}

type peerBody struct {
	Error    string `json:"error"`
	Code     string `json:"code,omitempty"`
	Outcomes any    `json:"outcomes,omitempty"`
}

// Body returns the body of an error in the Data API's format.
func Body(e *Error) any {
	return dataBody{Message: e.Message, StatusCode: e.Status, Error: http.StatusText(e.Status), Code: e.Code, Outcomes: e.Outcomes}
}

const contextKey = "apierr"

// Of returns the error that the request ended with, nil if it succeeded.
func Of(c echo.Context) *Error {
	e, _ := c.Get(contextKey).(*Error)
	return e
}

const insideKey = "apierr.inside"

const detailsKey = "apierr.details"

// Describe adds attributes to the log line of the request. Only the goroutine that serves the request may call it.
func Describe(c echo.Context, attrs ...slog.Attr) {
	c.Set(detailsKey, append(Details(c), attrs...))
}

// Details returns the attributes of the calls to Describe.
func Details(c echo.Context) []slog.Attr {
	attrs, _ := c.Get(detailsKey).([]slog.Attr)
	return attrs
}

// Failure is an error in a part of a successful answer.
type Failure struct {
	// Part identifies the part.
	Part string
	// Attrs are more attributes for the log.
	Attrs []slog.Attr
	*Error
}

// Note records a failure in a part of an answer for the log. The client gets the body of the error without its cause.
// Only the goroutine that serves the request may call it.
func Note(c echo.Context, part string, e *Error, attrs ...slog.Attr) {
	c.Set(insideKey, append(Inside(c), Failure{Part: part, Attrs: attrs, Error: e}))
}

// Inside returns the failures in parts of the answer, in the order of the calls to Note.
func Inside(c echo.Context) []Failure {
	failures, _ := c.Get(insideKey).([]Failure)
	return failures
}

// Handler returns an echo error handler that sends errors. formOf selects the format by the request's path.
func Handler(formOf func(path string) Form) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		if errors.Is(err, ErrClientGone) {
			hangUp(c)
			return
		}
		form := formOf(c.Request().URL.Path)
		e := from(err, c, form)
		if form == Peer && e.Status > http.StatusInternalServerError {
			peer := *e
			peer.Status = http.StatusInternalServerError // the stand-alone aggregator has no other 5xx
			e = &peer
		}
		c.Set(contextKey, e)
		if e.RetryAfter > 0 {
			c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		}
		body := Body(e)
		switch form {
		case Peer:
			body = peerBody{Error: e.Message, Code: e.Code, Outcomes: e.Outcomes}
		case MetricsAPI:
			body = metricsBody{Message: []string{e.Message}, StatusCode: e.Status, Error: http.StatusText(e.Status), Code: e.Code}
		}
		content, err := json.Marshal(body)
		if err != nil {
			e.Err = errors.Join(e.Err, err)
			content, _ = json.Marshal(dataBody{Message: e.Message, StatusCode: e.Status, Error: http.StatusText(e.Status)})
		}
		if c.Request().Method == http.MethodHead {
			_ = c.NoContent(e.Status) // fails only if the client has disconnected
			return
		}
		_ = c.Blob(e.Status, echo.MIMEApplicationJSON, content) // likewise
	}
}

// hangUp closes the connection of a client that has disconnected. Otherwise net/http would send an empty 200, which a
// client that only closed its sending side would take for an answer.
func hangUp(c echo.Context) {
	c.Response().Status = StatusClientGone
	conn, _, err := http.NewResponseController(c.Response().Writer).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
