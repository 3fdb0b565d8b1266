package rpc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/rpc"
	"quorate/internal/node"
)

// One client that asks for long answers and reads none of them does not keep others from
// theirs, over real sockets: its API key distinguishes it from others at its address.
func TestSlowClientHasAShare(t *testing.T) {
	const long, limit = 12 << 20, 48 << 20
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n, err := strconv.Atoi(string(bytes.TrimSpace(body)))
		if err != nil {
			n = 100
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(bytes.Repeat([]byte{'1'}, n))
	}))
	defer far.Close()
	client, err := node.New(node.Options{Endpoints: []string{far.URL}, Timeout: 30 * time.Second})
	require.NoError(t, err)
	defer client.Close()
	keys := access.KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	key, err := keys.Add("slow", "", time.Now())
	require.NoError(t, err)
	guard, err := access.New(access.Options{Keys: keys})
	require.NoError(t, err)
	answers := node.NewBudget(limit, 0)
	ethereum := rpc.Ethereum{Node: client, Path: ethPath, BodyLimit: 1 << 20, Log: slog.New(slog.DiscardHandler)}
	public, err := handlers.New(handlers.Options{Access: guard, Answers: answers, Node: ethereum.Calls()})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- handlers.Serve(ctx, ln, public, handlers.ServeOptions{}) }()
	defer func() {
		cancel()
		require.NoError(t, <-served)
	}()

	ask := func(n int, header string) net.Conn {
		d := net.Dialer{}
		conn, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		body := strconv.Itoa(n)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", ethPath, header, len(body), body)
		require.NoError(t, err)
		return conn
	}
	read := func(conn net.Conn) (length int64, begins string) {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		var beginning bytes.Buffer
		length, err = io.Copy(&beginning, response.Body)
		require.NoError(t, err)
		return length, string(beginning.Bytes()[:min(200, beginning.Len())])
	}
	held := func(answers *node.Budget, want int64) {
		require.Eventually(t, func() bool {
			got := answers.Usage().Bytes
			return got >= want && got < want+64<<10
		}, time.Minute, time.Millisecond, "of %d bytes", want)
	}
	var slow []net.Conn
	for i := range 2 {
		slow = append(slow, ask(long, "X-Data-Api-Key: "+key+"\r\n"))
		require.NoError(t, slow[i].(*net.TCPConn).SetReadBuffer(4<<10)) // so that the rest stays here
		held(answers, int64(i+1)*long)
	}
	// One more would be more than three times what is left.
	slow = append(slow, ask(long, "X-Data-Api-Key: "+key+"\r\n"))
	length, text := read(slow[2])
	require.Less(t, length, int64(300))
	require.Contains(t, text, rpc.ErrBusy.Error())
	require.Equal(t, uint64(1), answers.Usage().Refused.Client)

	// Others get theirs, also long ones.
	length, _ = read(ask(long, ""))
	require.Equal(t, int64(long), length)
	for range 20 {
		length, _ = read(ask(100<<10, ""))
		require.Equal(t, int64(100<<10), length)
	}
	held(answers, 2*long)
	require.Equal(t, 1, answers.Usage().Clients)

	for _, conn := range slow {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return answers.Usage().Bytes == 0 }, time.Minute, time.Millisecond, "given back")
	length, _ = read(ask(long, "X-Data-Api-Key: "+key+"\r\n"))
	require.Equal(t, int64(long), length)
}

// Requests that the service answers itself count, too, if they arrive in more than a few KiB.
func TestCallsAreCounted(t *testing.T) {
	h, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"echo"}, Methods: Echo{}}}})
	require.NoError(t, err)
	answers := node.NewBudget(100<<10, 0)
	ask := func(n int) string {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"echo.say"}`), bytes.Repeat([]byte(" "), n)...)))
		r.Header.Set("Content-Type", "application/json")
		ctx, done := answers.Begin(r.Context())
		defer done()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		return w.Body.String()
	}
	require.Contains(t, ask(40<<10), `"result"`)
	require.Contains(t, ask(80<<10), rpc.ErrBusy.Error())
	require.Zero(t, answers.Usage().Bytes)
}
