package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/rpc"
	"quorate/internal/node"
)

// elsewhere is a node with WebSockets.
type elsewhere struct {
	upstream
	url   string
	await func(ctx context.Context, body []byte) error // may be nil
}

func (e *elsewhere) Await(ctx context.Context, body []byte) error {
	if e.await == nil {
		return nil
	}
	return e.await(ctx, body)
}

func (e *elsewhere) Connect(ctx context.Context, path string) (*websocket.Conn, error) {
	if e.fails {
		return nil, errors.New("secret address refused")
	}
	conn, _, err := websocket.Dial(ctx, e.url+path, nil)
	if err == nil {
		conn.SetReadLimit(-1)
	}
	return conn, err
}

const ethPath = "/ext/bc/C/rpc"

func TestCallsArePassedOn(t *testing.T) {
	u := &elsewhere{}
	server := httptest.NewServer(rpc.Ethereum{Node: u, Path: ethPath, BodyLimit: 400, Namespaces: []string{"eth", "net"}, Log: slog.New(slog.DiscardHandler)}.Calls())
	defer server.Close()
	for _, passed := range []string{
		`[{"method":"eth_call","id":1},{"method":"net_version","id":2}]`,
		`{"jsonrpc":"2.0","method":"eth_subscribe","params":["a"]}`,
		`[1,2]`, `[]`, `{}`, `"text"`, `{"method":"nothing"}`, `{"method":7}`, // which the node refuses
	} {
		response, got := post(t, server.URL, "application/json", passed+" and more")
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "from upstream", got)
		require.Equal(t, passed, u.body, "as it came, and nothing but it")
		require.False(t, u.hedged, "it may send a transaction")
	}
	u.body = ""
	unknown := func(method string) string {
		return `{"code":-32601,"message":"the method ` + method + ` does not exist/is not available"}}`
	}
	const twice = `{"code":-32600,"message":"a call has more than one method; send one"}}`
	const batch = `{"code":-32600,"message":"the batch is not forwarded: the method debug_setHead does not exist/is not available"}}`
	for refused, want := range map[string]string{
		`{"method":"debug_traceTransaction","id":"x"}`:                              `{"jsonrpc":"2.0","id":"x","error":` + unknown("debug_traceTransaction"),
		`{"METHOD":"admin_peers","id":1}`:                                           `{"jsonrpc":"2.0","id":1,"error":` + unknown("admin_peers"), // a node reads it so, too
		`{"method":"eth_call","method":"txpool_content","id":1}`:                    `{"jsonrpc":"2.0","id":1,"error":` + twice,
		`{"method":"debug_setHead","method":"eth_call","id":1}`:                     `{"jsonrpc":"2.0","id":1,"error":` + twice,
		`{"method":"debug_setHead","METHOD":"eth_call","id":1}`:                     `{"jsonrpc":"2.0","id":1,"error":` + twice,
		`{"method":"personal_sign","jsonrpc":2,"id":[1]}`:                           `{"jsonrpc":"2.0","id":[1],"error":` + unknown("personal_sign"),
		`{"method":"debug_setHead","method":5,"id":1}`:                              `{"jsonrpc":"2.0","id":1,"error":` + twice,
		`[{"method":"eth_a","METHOD":"eth_b","id":1}]`:                              `[{"jsonrpc":"2.0","id":1,"error":` + twice + `]`,
		`{"method":"ETH_call","id":1}`:                                              `{"jsonrpc":"2.0","id":1,"error":` + unknown("ETH_call"),
		`[{"method":"eth_call","id":1},{"method":"debug_setHead"}]`:                 `[{"jsonrpc":"2.0","id":1,"error":` + batch + `]`,
		`[{"method":"eth_call","id":1},{"method":"debug_setHead","id":2}]`:          `[{"jsonrpc":"2.0","id":1,"error":` + batch + `,{"jsonrpc":"2.0","id":2,"error":` + unknown("debug_setHead") + `]`,
		`[{"method":"eth_call","id":1},{"method":"eth_a","METHOD":"eth_b","id":2}]`: `[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the batch is not forwarded: a call has more than one method; send one"}},{"jsonrpc":"2.0","id":2,"error":` + twice + `]`,
		`{"method":"debug_setHead"}`:                                                ``, // a notification
		`{"method":`:                                                                `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`,
	} {
		response, got := post(t, server.URL, "application/json", refused)
		require.Equal(t, http.StatusOK, response.StatusCode, refused)
		require.Equal(t, want, got, refused)
		require.Empty(t, u.body, refused)
	}
	response, _ := post(t, server.URL, "application/json", strings.Repeat("x", 401))
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	// Failures are JSON-RPC errors.
	u.fails = true
	response, got := post(t, server.URL, "application/json", `[{"method":"eth_call","id":1},{"method":"eth_call","id":2}]`)
	require.Equal(t, http.StatusOK, response.StatusCode)
	const away = `,"error":{"code":-32000,"message":"the upstream node does not answer"}}`
	require.Equal(t, `[{"jsonrpc":"2.0","id":1`+away+`,{"jsonrpc":"2.0","id":2`+away+`]`, got)
	u.full = true
	_, got = post(t, server.URL, "application/json", `{"method":"eth_call","id":1}`)
	require.Contains(t, got, `"code":-32000,"message":"the service has as many answers under way as it has room for`)
	u.full, u.unsure = false, true
	_, got = post(t, server.URL, "application/json", `{"method":"eth_sendRawTransaction","id":1}`)
	require.Contains(t, got, rpc.Unsure)
}

// What is not a call is refused as a node does it.
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
		rpc.Ethereum{Node: &elsewhere{}, Path: ethPath, BodyLimit: 10, Log: slog.New(slog.DiscardHandler)}.Calls().ServeHTTP(recorder, request)
		require.Equal(t, test.status, recorder.Code, "%v", test)
		require.Equal(t, test.want, recorder.Body.String(), "%v", test)
	}
}

// Without a list of namespaces, all calls are forwarded, for the operator.
func TestAllNamespaces(t *testing.T) {
	u := &elsewhere{}
	server := httptest.NewServer(rpc.Ethereum{Node: u, Path: ethPath, BodyLimit: 400, Log: slog.New(slog.DiscardHandler)}.Calls())
	defer server.Close()
	_, got := post(t, server.URL, "application/json", `{"method":"debug_traceTransaction","id":"x"}`)
	require.Equal(t, "from upstream", got)
}

// echoing returns a node that echoes messages. A number makes it send as many bytes.
func echoing(t *testing.T) *elsewhere {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != ethPath || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			http.Error(w, "not as expected", http.StatusTeapot)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		conn.SetReadLimit(-1)
		for {
			kind, message, err := conn.Read(context.WithoutCancel(r.Context()))
			if err != nil {
				return
			}
			var more int
			if json.Unmarshal(message, &more) == nil {
				message = make([]byte, more)
			}
			if conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return &elsewhere{url: server.URL}
}

// passing serves what passes connections to a node on, over a real socket.
type passing struct {
	url  string
	stop func() error
}

func serveSockets(t *testing.T, e rpc.Ethereum, guard *access.Guard) *passing {
	t.Helper()
	e.Path, e.Log = ethPath, slog.New(slog.DiscardHandler)
	if e.BodyLimit == 0 {
		e.BodyLimit = 1 << 20
	}
	surface := echo.New()
	surface.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
	if guard != nil {
		surface.Use(guard.Middleware())
	}
	budget := node.NewBudget(4<<20, 0)
	open := e.Connections()
	surface.Any("/*", func(c echo.Context) error {
		ctx, client := guard.Accompany(c)
		ctx, done := budget.Begin(node.WithClient(ctx, client.ID))
		defer done()
		open.ServeHTTP(c.Response(), c.Request().WithContext(ctx))
		return nil
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- handlers.Serve(ctx, ln, surface, handlers.ServeOptions{}) }()
	stop := func() error {
		cancel()
		select {
		case err := <-served:
			served <- err
			return err
		case <-time.After(2 * time.Minute):
			return errors.New("the server waits for a connection that is passed through")
		}
	}
	t.Cleanup(func() { require.NoError(t, stop()) })
	return &passing{url: "ws://" + ln.Addr().String(), stop: stop}
}

func (p *passing) open(t *testing.T, headers ...string) (*websocket.Conn, int) {
	t.Helper()
	h := http.Header{"Authorization": {"Bearer secret"}, "Cookie": {"a=b"}, "Origin": {"https://example.org"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	conn, response, err := websocket.Dial(t.Context(), p.url, &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		require.NotNil(t, response, err)
		return nil, response.StatusCode
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, response.StatusCode
}

func say(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
}

func hear(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, message, err := conn.Read(ctx)
	require.NoError(t, err)
	return string(message)
}

// ended is with what a connection ends.
func ended(t *testing.T, conn *websocket.Conn) websocket.CloseError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, _, err := conn.Read(ctx)
	var closeError websocket.CloseError
	require.ErrorAs(t, err, &closeError)
	return closeError
}

// A bounded number of connections is forwarded both ways, until one side or the server ends them.
func TestConnectionsArePassedOn(t *testing.T) {
	far := echoing(t)
	s := serveSockets(t, rpc.Ethereum{Node: far, Namespaces: []string{"eth"}, Sockets: rpc.SocketLimits{Most: 2}}, nil)
	first, _ := s.open(t)
	second, _ := s.open(t)
	for _, conn := range []*websocket.Conn{first, second} {
		say(t, conn, `{"method":"eth_call","id":1}`)
		require.JSONEq(t, `{"method":"eth_call","id":1}`, hear(t, conn))
		say(t, conn, `{"method":"debug_setHead","id":1}`)
		require.Contains(t, hear(t, conn), `"code":-32601`)
		say(t, conn, `{"method":"debug_setHead"}`) // a notification, which has no answer
		say(t, conn, `{`)
		require.Contains(t, hear(t, conn), `"code":-32700`)
	}
	for _, length := range []int{1, 8<<10 - 1, 8 << 10, 8<<10 + 1, 3 << 20} {
		say(t, first, fmt.Sprint(length))
		require.Len(t, hear(t, first), length)
	}
	_, status := s.open(t)
	require.Equal(t, http.StatusServiceUnavailable, status, "one too many")
	require.NoError(t, first.Close(websocket.StatusNormalClosure, ""))
	require.Eventually(t, func() bool {
		_, status := s.open(t)
		return status == http.StatusSwitchingProtocols
	}, 2*time.Minute, 10*time.Millisecond, "once there is room")

	go func() { _ = s.stop() }()
	require.Equal(t, websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "the service is stopping"}, ended(t, second))
	require.NoError(t, s.stop())

	far.fails = true
	_, status = serveSockets(t, rpc.Ethereum{Node: far}, nil).open(t)
	require.Equal(t, http.StatusBadGateway, status)
}

func TestConnectionIsBounded(t *testing.T) {
	far := echoing(t)
	for name, test := range map[string]struct {
		limits  rpc.SocketLimits
		body    int64
		message string
		want    websocket.CloseError
	}{
		"idle":     {limits: rpc.SocketLimits{Idle: 100 * time.Millisecond, Life: time.Hour}, want: websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "there was no message for too long"}},
		"life":     {limits: rpc.SocketLimits{Idle: time.Hour, Life: 100 * time.Millisecond}, want: websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "connections do not last longer; open another one"}},
		"too long": {body: 100, message: strings.Repeat("x", 101), want: websocket.CloseError{Code: websocket.StatusMessageTooBig, Reason: "the message is too large"}},
		"no room":  {body: 8 << 20, message: strings.Repeat("x", 5<<20), want: websocket.CloseError{Code: websocket.StatusTryAgainLater, Reason: rpc.ErrBusy.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, status := serveSockets(t, rpc.Ethereum{Node: far, BodyLimit: test.body, Sockets: test.limits}, nil).open(t)
			require.Equal(t, http.StatusSwitchingProtocols, status)
			if test.message != "" {
				_ = conn.Write(t.Context(), websocket.MessageText, []byte(test.message)) // it may be cut short
			}
			require.Equal(t, test.want, ended(t, conn))
		})
	}
}

// Each call of a batch counts: all of them are forwarded, or none.
func TestBatchesHaveAllowances(t *testing.T) {
	batch := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"method":"eth_call","id":1},`, n), ",") + "]"
	}
	guard, err := access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 0.001, Burst: 10}}})
	require.NoError(t, err)
	far := echoing(t)
	ethereum := rpc.Ethereum{Node: far, Path: ethPath, BodyLimit: 1 << 20, Namespaces: []string{"eth"}, Log: slog.New(slog.DiscardHandler)}
	public, err := handlers.New(handlers.Options{Access: guard, Node: ethereum.Calls()})
	require.NoError(t, err)
	server := httptest.NewServer(public)
	defer server.Close()
	url := server.URL + ethPath

	response, got := post(t, url, "application/json", batch(7))
	require.Equal(t, http.StatusOK, response.StatusCode, got)
	require.Equal(t, "3", response.Header.Get("ratelimit-remaining"))
	far.body = ""
	response, got = post(t, url, "application/json", batch(4))
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.JSONEq(t, `{"statusCode":429,"error":"Too Many Requests","code":"RATE_LIMITED","message":"more than 0.001 requests a second; try again in `+response.Header.Get("retry-after")+` s"}`, got)
	require.Equal(t, response.Header.Get("retry-after"), response.Header.Get("ratelimit-reset"))
	require.Equal(t, "0", response.Header.Get("ratelimit-remaining"))
	require.Empty(t, far.body)
	response, got = post(t, url, "application/json", batch(2)) // two are left, as one was for the refusal
	require.Equal(t, http.StatusOK, response.StatusCode, got)
	response, _ = post(t, url, "application/json", batch(1))
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)

	// More than are ever allowed: the error of a node for a batch that is too large.
	const tooLarge = `[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"11 requests at once are more than the rate limit ever allows; send at most 10 in a batch"}}]`
	guard, err = access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 0.001, Burst: 10}}})
	require.NoError(t, err)
	fresh, err := handlers.New(handlers.Options{Access: guard, Node: ethereum.Calls()})
	require.NoError(t, err)
	ample := httptest.NewServer(fresh)
	defer ample.Close()
	response, got = post(t, ample.URL+ethPath, "application/json", batch(11))
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, tooLarge, got)
	require.Equal(t, "9", response.Header.Get("ratelimit-remaining"), "the refusal counts once")
	require.Empty(t, response.Header.Get("retry-after"), "waiting does not help")

	// Over a connection, which is a request itself.
	guard, err = access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 0.001, Burst: 10}}})
	require.NoError(t, err)
	conn, _ := serveSockets(t, rpc.Ethereum{Node: far}, guard).open(t)
	say(t, conn, batch(7))
	require.Equal(t, batch(7), hear(t, conn))
	say(t, conn, batch(3))
	require.Contains(t, hear(t, conn), `"code":-32005,"message":"more than 0.001 requests a second`)
	say(t, conn, batch(2))
	require.Equal(t, batch(2), hear(t, conn))
	say(t, conn, batch(11))
	require.Equal(t, tooLarge, hear(t, conn))
}

// Calls over a connection count against the rate of the nodes. A call for which it leaves no room gets an error, and the
// connection goes on.
func TestConnectionKeepsToTheRate(t *testing.T) {
	far := echoing(t)
	var asked []string
	full := false
	far.await = func(ctx context.Context, body []byte) error {
		_, bounded := ctx.Deadline()
		assert.True(t, bounded)
		asked = append(asked, string(body))
		if full {
			return fmt.Errorf("%w: secret", node.ErrBusy)
		}
		return nil
	}
	conn, _ := serveSockets(t, rpc.Ethereum{Node: far, Namespaces: []string{"eth"}}, nil).open(t)
	const call = `{"method":"eth_call","id":1}`
	say(t, conn, call)
	require.Equal(t, call, hear(t, conn))
	say(t, conn, `{"method":"debug_setHead","id":2}`)
	require.Contains(t, hear(t, conn), `"code":-32601`)
	full = true
	say(t, conn, "["+call+"]")
	require.Equal(t, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"too many calls to the upstream node are in progress; try again in a moment"}}]`, hear(t, conn))
	full = false
	say(t, conn, call)
	require.Equal(t, call, hear(t, conn))
	require.Equal(t, []string{call, "[" + call + "]", call}, asked)
}

// A batch has as many calls as a node accepts. Larger ones are refused before they take many times
// their length.
func TestBatchesAreBounded(t *testing.T) {
	u := &elsewhere{}
	h := rpc.Ethereum{Node: u, Path: ethPath, BodyLimit: 5 << 20, Log: slog.New(slog.DiscardHandler)}.Calls()
	ask := func(body string) string {
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request)
		require.Equal(t, http.StatusOK, w.Code)
		return w.Body.String()
	}
	const tricky = `{"id":"a,\",b","method":"eth_call","params":[[1,2],{"x":[3,4]}]}`
	all := tricky + strings.Repeat(","+tricky, 999)
	require.Equal(t, "from upstream", ask(" [ "+all+" ] "))
	require.Equal(t, `[{"jsonrpc":"2.0","id":"a,\",b","error":{"code":-32600,"message":"batch too large"}}]`, ask("["+all+",1]"))
	require.Equal(t, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}]`, ask("[1"+strings.Repeat(",1", 2<<20)+"]"))
}

// Each message counts as a request, and each client has a limited number of connections.
func TestConnectionsHaveAllowances(t *testing.T) {
	keys := access.KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	key, err := keys.Add("one", "wide", time.Now())
	require.NoError(t, err)
	guard, err := access.New(access.Options{Keys: keys, Classes: map[string]access.Class{
		access.DefaultClass: {PerSecond: 0.001, Burst: 5}, "wide": {PerSecond: 1000, Burst: 1000},
	}})
	require.NoError(t, err)
	s := serveSockets(t, rpc.Ethereum{Node: echoing(t), Sockets: rpc.SocketLimits{Most: 100, PerClient: 2}}, guard)
	const call = `{"method":"eth_call","id":1}`

	first, _ := s.open(t)
	second, _ := s.open(t)
	_, status := s.open(t)
	require.Equal(t, http.StatusTooManyRequests, status, "its share is used up")
	for _, conn := range []*websocket.Conn{first, second} {
		say(t, conn, call)
		require.Equal(t, call, hear(t, conn))
	}
	for _, conn := range []*websocket.Conn{first, second} {
		say(t, conn, call)
		require.Contains(t, hear(t, conn), `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"more than 0.001 requests a second; try again in`)
	}

	withKey, status := s.open(t, "x-data-api-key", key)
	require.Equal(t, http.StatusSwitchingProtocols, status, "who has a key is another client")
	for range 20 {
		say(t, withKey, call)
		require.Equal(t, call, hear(t, withKey))
	}
	require.NoError(t, keys.Revoke("one", time.Now()))
	say(t, withKey, call)
	require.Equal(t, websocket.StatusPolicyViolation, ended(t, withKey).Code)
}
