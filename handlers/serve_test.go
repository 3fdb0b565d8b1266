package handlers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/middleware"
)

// timeout is how long tests wait for what normally takes milliseconds.
const timeout = 2 * time.Minute

// running is a surface that is served on loopback until stop.
type running struct {
	addr string
	stop func() error
}

func start(t *testing.T, h http.Handler, grace, farewell time.Duration) running {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, ln, h, ServeOptions{}, grace, farewell)
	}()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("serve: got %v, want nil", err)
		}
	})
	return running{addr: ln.Addr().String(), stop: stop}
}

func dial(t testing.TB, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	return conn, bufio.NewReader(conn)
}

func requestText(path string, length int, extra, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", path, length, extra, body)
}

func readResponse(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

// blocking signs nothing until its context ends, and says when it has begun.
func blocking() (s *fakeSigner, begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}, 1), make(chan error, 1)
	return &fakeSigner{sign: func(ctx context.Context, _ aggregator.Request) (*aggregator.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, fmt.Errorf("waiting for signatures: %w", ctx.Err())
	}}, begun, ended
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestClientGone(t *testing.T) {
	body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	for _, leave := range []string{"closes", "closes its sending side"} {
		t.Run(leave, func(t *testing.T) {
			s, begun, ended := blocking()
			var log lines
			srv := start(t, newPublic(t, s, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }), timeout, timeout)
			conn, r := dial(t, srv.addr)
			_, err := io.WriteString(conn, requestText(fujiPath, len(body), "", body))
			require.NoError(t, err)
			<-begun
			if leave == "closes" {
				require.NoError(t, conn.Close())
			} else {
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
				rest, err := io.ReadAll(r)
				require.NoError(t, err, "the connection must be closed")
				require.Empty(t, rest, "nothing is sent to a client that has left")
			}
			require.ErrorIs(t, <-ended, context.Canceled)
			require.NoError(t, srv.stop())
			require.Contains(t, log.String(), "status=499")
			require.Contains(t, log.String(), "level=INFO")
			require.NotContains(t, log.String(), "level=ERROR")
			require.NotContains(t, log.String(), "level=WARN")
		})
	}
}

func TestRequestTimeout(t *testing.T) {
	s, _, ended := blocking()
	h := newPublic(t, s, func(o *Options) { o.RequestTimeout = 10 * time.Millisecond })
	w := post(h, fujiPath, `{"message":"`+hexOf(message(t, 5).Bytes())+`"}`)
	requireAPIError(t, w, 503, "time allowed")
	require.ErrorIs(t, <-ended, context.DeadlineExceeded)
}

// shortBodies returns limits with little time for bodies.
func shortBodies() middleware.BodyLimits {
	return middleware.BodyLimits{Size: 256 << 10, Time: 100 * time.Millisecond}
}

// TestWorkOutlastsBodyTimeout: the deadline of a body must not end the work on a
// request whose body has arrived.
func TestWorkOutlastsBodyTimeout(t *testing.T) {
	s := &fakeSigner{sign: func(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(300 * time.Millisecond):
			return signed(req), nil
		}
	}}
	srv := start(t, newPublic(t, s, func(o *Options) { o.Body = shortBodies }), timeout, timeout)
	body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	conn, r := dial(t, srv.addr)
	for range 2 { // the connection stays usable
		_, err := io.WriteString(conn, requestText(fujiPath, len(body), "", body))
		require.NoError(t, err)
		response, content := readResponse(t, r)
		require.Equal(t, 200, response.StatusCode, content)
	}
}

func TestSlowBody(t *testing.T) {
	var s fakeSigner
	srv := start(t, newPublic(t, &s, func(o *Options) { o.Body = shortBodies }), timeout, timeout)
	for _, path := range []string{fujiPath, peerPath} {
		for _, head := range []string{
			requestText(path, 100, "", `{"mess`),
			"POST " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mes\r\n",
			requestText(path, 1<<20, "", strings.Repeat(" ", 300<<10)), // too large and unfinished
		} {
			conn, r := dial(t, srv.addr)
			_, _ = io.WriteString(conn, head) // which is cut short on a machine too busy to write it in 100 ms
			response, content := readResponse(t, r)
			require.Equal(t, 400, response.StatusCode)
			require.Contains(t, content, "did not arrive within 100ms")
			require.True(t, response.Close, "the rest of the body must not be taken for a request")
			_, err := r.ReadByte()
			if len(head) > 1<<10 && errors.Is(err, syscall.ECONNRESET) {
				continue // what had not been read in time is refused
			}
			require.ErrorIs(t, err, io.EOF)
		}
	}
	require.Empty(t, s.requests())
}

// TestUnreadSlowBody: a body that no handler reads does not hold a connection.
func TestUnreadSlowBody(t *testing.T) {
	srv := start(t, newPublic(t, &fakeSigner{}, func(o *Options) { o.Body = shortBodies }), timeout, timeout)
	conn, r := dial(t, srv.addr)
	_, err := io.WriteString(conn, requestText("/v1/none", 100, "", "x"))
	require.NoError(t, err)
	response, _ := readResponse(t, r)
	require.Equal(t, 404, response.StatusCode)
	_, err = r.ReadByte()
	require.Error(t, err)
}

func TestTruncatedBody(t *testing.T) {
	var s fakeSigner
	srv := start(t, newPublic(t, &s, nil), timeout, timeout)
	conn, r := dial(t, srv.addr)
	_, err := io.WriteString(conn, requestText(fujiPath, 100, "", `{"mess`))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	response, content := readResponse(t, r)
	require.Equal(t, 400, response.StatusCode)
	require.Contains(t, content, "ended before it was complete")
	require.Empty(t, s.requests())
}

// TestOversizeBody: the client gets its answer, and the connection goes on if it
// can and is closed cleanly if not.
func TestOversizeBody(t *testing.T) {
	var s fakeSigner
	srv := start(t, newPublic(t, &s, nil), timeout, timeout)
	good := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	mib := strings.Repeat(" ", 1<<20)

	t.Run("1 MiB", func(t *testing.T) {
		conn, r := dial(t, srv.addr)
		_, err := io.WriteString(conn, requestText(fujiPath, len(mib), "", mib))
		require.NoError(t, err)
		response, content := readResponse(t, r)
		require.Equal(t, 400, response.StatusCode)
		require.Contains(t, content, "larger than 262144 bytes")
		require.False(t, response.Close)
		_, err = io.WriteString(conn, requestText(fujiPath, len(good), "", good))
		require.NoError(t, err)
		response, content = readResponse(t, r)
		require.Equal(t, 200, response.StatusCode, content)
	})
	t.Run("1 MiB chunked", func(t *testing.T) {
		conn, r := dial(t, srv.addr)
		_, err := io.WriteString(conn, "POST "+fujiPath+" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n"+mib+"\r\n0\r\n\r\n"+
			requestText(fujiPath, len(good), "", good))
		require.NoError(t, err)
		response, content := readResponse(t, r)
		require.Equal(t, 400, response.StatusCode, content)
		require.True(t, response.Close)
		_, err = r.ReadByte()
		require.Error(t, err, "what follows chunks is not answered")
		conn, r = dial(t, srv.addr)
		_, err = io.WriteString(conn, requestText(fujiPath, len(good), "", good))
		require.NoError(t, err)
		response, content = readResponse(t, r)
		require.Equal(t, 200, response.StatusCode, content)
	})
	t.Run("1 MiB announced", func(t *testing.T) {
		conn, r := dial(t, srv.addr)
		_, err := io.WriteString(conn, requestText(fujiPath, len(mib), "Expect: 100-continue\r\n", ""))
		require.NoError(t, err)
		response, content := readResponse(t, r)
		require.Equal(t, 400, response.StatusCode, "want no invitation to send the body")
		require.Contains(t, content, "larger than 262144 bytes")
		require.True(t, response.Close)
	})
	t.Run("1 GiB", func(t *testing.T) {
		conn, r := dial(t, srv.addr)
		_, err := io.WriteString(conn, requestText(fujiPath, 1<<30, "", "{"))
		require.NoError(t, err)
		response, content := readResponse(t, r)
		require.Equal(t, 400, response.StatusCode)
		require.Contains(t, content, "larger than 262144 bytes")
		require.True(t, response.Close)
	})
	t.Run("through net/http", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for range 5 {
			response, err := client.Post("http://"+srv.addr+fujiPath, "application/json", strings.NewReader(mib))
			require.NoError(t, err)
			require.Equal(t, 400, response.StatusCode)
			require.NoError(t, response.Body.Close())
		}
	})
	require.Len(t, s.requests(), 2, "only the good requests reach the signer")
}

func TestScenario_7_2_30_ShutdownFinishesRequests(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	s := &fakeSigner{sign: func(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
		close(begun)
		<-finish
		return signed(req), ctx.Err()
	}}
	srv := start(t, newPublic(t, s, nil), timeout, timeout)
	body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	conn, r := dial(t, srv.addr)
	_, err := io.WriteString(conn, requestText(fujiPath, len(body), "", body))
	require.NoError(t, err)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- srv.stop() }()
	for { // until the listener accepts no connection
		c, err := net.Dial("tcp", srv.addr)
		if err != nil {
			break
		}
		c.Close()
	}
	close(finish)
	response, content := readResponse(t, r)
	require.Equal(t, 200, response.StatusCode, content)
	require.NoError(t, <-stopped)
}

func TestScenario_7_2_30_ShutdownCancelsWhatOutlastsIt(t *testing.T) {
	s, begun, ended := blocking()
	srv := start(t, newPublic(t, s, nil), 10*time.Millisecond, timeout)
	body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
	conn, r := dial(t, srv.addr)
	_, err := io.WriteString(conn, requestText(fujiPath, len(body), "", body))
	require.NoError(t, err)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- srv.stop() }()
	require.ErrorIs(t, <-ended, context.Canceled)
	response, content := readResponse(t, r)
	require.Equal(t, 503, response.StatusCode, content)
	require.Contains(t, content, `"code":"SHUTTING_DOWN"`)
	require.NoError(t, <-stopped)
}

func TestServeReportsABrokenListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	err = Serve(t.Context(), ln, newPublic(t, &fakeSigner{}, nil), ServeOptions{})
	require.ErrorContains(t, err, "serving HTTP on 127.0.0.1")
	require.False(t, errors.Is(err, apierr.ErrStopping))
}
