package apierr

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Form is a shape of error bodies.
type Form int

const (
	// DataAPI is {message, statusCode, error}.
	DataAPI Form = iota
	// Peer is {error}, of the stand-alone signature aggregator program.
	Peer
	// MetricsAPI is as DataAPI, with a list of messages.
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

// Body is what the Data API sends of an error.
func Body(e *Error) any {
	return dataBody{Message: e.Message, StatusCode: e.Status, Error: http.StatusText(e.Status), Code: e.Code, Outcomes: e.Outcomes}
}

const contextKey = "apierr"

// Of is the error that the request ended with, nil if it succeeded.
func Of(c echo.Context) *Error {
	e, _ := c.Get(contextKey).(*Error)
	return e
}

const insideKey = "apierr.inside"

// Failure is a failed part of an answer that as a whole succeeded.
type Failure struct {
	// Part says which it is.
	Part string
	*Error
}

// Note keeps a failure inside an answer for the log: its client is told the body of
// the error and no cause. It is for the goroutine that serves the request.
func Note(c echo.Context, part string, e *Error) {
	c.Set(insideKey, append(Inside(c), Failure{part, e}))
}

// Inside are the failures inside the answer to a request, in the order in which they
// were noted.
func Inside(c echo.Context) []Failure {
	failures, _ := c.Get(insideKey).([]Failure)
	return failures
}

// Handler turns errors into responses; formOf picks the form by the request's
// path.
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
			peer.Status = http.StatusInternalServerError // its program knows no other
			e = &peer
		}
		c.Set(contextKey, e)
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
			_ = c.NoContent(e.Status) // fails only if the client is gone
			return
		}
		_ = c.Blob(e.Status, echo.MIMEApplicationJSON, content) // likewise
	}
}

// hangUp ends the connection of a client that has left. Without it net/http
// would complete the exchange with an empty 200, which a client that merely
// closed its sending side would take for an answer.
func hangUp(c echo.Context) {
	c.Response().Status = StatusClientGone
	conn, _, err := http.NewResponseController(c.Response().Writer).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
