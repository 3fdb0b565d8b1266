package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"quorate/handlers/rpc"
)

// FuzzSurface sends anything to a node's surface: nothing panics, and no answer is a 5xx.
func FuzzSurface(f *testing.F) {
	s := rpc.New(rpc.Options{NodeID: ids.NodeID{1}})
	native, err := rpc.NewHandler(rpc.Endpoint{
		Services: []rpc.Service{{Names: []string{"echo"}, Methods: Echo{}}}, Upstream: &upstream{}, Path: "/ext/bc/X", BodyLimit: 64 << 10,
	})
	if err != nil {
		f.Fatal(err)
	}
	far := rpc.Ethereum{Node: &elsewhere{}, Path: ethPath, BodyLimit: 64 << 10, Namespaces: []string{"eth"}, Log: slog.New(slog.DiscardHandler)}
	for endpoint, h := range map[string]http.Handler{"": native, "/rpc": far.Calls(), "/ws": far.Connections()} {
		if err := s.Add("bc/C", endpoint, h); err != nil {
			f.Fatal(err)
		}
	}
	for _, path := range []string{"", "/rpc", "/ws", "//rpc", "/../C"} {
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"text":"a"}}`, `{"jsonrpc":"2.0","id":{"a":1e999},"method":"echo.other","params":[]}`,
			`[{"method":"eth_call","id":1},{"method":"debug_x"}]`, "[1" + strings.Repeat(",1", 2000) + "]", strings.Repeat("[", 2000), `{"method":"echo.`, "\x00", "",
		} {
			f.Add(http.MethodPost, path, "localhost", "application/json", body)
			f.Add(http.MethodOptions, path, "[::1", "application/json;charset=\"", body)
		}
	}
	f.Fuzz(func(t *testing.T, method, path, host, contentType, body string) {
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Method, request.URL.Path, request.Host = method, "/ext/bc/C"+path, host
		request.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request)
		if w.Code >= 500 {
			t.Fatalf("%s %q: got %d %s, want no 5xx", method, path, w.Code, w.Body)
		}
	})
}

// FuzzFrames sends anything over a WebSocket: the upstream node gets only whole text messages that are JSON within the
// limit, and the connection ends.
func FuzzFrames(f *testing.F) {
	const limit = 1 << 10
	for _, frames := range []string{
		"", frame(0x81, `{"method":"eth_call","id":1}`), frame(0x01, `{"method":`) + frame(0x80, `"eth_call"}`), frame(0x82, "{}"),
		frame(0xf1, "{}"), frame(0x83, "{}"), frame(0x80, "{}"), frame(0x89, "ping") + frame(0x8a, "pong"), frame(0x88, "\x03\xe8"), frame(0x88, "\x00"),
		"\x81\x02{}", "\x81\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x81\xfe\x00", frame(0x81, strings.Repeat("[", limit+1)), frame(0x01, "[") + frame(0x81, "{}"),
	} {
		f.Add([]byte(frames))
	}
	got := make(chan string, 1<<16)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, message, err := conn.Read(context.WithoutCancel(r.Context()))
			if err != nil {
				return
			}
			if kind != websocket.MessageText {
				message = []byte("a binary message")
			}
			select {
			case got <- string(message):
			default:
			}
		}
	}))
	f.Cleanup(far.Close)
	near := httptest.NewServer(rpc.Ethereum{
		Node: &elsewhere{url: far.URL}, Path: ethPath, BodyLimit: limit, Namespaces: []string{"eth"}, Log: slog.New(slog.DiscardHandler),
	}.Connections())
	f.Cleanup(near.Close)
	f.Fuzz(func(t *testing.T, frames []byte) {
		var writing sync.WaitGroup
		defer writing.Wait() // the fuzzer uses frames again
		conn, err := net.Dial("tcp", near.Listener.Addr().String())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		response, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
		writing.Go(func() {
			_, _ = conn.Write(frames)
			_ = conn.(*net.TCPConn).CloseWrite()
		})
		_, err = io.Copy(io.Discard, r)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
		for {
			select {
			case message := <-got:
				// An empty message is for the node to answer.
				if len(message) > limit || strings.TrimSpace(message) != "" && !json.Valid([]byte(message)) {
					t.Fatalf("the node got %.80q", message)
				}
				continue
			default:
			}
			return
		}
	})
}
