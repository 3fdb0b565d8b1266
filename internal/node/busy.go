package node

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// busyError reports that an endpoint or a proxy before it has a problem that usually passes: HTTP status 429, 502, 503
// or 504. refused reports that the node did not get the call.
type busyError struct {
	text    string
	refused bool
}

func (e *busyError) Error() string { return e.text }

const (
	// firstRetry is the pause before calls are repeated that failed with a busyError. It doubles up to longestRetry.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 2 * time.Second
	// retryWithout is how long calls are repeated whose context has no deadline.
	retryWithout = 2 * time.Second
	// longestHold bounds how long an endpoint is left alone at its request.
	longestHold = 10 * time.Minute
	// maxExcerpt bounds what an error shows of a response, in bytes. cutMark ends it if there is more.
	maxExcerpt = 200
	cutMark    = "…"
)

// checkStatus returns the error that the status of a response stands for, or nil if the content decides.
func (e *endpoint) checkStatus(method string, answer *http.Response, content []byte) error {
	text := "HTTP status " + answer.Status
	if shown := excerpt(content); shown != "" {
		text += ": " + shown
	}
	switch code := answer.StatusCode; {
	case code == http.StatusOK, code == http.StatusBadRequest, code == http.StatusNotFound:
		return nil
	case notOfferedStatus(code):
		return &RPCError{Method: method, Code: code, Message: text}
	case busyStatus(code):
		e.hold(answer.Header.Get("Retry-After"))
		return &busyError{text, code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable}
	case code >= 300 && code < 400:
		target := "an unknown address"
		if u, err := answer.Location(); err == nil {
			target = u.Scheme + "://" + u.Host + MaskPath(u.Path)
		}
		return errors.New("HTTP status " + answer.Status + ": it redirects to " + target + ", which is not followed; configure the address that answers")
	}
	return errors.New(text)
}

// notOfferedStatus reports whether an HTTP status says that a method is not allowed or not offered.
func notOfferedStatus(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

func busyStatus(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// excerpt returns the beginning of a response for an error, on one line.
func excerpt(content []byte) string {
	cut := len(content) > maxExcerpt
	if cut {
		content = content[:maxExcerpt]
	}
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(content), ""))
	text = strings.Join(strings.Fields(text), " ")
	if cut {
		text += cutMark
	}
	return text
}

// hold leaves the endpoint alone for the time of a Retry-After header, seconds or a date.
func (e *endpoint) hold(after string) {
	var pause time.Duration
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(after); err == nil {
		pause = time.Until(date)
	}
	if pause <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heldUntil = time.Now().Add(min(pause, longestHold))
}

// held returns how long the endpoint is to be left alone, zero or less if it may be asked.
func (e *endpoint) held() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heldUntil.IsZero() {
		return 0
	}
	return time.Until(e.heldUntil)
}

// mayAsk returns a busyError while the endpoint is to be left alone.
func (e *endpoint) mayAsk() error {
	if pause := e.held(); pause > 0 {
		return &busyError{"it asked to wait (Retry-After), " + pause.Round(time.Millisecond).String() + " are left", true}
	}
	return nil
}

// repeat calls round until it is final, ctx's deadline is near, or ctx ends. A round may be repeated if all endpoints
// failed and some of them will soon work. It returns the last round's error.
func (c *Client) repeat(ctx context.Context, round func() (final bool, err error)) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(retryWithout)
	}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		final, err := round()
		if final {
			return err
		}
		wait := max(pause, c.shortestHold())
		if time.Until(deadline) <= wait {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// shortestHold returns how long it takes until an endpoint may be asked.
func (c *Client) shortestHold() time.Duration {
	shortest := longestHold
	for _, e := range c.endpoints {
		shortest = min(shortest, e.held())
	}
	return shortest
}
