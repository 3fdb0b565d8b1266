package rpc_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/handlers/rpc"
)

// elsewhere is a node at an address.
type elsewhere struct {
	upstream
	host string
}

func (e *elsewhere) Direct(r *http.Request, path string) {
	r.URL.Scheme, r.URL.Host, r.URL.Path, r.Host = "http", e.host, path, e.host
}

func TestPass(t *testing.T) {
	u := &upstream{}
	server := httptest.NewServer(rpc.Pass(u, "/ext/bc/C/rpc", 10, slog.New(slog.DiscardHandler)))
	defer server.Close()
	response, got := post(t, server.URL, "application/json", "[1,2]")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "from upstream", got)
	require.Equal(t, "[1,2]", u.body, "a batch, unread")
	require.False(t, u.hedged, "it may send a transaction")
	response, _ = post(t, server.URL, "application/json", strings.Repeat("x", 11))
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	u.fails = true
	response, got = post(t, server.URL, "application/json", "{}")
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
	require.NotContains(t, got, "secret")
}

// What is no call is refused as a node refuses it.
func TestPassable(t *testing.T) {
	const wrongType = "invalid content type, only application/json is supported\n"
	for _, test := range []struct {
		verb, query, contentType, body string
		status                         int
		want                           string
	}{
		{http.MethodGet, "", "", "", http.StatusOK, ""},
		{http.MethodGet, "", "application/json", "", http.StatusOK, ""},
		{http.MethodGet, "?a", "", "", http.StatusUnsupportedMediaType, wrongType},
		{http.MethodGet, "?a", "application/json", "", http.StatusOK, "from upstream"},
		{http.MethodGet, "", "application/json", "{}", http.StatusOK, "from upstream"},
		{http.MethodPut, "", "application/json", "{}", http.StatusMethodNotAllowed, "method not allowed\n"},
		{http.MethodDelete, "", "application/json", "{}", http.StatusMethodNotAllowed, "method not allowed\n"},
		{http.MethodOptions, "", "", "", http.StatusOK, "from upstream"},
		{http.MethodPost, "", "", "{}", http.StatusUnsupportedMediaType, wrongType},
		{http.MethodPost, "", "text/plain", "{}", http.StatusUnsupportedMediaType, wrongType},
		{http.MethodPost, "", "application/json;", "{}", http.StatusOK, "from upstream"},
		{http.MethodPost, "", "Application/JSON; charset=utf-8", "{}", http.StatusOK, "from upstream"},
		{http.MethodPost, "", "application/json-rpc", "{}", http.StatusOK, "from upstream"},
		{http.MethodPost, "", "application/jsonrequest", "{}", http.StatusOK, "from upstream"},
		{http.MethodPost, "", "application/json, text/plain", "{}", http.StatusUnsupportedMediaType, wrongType},
	} {
		request := httptest.NewRequest(test.verb, "/"+test.query, strings.NewReader(test.body))
		if test.contentType != "" {
			request.Header.Set("Content-Type", test.contentType)
		}
		recorder := httptest.NewRecorder()
		rpc.Pass(&upstream{}, "/ext/bc/C/rpc", 10, slog.New(slog.DiscardHandler)).ServeHTTP(recorder, request)
		require.Equal(t, test.status, recorder.Code, "%v", test)
		require.Equal(t, test.want, recorder.Body.String(), "%v", test)
	}
}

// Connections are passed through both ways, so many and no more, until one side or the
// server ends them.
func TestPassConnection(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ext/bc/C/ws" || r.Header.Get("Authorization") != "" || r.Header.Get("Upgrade") != "websocket" {
			http.Error(w, "not as expected", http.StatusTeapot)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(conn, stream) // an echo
	}))
	defer node.Close()
	address, err := url.Parse(node.URL)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- handlers.Serve(ctx, ln, rpc.PassConnection(&elsewhere{host: address.Host}, "/ext/bc/C/ws", 2, slog.New(slog.DiscardHandler)), nil)
	}()
	open := func() (net.Conn, *bufio.Reader, int) {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET /ext/bc/C/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer secret\r\n\r\n")
		require.NoError(t, err)
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		return conn, reader, response.StatusCode
	}
	say := func(conn net.Conn, reader *bufio.Reader) {
		_, err := io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
	first, fromFirst, status := open()
	require.Equal(t, http.StatusSwitchingProtocols, status)
	second, fromSecond, status := open()
	require.Equal(t, http.StatusSwitchingProtocols, status)
	say(first, fromFirst)
	say(second, fromSecond)
	_, _, status = open()
	require.Equal(t, http.StatusServiceUnavailable, status, "one too many")
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		_, _, status := open()
		return status == http.StatusSwitchingProtocols
	}, 10*time.Second, 10*time.Millisecond, "once there is room")

	cancel()
	select {
	case err := <-served:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the server waits for a connection that is passed through")
	}
	_, err = fromSecond.ReadByte()
	require.Error(t, err)
}
