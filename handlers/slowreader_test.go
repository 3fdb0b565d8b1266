package handlers

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/handlers/networks"
	"quorate/handlers/socket"
)

// A client that does not read its answers is disconnected, with one large answer or with many small
// ones to requests that it keeps sending.
func TestSlowReader(t *testing.T) {
	for name, test := range map[string]struct {
		requests int
		answer   []byte
	}{
		"one large answer":   {1, make([]byte, 64<<20)},
		"many small answers": {100_000, make([]byte, 4<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			guarded := socket.Listen(ln, socket.Options{Stall: 200 * time.Millisecond})
			failed := make(chan error, 1)
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(test.answer)
				if err == nil {
					err = http.NewResponseController(w).Flush()
				}
				if err != nil {
					failed <- err
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- serve(ctx, guarded, h, ServeOptions{}, timeout, timeout) }()
			conn, _ := dial(t, ln.Addr().String())
			go func() { // ends with the connection
				_, _ = io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", test.requests))
			}()
			select {
			case err := <-failed:
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			case <-time.After(timeout):
				t.Error("the client was not cut off")
			}
			// The connection itself is over, too: it is not waited for.
			cancel()
			require.NoError(t, <-served)
			require.NoError(t, conn.Close())
		})
	}
}

// The same holds for the reference of the real surface. A client that reads gets the same answers.
func TestSlowReaderOfTheReference(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	guarded := socket.Listen(ln, socket.Options{Stall: 500 * time.Millisecond})
	public, err := New(Options{Networks: networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}}})})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, guarded, public, ServeOptions{}, timeout, timeout) }()
	const ask = "GET /docs/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"

	stalled, _ := dial(t, ln.Addr().String())
	require.NoError(t, stalled.SetDeadline(time.Now().Add(timeout)))
	_, err = io.WriteString(stalled, strings.Repeat(ask, 200_000)) // more than buffers hold
	require.Error(t, err, "the server read on")
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the client was not cut off")

	reading, answers := dial(t, ln.Addr().String())
	require.NoError(t, reading.SetDeadline(time.Now().Add(timeout)))
	const times = 50
	_, err = io.WriteString(reading, strings.Repeat(ask, times))
	require.NoError(t, err)
	for range times {
		answer, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.Greater(t, n, int64(64<<10))
		require.NoError(t, answer.Body.Close())
	}
	require.NoError(t, reading.Close())
	cancel()
	require.NoError(t, <-served)
}
