package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/client"
)

// transport answers the n-th request, from 0, in place of a server.
type transport func(n int, r *http.Request) (*http.Response, error)

// scripted returns a client of a transport, and the number of its requests.
func scripted(t *testing.T, attempts int, answer transport) (*client.Client, *int) {
	t.Helper()
	requests := new(int)
	c, err := client.New(client.Options{
		URL: "http://quorate.test", Network: "fuji", Attempts: attempts,
		HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			*requests++
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			return answer(*requests-1, r)
		})},
	})
	require.NoError(t, err)
	return c, requests
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string, header ...string) (*http.Response, error) {
	r := &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r, nil
}

const busy = `{"message":"try again","statusCode":503,"code":"BUSY"}`

// TestRetryAfter checks that a call waits as long as the answer says, and no longer.
func TestRetryAfter(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header []string
		want   time.Duration
		about  bool // the pause is drawn
	}{
		"seconds":                       {503, []string{"Retry-After", "3"}, 3 * time.Second, false},
		"seconds of a limit":            {429, []string{"Retry-After", " 7 "}, 7 * time.Second, false},
		"a date":                        {503, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"}, 9 * time.Second, false},
		"a date of another clock":       {503, []string{"Retry-After", "Mon, 03 Nov 2031 10:00:04 GMT", "Date", "Mon, 03 Nov 2031 10:00:00 GMT"}, 4 * time.Second, false},
		"a past date":                   {503, []string{"Retry-After", "Sat, 01 Jan 1994 00:00:00 GMT"}, 250 * time.Millisecond, true},
		"nothing":                       {503, nil, 250 * time.Millisecond, true},
		"nonsense":                      {503, []string{"Retry-After", "soon"}, 250 * time.Millisecond, true},
		"a number that is out of range": {503, []string{"Retry-After", "-5"}, 250 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := signedBy(t, unsignedMessage(t, ids.Empty, "late"), 1)
				c, requests := scripted(t, 0, func(n int, _ *http.Request) (*http.Response, error) {
					if n == 0 {
						return respond(test.status, busy, test.header...)
					}
					return respond(200, `{"signedMessage":"`+hexOf(m)+`"}`)
				})
				start := time.Now()
				got, err := c.SignTransaction(t.Context(), ids.ID{1})
				require.NoError(t, err)
				require.Equal(t, m, got)
				require.Equal(t, 2, *requests)
				if waited := time.Since(start); test.about {
					require.InEpsilon(t, test.want, waited, 0.51)
				} else {
					require.Equal(t, test.want, waited)
				}
			})
		})
	}
}

// TestRetriesEnd checks what ends a call that keeps failing: the number of attempts, the context, or a pause that is
// too long.
func TestRetriesEnd(t *testing.T) {
	refusedConnection := errors.New("connection refused")
	for name, test := range map[string]struct {
		attempts         int
		timeout          time.Duration
		answer           transport
		requests         int
		shortest, longer time.Duration
		want             error
	}{
		"all attempts": {0, time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(503, busy, "Retry-After", "2") }, 5, 8 * time.Second, 8 * time.Second, &client.Error{Code: client.CodeBusy}},
		"one attempt":  {1, time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(503, busy, "Retry-After", "2") }, 1, 0, 0, &client.Error{Code: client.CodeBusy}},
		"the deadline would pass": {0, 3 * time.Second, func(int, *http.Request) (*http.Response, error) { return respond(503, busy, "Retry-After", "2") }, 2, 2 * time.Second, 2 * time.Second,
			&client.Error{Code: client.CodeBusy}},
		"an hour": {0, 24 * time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(429, busy, "Retry-After", "3600") }, 1, 0, 0, &client.Error{Code: client.CodeBusy}},
		"no connection": {4, time.Hour, func(int, *http.Request) (*http.Response, error) { return nil, refusedConnection }, 4,
			875 * time.Millisecond, 2625 * time.Millisecond, refusedConnection},
		"a connection that breaks": {2, time.Hour, func(int, *http.Request) (*http.Response, error) {
			r, err := respond(200, "")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"signed`), broken{}))
			return r, err
		}, 2, 125 * time.Millisecond, 375 * time.Millisecond, io.ErrUnexpectedEOF},
		"a proxy without JSON":  {2, time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(503, "<html>") }, 2, 125 * time.Millisecond, 375 * time.Millisecond, client.ErrBadAnswer},
		"a failure that stays":  {0, time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(500, busy, "Retry-After", "2") }, 1, 0, 0, &client.Error{Code: client.CodeBusy}},
		"a message not seen":    {0, time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(404, busy, "Retry-After", "2") }, 1, 0, 0, &client.Error{Code: client.CodeBusy}},
		"an answer that is bad": {0, time.Hour, func(int, *http.Request) (*http.Response, error) { return respond(200, "{") }, 1, 0, 0, client.ErrBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, requests := scripted(t, test.attempts, test.answer)
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				start := time.Now()
				_, err := c.SignTransaction(ctx, ids.ID{1})
				waited := time.Since(start)
				require.ErrorIs(t, err, test.want)
				require.Equal(t, test.requests, *requests)
				require.GreaterOrEqual(t, waited, test.shortest)
				require.LessOrEqual(t, waited, test.longer)
			})
		})
	}
}

// broken is a body whose connection fails.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestCancelDuringPause checks that a cancelled call ends at once, with the cause and the failure before it.
func TestCancelDuringPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, requests := scripted(t, 0, func(int, *http.Request) (*http.Response, error) { return respond(503, busy, "Retry-After", "30") })
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the relayer stops")
		start := time.Now()
		time.AfterFunc(10*time.Second, func() { cancel(cause) })
		_, err := c.SignTransaction(ctx, ids.ID{1})
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, &client.Error{Code: client.CodeBusy})
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Equal(t, 1, *requests)
	})
}

// TestIdleConnectionIsClosed checks that a connection which the server closed between two calls costs neither an attempt
// nor a pause.
func TestIdleConnectionIsClosed(t *testing.T) {
	m := unsignedMessage(t, ids.ID{1}, "again")
	requests := 0
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		if got, sent := r.Header["Idempotency-Key"]; sent {
			t.Errorf("got header Idempotency-Key %q", got)
		}
		if requests++; requests == 2 {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = connection.Close()
			return
		}
		answer(200, `{"signedMessage":"`+hexOf(signedBy(t, m, 1))+`"}`)(w, r)
	}, client.Options{Attempts: 1})
	for range 2 {
		_, err := c.Sign(t.Context(), client.Request{Message: m.Bytes()})
		require.NoError(t, err)
	}
	require.Equal(t, 3, requests)
}

// TestBodiesAreClosed checks that each answer is closed, so that its connection can be used again.
func TestBodiesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := 0
		c, requests := scripted(t, 3, func(n int, r *http.Request) (*http.Response, error) {
			open++
			response, err := respond([]int{503, 429, 200}[n], busy)
			response.Body = closing{response.Body, func() { open-- }}
			return response, err
		})
		_, err := c.SignWithProgress(t.Context(), client.Request{}, func(client.Progress) {})
		require.ErrorIs(t, err, client.ErrBadAnswer) // of a Content-Type
		require.Equal(t, 3, *requests)
		require.Zero(t, open)
	})
}

type closing struct {
	io.Reader
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return nil
}
