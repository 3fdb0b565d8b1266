package handlers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"quorate/handlers/socket"
	"quorate/internal/index/primary"
	"quorate/internal/peernode/checkpoint"
)

// smuggled is what must never be taken for a request of its own.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// A request that two parsers could read in two ways ends its connection, or counts as one
// request.
func TestAttackSmuggling(t *testing.T) {
	chunked := "0\r\n\r\n"
	for name, test := range map[string]struct {
		sent   string
		status int
		closed bool
	}{
		"a length and chunks":              {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(chunked)+len(smuggled)) + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked + smuggled, 200, true},
		"two lengths":                      {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: " + fmt.Sprint(len(smuggled)) + "\r\n\r\n" + smuggled, 400, true},
		"two lengths in one":               {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 36\r\n\r\n" + smuggled, 400, true},
		"length with a sign":               {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n" + smuggled, 400, true},
		"negative length":                  {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + smuggled, 400, true},
		"length beyond 2^63":               {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n" + smuggled, 400, true},
		"hexadecimal length":               {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0x0\r\n\r\n" + smuggled, 400, true},
		"an unknown encoding":              {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunked + smuggled, 501, true},
		"two encodings":                    {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n" + chunked + smuggled, 501, true},
		"encoding twice":                   {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked + smuggled, 501, true},
		"space before the colon":           {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length : 36\r\n\r\n" + smuggled, 400, true},
		"folded header":                    {"POST /a HTTP/1.1\r\nHost: x\r\nX: a\r\n Content-Length: 36\r\nContent-Length: 0\r\n\r\n", 200, false},
		"null byte in a header":            {"GET /a HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n" + smuggled, 400, true},
		"bare return in a header":          {"GET /a HTTP/1.1\r\nHost: x\r\nX: a\rGET /smuggled HTTP/1.1\r\n\r\n", 400, true},
		"two hosts":                        {"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + smuggled, 400, true},
		"no host":                          {"GET /a HTTP/1.1\r\n\r\n" + smuggled, 400, true},
		"host with a path":                 {"GET /a HTTP/1.1\r\nHost: x/../y z\r\n\r\n" + smuggled, 400, true},
		"no version":                       {"GET /a\r\n\r\n" + smuggled, 400, true},
		"version 3.0":                      {"GET /a HTTP/3.0\r\nHost: x\r\n\r\n" + smuggled, 505, true},
		"space in the path":                {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled, 400, true},
		"HTTP/2 without TLS":               {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled, 200, true},
		"chunk of a negative size":         {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + smuggled, 400, true},
		"chunk beyond 2^64":                {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + smuggled, 400, true},
		"extension of a chunk of 1 MiB":    {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 1<<20) + "\r\n" + smuggled, 400, true},
		"8000 chunks with long extensions": {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\na\r\n", 8000) + smuggled, 400, true},
		"10000 headers":                    {"GET /a HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: x\r\n", 10_000) + "\r\n" + smuggled, 431, true},
		"trailer of 1 MiB":                 {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 400, true},
	} {
		t.Run(name, func(t *testing.T) {
			var stolen atomic.Int64
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/smuggled" {
					stolen.Add(1)
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					w.WriteHeader(http.StatusBadRequest)
				}
			})
			srv := start(t, h, time.Second, time.Second)
			conn, r := dial(t, srv.addr)
			go func() { _, _ = io.WriteString(conn, test.sent) }() // it may be cut off
			response, err := http.ReadResponse(r, nil)
			status := 0
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				status = response.StatusCode
			}
			if status != 0 || len(test.sent) < 64<<10 { // an answer may be lost if much is left unread
				require.Equal(t, test.status, status)
			}
			if test.closed {
				_, err = r.ReadByte()
				require.Error(t, err, "more is answered")
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
			}
			require.Zero(t, stolen.Load())
		})
	}
}

// Any bytes on a connection end it after correct responses, and other clients do not notice.
func FuzzConnection(f *testing.F) {
	for _, sent := range []string{
		"", "G", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x00\xff\x01",
		requestText(fujiPath, 2, "", "{}") + requestText(fujiPath, 2, "Expect: 100-continue\r\n", "{}"),
		requestText(fujiPath, 2, "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), requestText("/ext/bc/P", 4, "Connection: Upgrade\r\nUpgrade: websocket\r\n", "{}"),
		requestText("*", 1, "A:\xff\r\n", "x"), requestText("/a", 1, strings.Repeat("A: 1\r\n", 40), "x"), "POST /a HTTP/1.0\r\nContent-Length: 01\r\n\r\nx",
	} {
		f.Add(sent)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(f.Context())
	served := make(chan error, 1)
	h := newPublic(f, &fakeSigner{}, nil)
	go func() { served <- serve(ctx, ln, h, ServeOptions{}, timeout, timeout) }()
	f.Cleanup(func() {
		cancel()
		require.NoError(f, <-served)
	})
	answer := regexp.MustCompile(`^HTTP/1\.[01] (\d{3}) `)
	f.Fuzz(func(t *testing.T, sent string) {
		conn, r := dial(t, ln.Addr().String())
		go func() { // ends with the connection
			_, _ = io.WriteString(conn, sent)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(r)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
		if len(got) > 0 {
			status := answer.FindSubmatch(got)
			require.NotNil(t, status, "got %.80q", got)
			require.NotContains(t, []string{"500", "502", "503"}, string(status[1]))
		}
		other, r := dial(t, ln.Addr().String())
		_, err = io.WriteString(other, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		response, _ := readResponse(t, r)
		require.Equal(t, 200, response.StatusCode)
	})
}

// A connection without a whole request is closed after the header timeout, or after the
// idle timeout once it had a request.
func TestIdleConnectionsAreClosed(t *testing.T) {
	const headers, idle = 200 * time.Millisecond, 400 * time.Millisecond
	for name, test := range map[string]struct {
		sent    string
		timeout time.Duration
	}{
		"nothing":             {"", headers},
		"part of a request":   {"POST /a HTTP/1.1\r\nHost", headers},
		"nothing after one":   {requestText("/a", 1, "", "x"), idle},
		"part of the second":  {requestText("/a", 1, "", "x") + "POST /", headers},
		"a byte now and then": {"POST /a HTTP/1.1\r\nHost: x\r\nX: ", headers},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			go func() {
				served <- serve(ctx, ln, h, ServeOptions{HeaderTimeout: headers, Idle: idle}, timeout, timeout)
			}()
			defer func() {
				cancel()
				require.NoError(t, <-served)
			}()
			begun := time.Now() // the server's time begins when it accepts the connection
			conn, r := dial(t, ln.Addr().String())
			_, err = io.WriteString(conn, test.sent)
			require.NoError(t, err)
			if name == "a byte now and then" {
				go func() { // ends with the connection
					for _, err := conn.Write([]byte("a")); err == nil; _, err = conn.Write([]byte("a")) {
						<-time.After(headers / 10)
					}
				}()
			}
			_, err = io.Copy(io.Discard, r)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
			require.GreaterOrEqual(t, time.Since(begun), test.timeout)
		})
	}
}

// overTLS serves h as the service does with certificates, and says how to reach it.
func overTLS(t *testing.T, h http.Handler, o ServeOptions) (addr string, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"x"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	o.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	guarded := socket.Listen(ln, socket.Options{Stall: 500 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, guarded, h, o, time.Second, time.Second) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	return ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
}

// frame2 is a frame of HTTP/2 (RFC 9113, 4.1).
func frame2(kind, flags byte, stream uint32, payload string) string {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(b, stream)) + payload
}

// Kinds of frames and flags of HTTP/2.
const (
	data2, headers2, reset2, settings2, ping2, continuation2 = 0, 1, 3, 4, 6, 9
	endStream2, endHeaders2                                  = 1, 4
	preface2                                                 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// get2 is GET https://x/ in fields of the static table (RFC 7541, appendix A).
	get2 = "\x82\x87\x84\x41\x01x"
)

// The concurrent work of an HTTP/2 client is bounded, and a client that only causes work loses its
// connection.
func TestAttackHTTP2(t *testing.T) {
	for name, test := range map[string]struct {
		next  func(i uint32) string // what is sent, again and again
		times uint32                // 0: until the connection ends
	}{
		"streams that are reset at once": {func(i uint32) string {
			return frame2(headers2, endStream2|endHeaders2, 2*i+1, get2) + frame2(reset2, 0, 2*i+1, "\x00\x00\x00\x08")
		}, 0},
		"more streams than are allowed": {func(i uint32) string { return frame2(headers2, endStream2|endHeaders2, 2*i+1, get2) }, 1000},
		"headers without end": {func(i uint32) string {
			if i == 0 {
				return frame2(headers2, endStream2, 1, get2)
			}
			return frame2(continuation2, 0, 1, strings.Repeat("\x00\x01a\x01b", 1000))
		}, 0},
		"pings whose answers are not read": {func(uint32) string { return strings.Repeat(frame2(ping2, 0, 0, "12345678"), 1000) }, 0},
		"data of no stream":                {func(uint32) string { return frame2(data2, 0, 7, "x") }, 0},
		"a frame of 16 MiB":                {func(uint32) string { return "\xff\xff\xff\x00\x00\x00\x00\x00\x01" }, 0},
		"an even stream":                   {func(uint32) string { return frame2(headers2, endStream2|endHeaders2, 2, get2) }, 0},
		"headers that are no HPACK":        {func(uint32) string { return frame2(headers2, endStream2|endHeaders2, 1, strings.Repeat("\xff", 100)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var under, most atomic.Int64
			// A handler notices some time later that its client has gone.
			noticed := make(chan struct{})
			h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				now := under.Add(1)
				for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
				}
				<-r.Context().Done()
				<-noticed
				under.Add(-1)
			})
			addr, config := overTLS(t, h, ServeOptions{})
			conn, err := tls.Dial("tcp", addr, config)
			require.NoError(t, err)
			defer conn.Close()
			require.Equal(t, "h2", conn.ConnectionState().NegotiatedProtocol)
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			reads := !strings.Contains(name, "not read")
			gone := make(chan error, 1)
			go func() {
				var err error
				if reads {
					_, err = io.Copy(io.Discard, conn)
				}
				gone <- err
			}()
			_, err = io.WriteString(conn, preface2+frame2(settings2, 0, 0, ""))
			for i := uint32(0); err == nil && (test.times == 0 || i < test.times); i++ {
				_, err = io.WriteString(conn, test.next(i))
			}
			close(noticed)
			if test.times == 0 {
				require.Error(t, err)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
			} else {
				require.NoError(t, conn.CloseWrite())
			}
			require.NotErrorIs(t, <-gone, os.ErrDeadlineExceeded, "the connection is open")
			require.LessOrEqual(t, most.Load(), int64(32), "handlers at a time")
		})
	}
}

// An HTTP/2 client that makes no request, or does not read its answer, loses its connection after a
// while, whatever else it sends.
func TestAttackHTTP2Held(t *testing.T) {
	const (
		withoutEnd = 1 << 20 // bytes of an answer
		ask        = endStream2 | endHeaders2
	)
	noWindow := frame2(settings2, 0, 0, "\x00\x04\x00\x00\x00\x00")
	pings := frame2(ping2, 0, 0, "12345678")
	for name, test := range map[string]struct {
		first, again string // what is sent, and what without end then
		answer       int    // bytes; without any the answer waits for its client to go
		handled      int64
		pause        time.Duration // between those of again
	}{
		"never sends settings":               {first: preface2},
		"settings without end, nothing read": {first: preface2, again: frame2(settings2, 0, 0, ""), pause: time.Nanosecond},
		"nothing but pings":                  {first: preface2 + frame2(settings2, 0, 0, ""), again: pings},
		"a header that never ends":           {first: preface2 + frame2(settings2, 0, 0, "") + frame2(headers2, endStream2, 1, get2)},
		"no window for a long answer":        {first: preface2 + noWindow + frame2(headers2, ask, 1, get2), again: pings, answer: withoutEnd, handled: 1},
		"no window for a short answer":       {first: preface2 + noWindow + frame2(headers2, ask, 1, get2), again: pings, answer: 10, handled: 1},
		"is away while it is worked for":     {first: preface2 + frame2(settings2, 0, 0, "") + frame2(headers2, ask, 1, get2), handled: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handled atomic.Int64
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer handled.Add(1)
				if test.answer == 0 {
					<-r.Context().Done()
				}
				_, _ = w.Write(make([]byte, test.answer))
			})
			const soon = 300 * time.Millisecond
			addr, config := overTLS(t, h, ServeOptions{HeaderTimeout: soon, Idle: soon, Stall: soon})
			conn, err := tls.Dial("tcp", addr, config)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
			gone := make(chan error, 1)
			go func() {
				if strings.Contains(name, "nothing read") {
					gone <- nil
					return
				}
				_, err := io.Copy(io.Discard, conn)
				gone <- err
			}()
			_, err = io.WriteString(conn, test.first)
			pause := time.NewTicker(cmp.Or(test.pause, 10*time.Millisecond)) // or there are more pings than are queued
			defer pause.Stop()
			for err == nil && test.again != "" {
				_, err = io.WriteString(conn, test.again)
				<-pause.C
			}
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
			require.NotErrorIs(t, <-gone, os.ErrDeadlineExceeded, "the connection is open")
			require.Eventually(t, func() bool { return handled.Load() == test.handled }, timeout, time.Millisecond, "handlers that ended")
		})
	}
}

// A client that reads its answers gets them whole, however long they take.
func TestHTTP2OutlastsTheStall(t *testing.T) {
	const stall = 500 * time.Millisecond // a busy machine may not run the client for 200 ms
	content := bytes.Repeat([]byte("0123456789"), 1<<20)
	addr, config := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := range slices.Chunk(content, len(content)/2) {
			<-time.After(2 * stall) // the work
			_, _ = w.Write(piece)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}), ServeOptions{Stall: stall})
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, Timeout: timeout}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + addr + "/")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got), "got %d bytes, want %d", len(got), len(content))
}

// However a path is written, it reaches only what is served.
func TestAttackPaths(t *testing.T) {
	surface := newPublic(t, &fakeSigner{}, nil)
	srv := start(t, surface, time.Second, time.Second)
	for _, path := range []string{
		"/docs/../../../../etc/passwd", "/docs/%2e%2e/%2e%2e/etc/passwd", "/docs/..%2f..%2f..%2fetc%2fpasswd", "/docs/..%5c..%5cetc", "/docs/%00", "/docs/openapi.json%00.html",
		"/docs//etc/passwd", "/docs/./../health", "/docs/%c0%ae%c0%ae/", "/v1/networks/%2e%2e/subnets", "/v1/networks/..%2f..%2fhealth/subnets", "/console/../metrics", "/metrics", "/readyz", "/debug/pprof/",
		"/v1/signatureAggregator/fuji/aggregateSignatures/%2e%2e%2f%2e%2e", "/" + strings.Repeat("a/", 10_000),
	} {
		conn, r := dial(t, srv.addr)
		_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		response, content := readResponse(t, r)
		require.GreaterOrEqual(t, response.StatusCode, 300, path)
		require.Less(t, response.StatusCode, 500, path)
		require.NotContains(t, content, "root:", path)
		if to := response.Header.Get("Location"); to != "" {
			require.Regexp(t, "^/docs/", to, "a redirect of %s", path)
		}
	}
}

// However many ranges of a file a request names, no more than the file is sent.
func TestAttackRanges(t *testing.T) {
	h := newPublic(t, &fakeSigner{}, nil)
	whole := do(h, "GET", "/docs/openapi.json", "").Body.Len()
	for _, ranges := range []string{
		"bytes=" + strings.TrimSuffix(strings.Repeat("0-,", 5000), ","), "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 5000), ","),
		"bytes=0-18446744073709551616", "bytes=-1,--1", "lines=1-2", "bytes=5-1",
	} {
		w := do(h, "GET", "/docs/openapi.json", "", "Range", ranges)
		require.Contains(t, []int{200, 206, 416}, w.Code)
		require.LessOrEqual(t, w.Body.Len(), whole+1024, "%.30s", ranges)
	}
}

// A request makes one line of the log, without control characters, whatever its texts.
func TestAttackLogLines(t *testing.T) {
	var log lines
	h := newPublic(t, &fakeSigner{}, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	srv := start(t, h, time.Second, time.Second)
	for i, sent := range []string{
		"GET /v1/%0alevel=ERROR%20msg=forged%1b[31m HTTP/1.1\r\nHost: x\r\n",
		"GET /v1/x?a=%0d%0alevel=ERROR HTTP/1.1\r\nHost: x\r\n",
		"GET /v1/x HTTP/1.1\r\nHost: x\r\nUser-Agent: a\"b msg=forged \xe2\x80\xae\xc2\x9b31m\r\n",
		"GET /v1/x HTTP/1.1\r\nHost: x\r\nX-Request-Id: a b\tmsg=forged\r\n",
	} {
		conn, r := dial(t, srv.addr)
		_, err := io.WriteString(conn, sent+"Connection: close\r\n\r\n")
		require.NoError(t, err)
		response, _ := readResponse(t, r)
		require.Equal(t, 404, response.StatusCode)
		require.Equal(t, i+1, strings.Count(log.String(), "\n"))
	}
	for _, c := range strings.ReplaceAll(log.String(), "\n", "") {
		require.True(t, unicode.IsPrint(c), "%q", c)
	}
}

// Pages of no origin, such as sandboxed ones and files, are no exception.
func TestAttackOrigins(t *testing.T) {
	h := newPublic(t, &fakeSigner{}, func(o *Options) { o.Origins = []string{"https://example.org"} })
	for _, origin := range []string{"null", "https://example.org.evil.example", "http://example.org", "https://example.org:8443", "https://EXAMPLE.org", "https://example.org\t", "*", ""} {
		w := do(h, "OPTIONS", fujiPath, "", "Origin", origin, "Access-Control-Request-Method", "POST")
		require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), origin)
	}
}

// TestAttackForeignPages checks that pages of other sites in an operator's browser cannot use the private address, by any
// method, and that programs without an origin can.
func TestAttackForeignPages(t *testing.T) {
	verified, forwarded, exported := 0, 0, 0
	h, err := NewPrivate(PrivateOptions{
		Export: func(context.Context, string, uint64, func(checkpoint.Header) io.Writer) error {
			exported++
			return ErrNotExecuted
		},
		Verify: func(context.Context, string, primary.VerifyOptions, func(primary.Verification)) error {
			verified++
			return ErrNotIndexed
		},
		Node: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded++ }),
	})
	require.NoError(t, err)
	ask := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		return do(h, method, path, "", headers...)
	}
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http://127.0.0.1:8081"},
	} {
		for _, path := range []string{"/index/verify?network=fuji", "/ext/bc/C/rpc"} {
			w := ask("POST", path, headers...)
			requireAPIError(t, w, 403, "pages of other sites")
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
	// Browsers open WebSockets with GET and the page's origin.
	requireAPIError(t, ask("GET", "/ext/bc/C/ws", "Origin", "https://evil.example", "Connection", "Upgrade", "Upgrade", "websocket"), 403, "pages of other sites")
	requireAPIError(t, ask("GET", "/index", "Origin", "https://evil.example"), 403, "pages of other sites")
	for _, site := range []string{"cross-site", "same-site"} { // as the source of an image
		requireAPIError(t, ask("GET", "/checkpoint?height=99999999999", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "no-cors"), 403, "pages of other sites")
	}
	require.Zero(t, verified+forwarded+exported)
	for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://127.0.0.1:8080"}} {
		requireAPIError(t, ask("POST", "/index/verify?network=fuji", headers...), 404)
		requireAPIError(t, ask("GET", "/checkpoint", headers...), 404)
		ask("GET", "/ext/bc/C/ws", append(headers, "Upgrade", "websocket")...)
	}
	require.Equal(t, 4, exported)
	require.Equal(t, 4, verified)
	require.Equal(t, 4, forwarded)
}

// TestAttackReboundPages checks that a site whose name resolves to the private address (DNS rebinding) reads and does
// nothing there. Names that no site can own, and allowed ones, pass.
func TestAttackReboundPages(t *testing.T) {
	h, err := NewPrivate(PrivateOptions{AllowedHosts: []string{"metrics.example"}, Verify: func(context.Context, string, primary.VerifyOptions, func(primary.Verification)) error {
		return ErrNotIndexed
	}})
	require.NoError(t, err)
	for host, allowed := range map[string]bool{
		"evil.example": false, "evil.example:8081": false, "EVIL.example.": false, "127.0.0.1.evil.example:8081": false, "localhost.evil.example": false, "internal.example": false, "xlocal.": true,
		"127.0.0.1:8081": true, "[::1]:8081": true, "[::1]": true, "localhost:8081": true, "quorate:8081": true, "quorate.ns.svc:8081": true, "quorate.ns.svc.cluster.local:8081": true, "host.docker.internal": true,
		"metrics.example:8081": true, "Metrics.Example": true, "not.metrics.example": false,
	} {
		for _, origin := range []string{"", "http://" + host} {
			for method, path := range map[string]string{"POST": "/index/verify?network=fuji", "GET": "/metrics"} {
				r := httptest.NewRequest(method, path, nil)
				r.Host = host
				if origin != "" {
					r.Header.Set("Origin", origin)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if !allowed {
					requireAPIError(t, w, 403, "is not a name of this service; list it in node_api.allowed_hosts")
				} else {
					require.NotEqual(t, 403, w.Code, "%s %s", host, path)
				}
			}
		}
	}
}

// TestAttackPagesOfOtherOrigins checks what pages can make a browser send to the public address.
func TestAttackPagesOfOtherOrigins(t *testing.T) {
	body := `{"message":"0x00"}`
	restricted := newPublic(t, &fakeSigner{}, func(o *Options) {
		o.Origins, o.AllowedHosts = []string{"https://app.example"}, []string{"api.example"}
		o.Node = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	})
	open := newPublic(t, &fakeSigner{}, func(o *Options) { o.Origins = nil })
	for _, test := range []struct {
		name    string
		to      http.Handler
		method  string
		path    string
		host    string
		headers []string
		want    int
		text    string
	}{
		{"a page of another site", restricted, "POST", fujiPath, "api.example", []string{"Origin", "https://evil.example", "Content-Type", "application/json"}, 403, "pages of other sites"},
		{"the same without a preflight", restricted, "POST", fujiPath, "api.example", []string{"Origin", "https://evil.example", "Content-Type", "text/plain"}, 403, "pages of other sites"},
		{"no origin, but fetched by a page", restricted, "POST", fujiPath, "api.example", []string{"Sec-Fetch-Site", "cross-site"}, 403, "pages of other sites"},
		{"a WebSocket", restricted, "GET", "/ext/bc/C/ws", "api.example", []string{"Origin", "https://evil.example", "Upgrade", "websocket"}, 403, "pages of other sites"},
		{"a WebSocket of an allowed page", restricted, "GET", "/ext/bc/C/ws", "api.example", []string{"Origin", "https://app.example", "Upgrade", "websocket"}, 204, ""},
		{"a rebound name", restricted, "POST", fujiPath, "evil.example", []string{"Origin", "http://evil.example"}, 403, "evil.example"},
		{"an allowed page", restricted, "POST", fujiPath, "api.example", []string{"Origin", "https://app.example", "Content-Type", "application/json"}, 400, "message"},
		{"an allowed page with text", restricted, "POST", fujiPath, "api.example", []string{"Origin", "https://app.example", "Content-Type", "text/plain"}, 400, "Content-Type"},
		{"a page of the service", restricted, "POST", fujiPath, "api.example", []string{"Origin", "https://api.example", "Content-Type", "application/json; charset=utf-8"}, 400, "message"},
		{"no browser", restricted, "POST", fujiPath, "127.0.0.1:8080", nil, 400, "message"},
		{"all origins: a form", open, "POST", fujiPath, "evil.example", []string{"Origin", "https://evil.example", "Content-Type", "application/x-www-form-urlencoded"}, 400, "Content-Type"},
		{"all origins: JSON", open, "POST", fujiPath, "evil.example", []string{"Origin", "https://evil.example", "Content-Type", "application/json"}, 400, "message"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.path, strings.NewReader(body))
			r.Host = test.host
			for i := 0; i < len(test.headers); i += 2 {
				r.Header.Set(test.headers[i], test.headers[i+1])
			}
			w := httptest.NewRecorder()
			test.to.ServeHTTP(w, r)
			require.Equal(t, test.want, w.Code, "%s", w.Body)
			require.Contains(t, w.Body.String(), test.text)
		})
	}
}
