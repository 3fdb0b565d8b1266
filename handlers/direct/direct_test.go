package direct

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// queue is a listener of connections within the process.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
}

func newQueue() *queue { return &queue{make(chan net.Conn), make(chan struct{})} }

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	close(q.done)
	return nil
}

func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

func (q *queue) dial() net.Conn {
	client, server := net.Pipe()
	q.conns <- server
	return client
}

// server is net/http behind a Listener.
type server struct {
	*queue
	listener *Listener
	foreign  atomic.Int64 // requests that net/http saw
	stop     func()
}

// begin serves h, directly if serves is not nil. What it starts has ended after stop.
func begin(h http.Handler, serves func(string) bool) *server {
	s := &server{queue: newQueue()}
	ctx, cancel := context.WithCancel(context.Background())
	quiet := slog.New(slog.DiscardHandler)
	inner := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.foreign.Add(1)
			h.ServeHTTP(w, r)
		}),
		ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, WriteTimeout: time.Minute,
	}
	var ln net.Listener = s.queue
	if serves != nil {
		s.listener = Listen(s.queue, Options{
			Handler: h, Serves: serves, Base: ctx, First: 10 * time.Second, Idle: time.Minute, Answer: time.Minute, Log: quiet,
		})
		ln = s.listener
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = inner.Serve(ln)
	}()
	s.stop = func() {
		if s.listener != nil {
			s.listener.Cut()
		}
		_ = inner.Close()
		cancel()
		<-ended
		if s.listener != nil {
			s.listener.Wait()
		}
	}
	return s
}

func every(string) bool { return true }

// mirror answers with all that a handler can see of a request, in a way that the request
// chooses.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h := w.Header()
	h.Set("X-Seen", "a\r\nb: c")
	h["X-Many"] = []string{"1", " 2 "}
	h["bad name"] = []string{"x"}
	var text bytes.Buffer
	_, _ = fmt.Fprintln(&text, r.Method, r.RequestURI, r.URL, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, r.Close, err)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		_, _ = fmt.Fprintf(&text, "%s=%q\n", name, r.Header[name])
	}
	_, _ = fmt.Fprintf(&text, "%q", body)
	switch r.Header.Get("X-Do") {
	case "status":
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
	case "odd status":
		w.WriteHeader(799)
	case "none":
		return
	case "no content":
		w.WriteHeader(http.StatusNoContent)
	case "type":
		h.Set("Content-Type", "text/x")
	case "no type":
		h["Content-Type"] = nil
	case "encoded":
		h.Set("Content-Encoding", "br")
	case "length":
		h.Set("Content-Length", fmt.Sprint(text.Len()))
	case "short":
		h.Set("Content-Length", fmt.Sprint(text.Len()-3))
	case "long":
		h.Set("Content-Length", fmt.Sprint(text.Len()+3))
	case "close":
		h.Set("Connection", "close")
	case "date":
		h.Set("Date", "never")
	case "large":
		text.Write(bytes.Repeat([]byte("x"), 100_000))
		h.Set("Content-Length", fmt.Sprint(text.Len()))
	case "abort":
		panic(http.ErrAbortHandler)
	case "panic":
		panic("on purpose")
	case "hijack":
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = stream.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\ntaken")
			_ = stream.Flush()
			_ = conn.Close()
		}
		return
	}
	half := text.Len() / 2
	_, _ = w.Write(text.Bytes()[:half])
	h.Set("X-Late", "too late") // unless nothing has been sent
	_, _ = io.WriteString(w, text.String()[half:])
}

// exchange sends all and returns the answers, without what depends on the server.
func exchange(t testing.TB, s *server, sent string) string {
	t.Helper()
	conn := s.dial()
	_ = conn.SetDeadline(time.Now().Add(time.Hour)) // for a body that does not come
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, sent)
		// There is nothing after this in any form of request.
		_, _ = io.WriteString(conn, "POST /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}()
	var got strings.Builder
	r := bufio.NewReader(conn)
	for n := 0; ; n++ {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			_, _ = fmt.Fprintf(&got, "end after %d", n)
			break
		}
		body, err := io.ReadAll(response.Body)
		response.Header.Del("Date")
		if response.ContentLength < 0 {
			response.Header.Del("Transfer-Encoding")
		}
		response.Header.Del("Content-Length") // the lengths of bodies say the same
		_, _ = fmt.Fprintf(&got, "%s %v %v %t %v\n%s\n", response.Proto, response.Status, response.Header, response.Close, err, body)
	}
	_ = conn.Close()
	<-written
	return got.String()
}

func request(path, more, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a.b:80\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), more, body)
}

// Whatever is sent, the answers are net/http's.
func FuzzAsNetHTTP(f *testing.F) {
	for _, do := range []string{"", "status", "odd status", "none", "no content", "type", "no type", "encoded", "length", "short", "long", "close", "date", "large", "abort", "panic", "hijack"} {
		f.Add(request("/ext/bc/P", "Content-Type: application/json\r\nx-do: "+do+"\r\n", `{"a":1}`))
		f.Add(request("/a", "", "1") + request("/b", "X-Do: "+do+"\r\n", "22") + request("/c", "Accept: */*\r\n", "333"))
	}
	for _, sent := range []string{
		"", "G", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "POST", "POST /",
		request("/a", "Connection: keep-alive\r\nUser-Agent:  x  \r\n", "x"),
		request("/a", "Connection: Close\r\n", "x"), request("/a", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "x"),
		request("/a", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), request("/a", "Expect: 100-continue\r\n", "x"), request("/a", "Expect: x\r\n", "x"),
		request("/a", "Content-Length: 1\r\n", "x"), request("/a", "Content-Length: 2\r\n", "x"), request("/a", "A: 1\r\nA: 2\r\n", "x"), request("/a", "a: 1\r\nA: 2\r\n", "x"),
		request("/a", "Host: y\r\n", "x"), request("/a", "Pragma: no-cache\r\n", "x"), request("/a", "A : 1\r\n", "x"), request("/a", " A: 1\r\n", "x"),
		request("/a", "A: \tb\r\n", "x"), request("/a", "A: \xff\r\n", "x"), request("/a", "A:\r\n", "x"), request("/a", ":x\r\n", "x"), request("/a", "A\r\n", "x"), request("/a", "A: 1\n", "x"),
		request("/a?b", "", "x"), request("/a%20b", "", "x"), request("//a/../b/", "", "x"), request("http://h/a", "", "x"), request("*", "", "x"), request("a", "", "x"), request("/ ", "", "x"),
		request("/a", "Te: trailers\r\nTrailer: x\r\n", "x"), request("/a", "Cookie: a=b\r\nOrigin: null\r\n", "x"), request("/a", "Content-Length: +1\r\n", ""),
		request("/a", "A: "+strings.Repeat("long ", 2000)+"\r\n", "x"), request("/a", "", strings.Repeat("y", 9000)), request("/a", strings.Repeat("A: 1\r\n", 40), "x"),
		"POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "POST /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "POST /a HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 01\r\n\r\nx", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "POST /a HTTP/1.1\r\nHost: x y\r\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\nHost: x\nContent-Length: 1\n\nx", "post /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "POST  /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
		"POST /a  HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "POST /a HTTP/1.1 \r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "POST /a HTTP/1.1\r\nHost:\r\nContent-Length: 1\r\n\r\nx",
		request("/a", "", "0") + "\r0", request("/a", "", "0") + "\r\n" + request("/a", "", "0"), request("/a", "", "0") + "\n\r\n\r\n" + request("/a", "", "0"), "\r\n" + request("/a", "", "0"),
	} {
		f.Add(sent)
	}
	f.Fuzz(func(t *testing.T, sent string) { asNetHTTP(t, sent) })
}

// The same for requests that are nearly plain.
func FuzzNearlyPlain(f *testing.F) {
	f.Add("/ext/bc/P", "X-Do", "length", "{}")
	f.Add("/ext/bc/P?x", "Connection", "keep-alive, close", "{}")
	f.Add("/ext/bc/P", "Keep-Alive", "timeout=5", "{}")
	f.Add("/ext/bc/P", "Authorization", "Basic YTpi", "\r\n\r\n")
	f.Add("/ext/bc/P", "Transfer-encoding", "identity", "0\r\n\r\n")
	f.Add("/ext/bc/P", "X-Forwarded-For", "::1, 1.2.3.4", "{}")
	f.Fuzz(func(t *testing.T, path, name, value, body string) {
		asNetHTTP(t, request(path, name+":"+value+"\r\n", body)+request("/b", "", "next"))
	})
}

func asNetHTTP(t *testing.T, sent string) {
	synctest.Test(t, func(t *testing.T) { // so that nobody waits for what does not come
		reference := begin(http.HandlerFunc(mirror), nil)
		want := exchange(t, reference, sent)
		reference.stop()
		own := begin(http.HandlerFunc(mirror), every)
		got := exchange(t, own, sent)
		own.stop()
		require.Equal(t, want, got)
	})
}

func TestPlainRequestsDoWithoutNetHTTP(t *testing.T) {
	for sent, want := range map[string]int64{
		request("/ext/bc/P", "User-Agent: x\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\nOrigin: https://x.org\r\n", "{}"): 1, // the last one alone
		strings.Repeat(request("/ext/bc/P", "Connection: keep-alive\r\n", "{}"), 50):                                                        1,
		request("/other", "", "{}"): 2,
	} {
		s := begin(http.HandlerFunc(mirror), func(path string) bool { return strings.HasPrefix(path, "/ext/") })
		exchange(t, s, sent)
		s.stop()
		require.Equal(t, want, s.foreign.Load(), "requests that net/http saw of %q", sent)
	}
}

func TestPieces(t *testing.T) {
	s := begin(http.HandlerFunc(mirror), every)
	defer s.stop()
	whole := request("/a", "X-Do: length\r\n", "body")
	conn := s.dial()
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, at := range []int{1, 5, len(whole) / 2, len(whole) - 4, len(whole) - 1} {
		_, err := io.WriteString(conn, whole[:at])
		require.NoError(t, err)
		_, err = io.WriteString(conn, whole[at:])
		require.NoError(t, err)
		response, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(content), `"body"`)
	}
	require.Zero(t, s.foreign.Load(), "requests that net/http saw")
}

func TestTimes(t *testing.T) {
	for name, test := range map[string]struct {
		sent string
		want time.Duration
	}{
		"nothing comes":    {"", 10 * time.Second},
		"no further comes": {request("/a", "", "x"), time.Minute},
		"a part is all":    {"POST /", 10*time.Second + patience}, // then net/http's patience
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), every)
				defer s.stop()
				conn := s.dial()
				defer conn.Close()
				start := time.Now()
				_, err := io.WriteString(conn, test.sent)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, conn)
				require.NoError(t, err, "it is closed")
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 2*slack.Seconds())
			})
		})
	}
}

// A client that does not take its answer is given up.
func TestUnreadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(http.HandlerFunc(mirror), every)
		conn := s.dial()
		start := time.Now()
		_, err := io.WriteString(conn, request("/a", "", "x"))
		require.NoError(t, err)
		s.listener.running.Wait()
		require.InDelta(t, time.Minute.Seconds(), time.Since(start).Seconds(), 2*slack.Seconds())
		s.stop()
		_ = conn.Close()
	})
}

func TestContextEnds(t *testing.T) {
	type seen struct{ before, during, after error }
	for name, test := range map[string]struct {
		leave func(*server, net.Conn)
		want  seen
	}{
		"with the request":  {func(*server, net.Conn) {}, seen{nil, nil, context.Canceled}},
		"with the client":   {func(_ *server, c net.Conn) { _ = c.Close() }, seen{nil, context.Canceled, context.Canceled}},
		"not by what comes": {func(_ *server, c net.Conn) { _, _ = io.WriteString(c, "P") }, seen{nil, nil, context.Canceled}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan seen, 1)
				ctx := make(chan context.Context, 1)
				waits, goesOn := make(chan struct{}), make(chan struct{})
				var errs seen
				s := begin(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					errs.before = r.Context().Err()
					child, cancel := context.WithTimeout(r.Context(), time.Hour)
					defer cancel()
					close(waits)
					<-goesOn
					errs.during = child.Err()
					require.Equal(t, errs.during, r.Context().Err())
					ctx <- r.Context()
				}), every)
				conn := s.dial()
				_, err := io.WriteString(conn, request("/a", "", "x"))
				require.NoError(t, err)
				<-waits
				test.leave(s, conn)
				synctest.Wait()
				close(goesOn)
				c := <-ctx
				synctest.Wait()
				errs.after = c.Err()
				<-c.Done()
				got <- errs
				require.Equal(t, test.want, <-got)
				if name == "not by what comes" {
					// What came early is the beginning of the next request.
					r := bufio.NewReader(conn)
					_, err := http.ReadResponse(r, nil)
					require.NoError(t, err)
					waits, goesOn = make(chan struct{}), make(chan struct{})
					close(goesOn)
					_, err = io.WriteString(conn, request("/a", "", "x")[1:])
					require.NoError(t, err)
					_, err = http.ReadResponse(r, nil)
					require.NoError(t, err)
				}
				_ = conn.Close()
				s.stop()
			})
		})
	}
}

func TestContextOfTheEnd(t *testing.T) {
	cause := errors.New("the service stops")
	base, cancel := context.WithCancelCause(t.Context())
	c := &requestContext{Context: base}
	cancel(cause)
	require.ErrorIs(t, c.Err(), context.Canceled)
	require.Equal(t, cause, context.Cause(c))
	c.end()
	<-c.Done()
	require.ErrorIs(t, c.Err(), context.Canceled)
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, finish := make(chan struct{}), make(chan struct{})
		s := begin(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-finish
			_, _ = io.WriteString(w, "done")
		}), every)
		defer s.stop()
		waiting, asking := s.dial(), s.dial()
		_, err := io.WriteString(asking, request("/a", "", "x"))
		require.NoError(t, err)
		<-begun
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.listener.Shutdown(short), context.DeadlineExceeded)
		_, err = waiting.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "who waits for nothing is let go")
		done := make(chan error, 1)
		go func() { done <- s.listener.Shutdown(t.Context()) }()
		close(finish)
		r := bufio.NewReader(asking)
		response, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.True(t, response.Close, "the client is told that the connection ends")
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "done", string(content))
		require.NoError(t, <-done)
		_, err = r.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	})
}
