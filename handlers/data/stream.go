package data

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
)

// holdBack is how much of an answer is buffered before sending begins, in bytes. An error before that gets an error
// response.
const holdBack = 1 << 20

// stream sends an answer that is too large for memory. After the first error it sends nothing. The answer is complete
// only after end.
type stream struct {
	response *echo.Response
	log      *slog.Logger
	held     bytes.Buffer
	encoder  *json.Encoder
	sending  bool
	err      error // of the connection; sticky
}

func newStream(r *echo.Response, log *slog.Logger) *stream {
	s := &stream{response: r, log: log}
	s.encoder = json.NewEncoder(&s.held)
	return s
}

func (s *stream) text(t string) { s.held.WriteString(t) }

// value appends a value as JSON.
func (s *stream) value(v any) error {
	if s.err != nil {
		return s.err
	}
	if err := s.encoder.Encode(v); err != nil {
		return err
	}
	if s.held.Len() >= holdBack {
		s.send()
	}
	return s.err
}

func (s *stream) send() {
	if !s.sending {
		s.sending = true
		s.response.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		s.response.WriteHeader(http.StatusOK)
	}
	_, s.err = s.response.Write(s.held.Bytes())
	s.held.Reset()
}

// list sends a page of up to size elements of one field, and the token of the next page. read sends up to left elements
// with element and returns the position after them: nil at the end of the list.
func (s *stream) list(ctx context.Context, field string, size int, token func(next []byte) string,
	read func(left int, element func(v any) error) (next []byte, err error),
) error {
	s.text(`{"` + field + `":[`)
	sent := 0
	element := func(v any) error {
		if sent > 0 {
			s.text(",")
		}
		sent++
		return s.value(v)
	}
	var next []byte
	for sent < size {
		before := sent
		var err error
		if next, err = read(size-sent, element); err != nil {
			return s.fail(ctx, err)
		}
		if next == nil || sent == before {
			break
		}
	}
	s.text("]")
	if next != nil {
		s.text(`,"nextPageToken":"` + token(next) + `"`)
	}
	s.text("}")
	return s.end()
}

// end completes the answer.
func (s *stream) end() error {
	if s.send(); s.err != nil {
		return apierr.ErrClientGone
	}
	return nil
}

// fail ends the answer with an error. If a part was sent, it closes the connection, so that clients notice the
// truncation.
func (s *stream) fail(ctx context.Context, err error) error {
	switch {
	case !s.sending:
		return err
	case s.err != nil:
		return apierr.ErrClientGone
	}
	s.log.LogAttrs(ctx, slog.LevelError, "an answer was cut short", slog.Any("error", err))
	panic(http.ErrAbortHandler)
}
