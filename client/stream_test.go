package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/client"
)

func events(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}

// TestSignWithProgress reads a stream with everything that its format allows.
func TestSignWithProgress(t *testing.T) {
	m := unsignedMessage(t, ids.ID{1}, "slowly")
	signed := signedBy(t, m, 1)
	text := fmt.Sprintf(": a comment\n\nevent: progress\ndata: {\"totalWeight\":\"10\",\"signedWeight\":\"2\",\ndata:\"elapsedMilliseconds\":20}\n\n"+
		"event: new\ndata: 1\n\nid: 4\nretry: 5\nevent: empty\n\nevent: progress\r\ndata: {\"totalWeight\":\"10\",\"signedWeight\":\"5\",\"reasons\":[{\"code\":\"X\",\"weight\":\"5\"}],\"elapsedMilliseconds\":41}\r\n\r\n"+
		"event: result\ndata: {\"signedMessage\":%q}\n\nevent: progress\ndata: never read\n\n", hexOf(signed))
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept"); got != "text/event-stream" {
			t.Errorf("got Accept %q", got)
		}
		events(text)(w, r)
	}, client.Options{})
	var seen []client.Progress
	got, err := c.SignWithProgress(t.Context(), client.Request{Message: m.Bytes()}, func(p client.Progress) { seen = append(seen, p) })
	require.NoError(t, err)
	require.Equal(t, signed, got)
	require.Equal(t, []client.Progress{
		{Account: client.Account{TotalWeight: 10, SignedWeight: 2}, Elapsed: 20 * time.Millisecond},
		{Account: client.Account{TotalWeight: 10, SignedWeight: 5, Reasons: []client.Reason{{Code: "X", Weight: 5}}}, Elapsed: 41 * time.Millisecond},
	}, seen)
}

// TestStreamsThatFail checks how streams end without a signed message.
func TestStreamsThatFail(t *testing.T) {
	m := unsignedMessage(t, ids.ID{1}, "asked")
	other := signedBy(t, unsignedMessage(t, ids.ID{1}, "never asked"), 1)
	for name, test := range map[string]struct {
		handler  http.HandlerFunc
		want     error
		requests int
	}{
		"an error event":      {events("event: error\ndata: {\"message\":\"no\",\"statusCode\":500,\"code\":\"REFUSED\"}\n\n"), &client.Error{Code: client.CodeRefused}, 1},
		"a busy service":      {events("event: error\ndata: {\"message\":\"no\",\"statusCode\":503,\"code\":\"BUSY\"}\n\n"), &client.Error{Code: client.CodeBusy}, 2},
		"an error before it":  {answer(400, `{"message":"no","code":"UNKNOWN_SUBNET"}`), &client.Error{Code: client.CodeUnknownSubnet}, 1},
		"no stream":           {answer(200, `{"signedMessage":""}`), client.ErrBadAnswer, 1},
		"cut":                 {events("event: progress\ndata: {}\n\nevent: res"), io.ErrUnexpectedEOF, 2},
		"cut within an event": {events("event: result\ndata: {}\n"), io.ErrUnexpectedEOF, 2},
		"another message":     {events("event: result\ndata: {\"signedMessage\":\"" + hexOf(other) + "\"}\n\n"), client.ErrBadAnswer, 1},
		"no JSON":             {events("event: result\ndata: {\n\n"), client.ErrBadAnswer, 1},
		"no JSON of progress": {events("event: progress\ndata: {\n\n"), client.ErrBadAnswer, 1},
		"no JSON of an error": {events("event: error\ndata: {\n\n"), client.ErrBadAnswer, 1},
		"an endless line": {func(w http.ResponseWriter, r *http.Request) {
			events("event: progress\ndata: ")(w, r)
			endless(t)(w, r)
		}, client.ErrBadAnswer, 1},
		"endless lines": {func(w http.ResponseWriter, r *http.Request) {
			events("event: progress\n")(w, r)
			for line := "data: " + strings.Repeat(" ", 1<<20) + "\n"; ; {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}, client.ErrBadAnswer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				test.handler(w, r)
			}, client.Options{Attempts: 2})
			_, err := c.SignWithProgress(t.Context(), client.Request{Message: m.Bytes()}, func(client.Progress) {})
			require.ErrorIs(t, err, test.want)
			require.Equal(t, test.requests, requests)
		})
	}
}
