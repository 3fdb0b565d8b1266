package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/rpc"
	"quorate/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Echo answers what it was asked.
type Echo struct{}

// EchoArgs is exported as RPC wants it.
type EchoArgs struct {
	Text   string `json:"text"`
	Number uint32 `json:"number"`
}

func (Echo) Say(_ *http.Request, args, reply *EchoArgs) error {
	*reply = *args
	return nil
}

func (Echo) Fail(*http.Request, *struct{}, *EchoArgs) error { return errors.New("as <asked>") }

func (Echo) Elsewhere(*http.Request, *EchoArgs, *EchoArgs) error { return rpc.ErrForward }

// upstream remembers what it was handed.
type upstream struct {
	path, body string
	hedged     bool
	fails      bool
	refuses    rpc.RefusalError
	unsure     bool
	full       bool
}

func (u *upstream) Forward(_ context.Context, path string, body []byte, hedged bool) (*node.Forwarded, error) {
	u.path, u.body, u.hedged = path, string(body), hedged
	if u.refuses != "" {
		return nil, u.refuses
	}
	if u.unsure {
		return nil, fmt.Errorf("secret address: %w", node.ErrUnsure)
	}
	if u.full {
		return nil, fmt.Errorf("forwarding: %w", node.ErrNoRoom)
	}
	if u.fails {
		return nil, errors.New("secret address refused")
	}
	return &node.Forwarded{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}}, Body: []byte("from upstream")}, nil
}

func serve(t *testing.T, u *upstream) *httptest.Server {
	t.Helper()
	s := rpc.New(rpc.Options{NodeID: ids.NodeID{1}})
	e := rpc.Endpoint{Services: []rpc.Service{{Names: []string{"echo", "other"}, Methods: Echo{}}}}
	h, err := rpc.NewHandler(e)
	require.NoError(t, err)
	require.NoError(t, s.Add("echo", "", h))
	e.Path, e.Upstream, e.Rename = "/ext/bc/X", u, map[string]string{"xvm": "avm"}
	h, err = rpc.NewHandler(e)
	require.NoError(t, err)
	require.NoError(t, s.Add("bc/X", "", h))
	ready := false
	h, err = rpc.NewHandler(rpc.Endpoint{Ready: func() bool { return ready }})
	require.NoError(t, err)
	require.NoError(t, s.Add("bc/late", "", h))
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

func post(t *testing.T, url, contentType, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(content)
}

func TestEnvelope(t *testing.T) {
	server := serve(t, &upstream{})
	const argument = "couldn't unmarshal an argument. Ensure arguments are valid and properly formatted. See documentation for example calls"
	failure := func(code, message, id string) string {
		return `{"jsonrpc":"2.0","error":{"code":` + code + `,"message":` + message + `,"data":null},"id":` + id + "}\n"
	}
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":9223372036854775807,"method":"echo.say","params":{"text":"<a>&"}}`: `{"jsonrpc":"2.0","result":{"text":"\u003ca\u003e\u0026","number":0},"id":9223372036854775807}` + "\n",
		`{"jsonrpc":"2.0","id":{"a":[1]},"method":"other.say","params":[{"TEXT":"b","more":1}]}`:  `{"jsonrpc":"2.0","result":{"text":"b","number":0},"id":{"a":[1]}}` + "\n",
		`{"jsonrpc":"2.0","id":"x","method":"echo.say"}`:                                          `{"jsonrpc":"2.0","result":{"text":"","number":0},"id":"x"}` + "\n",
		`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":null} and more`:                     `{"jsonrpc":"2.0","result":{"text":"","number":0},"id":1}` + "\n",
		`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":[]}`:                                `{"jsonrpc":"2.0","result":{"text":"","number":0},"id":1}` + "\n",
		`{"jsonrpc":"2.0","method":"echo.say"}`:                                                   "",
		`{"jsonrpc":"2.0","method":"echo.fail","id":null}`:                                        "",
		`{"jsonrpc":"2.0","id":1,"method":"echo.fail"}`:                                           failure("-32000", `"as \u003casked\u003e"`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"number":-1}}`:                     failure("-32000", `"`+argument+`"`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":"text"}`:                            failure("-32000", `"`+argument+`"`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"echo.Say"}`:                                            failure("-32000", `"method must start with a non-uppercase letter"`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"echo.nothing"}`:                                        failure("-32000", `"rpc: can't find method \"echo.Nothing\""`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"info.peers"}`:                                          failure("-32000", `"rpc: can't find service \"info.Peers\""`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"say"}`:                                                 failure("-32000", `"rpc: service/method request ill-formed: \"say\""`, "1"),
		`{"jsonrpc":"2.0","id":1,"method":"a.b.c"}`:                                               failure("-32000", `"rpc: service/method request ill-formed: \"a.B.c\""`, "1"),
		`{"jsonrpc":"2.0","id":1}`:                                                                failure("-32000", `"rpc: service/method request ill-formed: \"\""`, "1"),
		`{"jsonrpc":"1.0","id":1,"method":"echo.say"}`:                                            `{"jsonrpc":"2.0","error":{"code":-32600,"message":"jsonrpc must be 2.0","data":{"jsonrpc":"1.0","method":"echo.say","params":null,"id":1}},"id":1}` + "\n",
		``:  `{"jsonrpc":"2.0","error":{"code":-32700,"message":"EOF","data":{"jsonrpc":"","method":"","params":null,"id":null}},"id":null}` + "\n",
		`{`: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"unexpected EOF","data":{"jsonrpc":"","method":"","params":null,"id":null}},"id":null}` + "\n",
	} {
		response, got := post(t, server.URL+"/ext/echo", "Application/JSON; charset=utf-8", body)
		require.Equal(t, http.StatusOK, response.StatusCode, body)
		require.Equal(t, want, got, body)
		require.Equal(t, ids.NodeID{1}.String(), response.Header.Get("Node-Id"))
		require.Equal(t, "Origin", response.Header.Get("Vary"))
		if want != "" {
			require.Equal(t, "application/json; charset=utf-8", response.Header.Get("Content-Type"), body)
		}
	}
	_, got := post(t, server.URL+"/ext/echo", "application/json", `[{"jsonrpc":"2.0","id":1,"method":"echo.say"}]`)
	require.Contains(t, got, `"code":-32700`)
	require.Contains(t, got, "json: cannot unmarshal array")
}

func TestTransport(t *testing.T) {
	server := serve(t, &upstream{})
	const say = `{"jsonrpc":"2.0","id":1,"method":"echo.say"}`
	for _, contentType := range []string{"", "text/plain", "application/jsonx"} {
		response, got := post(t, server.URL+"/ext/echo", contentType, say)
		require.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode)
		require.Equal(t, "text/plain; charset=utf-8", response.Header.Get("Content-Type"))
		require.Equal(t, "rpc: unrecognized Content-Type: "+contentType, got)
	}
	do := func(method, path string, header map[string]string) (*http.Response, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		require.NoError(t, err)
		for k, v := range header {
			if k == "Host" {
				request.Host = v
			}
			request.Header.Set(k, v)
		}
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response, string(content)
	}
	response, got := do(http.MethodGet, "/ext/echo", nil)
	require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
	require.Equal(t, "rpc: POST method required, received GET", got)
	for _, path := range []string{"/ext/", "/ext/nothing", "/ext/echo/", "/ext/ECHO"} {
		response, got = do(http.MethodPost, path, nil)
		require.Equal(t, http.StatusNotFound, response.StatusCode, path)
		require.Equal(t, "404 page not found\n", got)
		require.NotEmpty(t, response.Header.Get("Node-Id"))
	}
	response, _ = do(http.MethodPost, "//ext//echo", nil)
	require.Equal(t, http.StatusMovedPermanently, response.StatusCode)
	require.Equal(t, "/ext/echo", response.Header.Get("Location"))
	// A request for a virtual machine goes by no path.
	for _, path := range []string{"/ext/echo", "/ext/nothing", "//ext/echo"} {
		response, got = do(http.MethodPost, path, map[string]string{"Avalanche-Api-Route": ids.ID{1}.String()})
		require.Equal(t, http.StatusNotFound, response.StatusCode, path)
		require.Empty(t, got)
		require.NotEmpty(t, response.Header.Get("Node-Id"))
	}
	response, got = do(http.MethodPost, "/ext/bc/late", nil)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "API call rejected because chain is not done bootstrapping\n", got)

	for host, status := range map[string]int{"localhost": 405, "LOCALHOST:9650": 405, "127.0.0.1:1": 405, "[::1]:1": 405, "[::1]": 403, "evil.example": 403, "evil.example:9650": 403} {
		response, got = do(http.MethodGet, "/ext/echo", map[string]string{"Host": host})
		require.Equal(t, status, response.StatusCode, host)
		if status == http.StatusForbidden {
			require.Equal(t, "invalid host specified\n", got)
		}
	}
	response, _ = do(http.MethodGet, "/ext/echo", map[string]string{"Origin": "https://a.example"})
	require.Equal(t, "*", response.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", response.Header.Get("Access-Control-Allow-Credentials"))
	response, _ = do(http.MethodOptions, "/ext/echo", map[string]string{"Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
	require.Equal(t, http.StatusOK, response.StatusCode)
	response, _ = do(http.MethodOptions, "/ext/echo", nil)
	require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
}

func TestUnanswered(t *testing.T) {
	lacks, log := &node.RPCError{Code: http.StatusNotFound}, slog.New(slog.DiscardHandler)
	require.EqualError(t, rpc.Unanswered(log, "avm.getTx", lacks), "the upstream node does not offer avm.getTx")
	require.EqualError(t, rpc.Unanswered(log, "avm.getTx", errors.Join(node.ErrUnavailable, lacks)), "the upstream node does not answer avm.getTx", "another node may offer it")
}

func TestWhatIsNotAnsweredHereIsForwarded(t *testing.T) {
	u := &upstream{}
	server := serve(t, u)
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":12345678901234567890,"method":"xvm.getTx","params":{"a":1.50}}`: `{"jsonrpc":"2.0","method":"avm.getTx","params":{"a":1.50},"id":12345678901234567890}`,
		`{"jsonrpc":"2.0","id":{"b":2},"method":"echo.elsewhere","params":{"text":"t"}} tail`:  `{"jsonrpc":"2.0","method":"echo.elsewhere","params":{"text":"t"},"id":{"b":2}}`,
		`{"jsonrpc":"2.0","method":"avm.issueTx"}`:                                             `{"jsonrpc":"2.0","method":"avm.issueTx"}`, // a notification
		`{"jsonrpc":"2.0","id":null,"method":"avm.issueTx"}`:                                   `{"jsonrpc":"2.0","method":"avm.issueTx","id":null}`,
	} {
		response, got := post(t, server.URL+"/ext/bc/X", "application/json", body)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
		if strings.Contains(body, "issueTx") {
			require.Empty(t, got)
			require.Empty(t, response.Header.Get("Content-Type"))
		} else {
			require.Equal(t, "from upstream", got)
		}
		require.JSONEq(t, want, u.body)
		require.Equal(t, "/ext/bc/X", u.path)
		require.True(t, u.hedged, "package node knows which calls only read")
	}
	// What is not a call is not forwarded.
	u.body = ""
	_, got := post(t, server.URL+"/ext/bc/X", "application/json", `{"jsonrpc":"1.0","id":1,"method":"avm.getTx"}`)
	require.Contains(t, got, "jsonrpc must be 2.0")
	require.Empty(t, u.body)

	u.fails = true
	response, got := post(t, server.URL+"/ext/bc/X", "application/json", `{"jsonrpc":"2.0","id":1,"method":"avm.getTx"}`)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NotContains(t, got, "secret")
	var answer struct {
		Error struct {
			Code    int
			Message string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got), &answer))
	require.Equal(t, -32000, answer.Error.Code)
	require.Equal(t, "the upstream node does not answer avm.getTx", answer.Error.Message)

	// The answer to an issued transaction says that its outcome is unknown.
	u.unsure = true
	response, got = post(t, server.URL+"/ext/bc/X", "application/json", `{"jsonrpc":"2.0","id":1,"method":"avm.issueTx"}`)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.Unmarshal([]byte(got), &answer))
	require.Equal(t, rpc.Unsure, answer.Error.Message)

	// Answers for the client reach it, if it waits for one.
	u.refuses = "look elsewhere"
	response, got = post(t, server.URL+"/ext/bc/X", "application/json", `{"jsonrpc":"2.0","id":1,"method":"avm.getTx"}`)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"look elsewhere","data":null},"id":1}`+"\n", got)
	response, got = post(t, server.URL+"/ext/bc/X", "application/json", `{"jsonrpc":"2.0","method":"avm.getTx"}`)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Empty(t, got)
}

func TestAliases(t *testing.T) {
	s := rpc.New(rpc.Options{})
	said := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	require.NoError(t, s.Alias("bc/chain", "bc/X", "X"))
	require.NoError(t, s.Add("bc/chain", "", said("chain")))
	require.NoError(t, s.Add("bc/chain", "/wallet", said("wallet")))
	require.NoError(t, s.Alias("bc/chain", "late"))
	for path, want := range map[string]string{
		"/ext/bc/chain": "chain", "/ext/bc/X": "chain", "/ext/X": "chain", "/ext/late": "chain",
		"/ext/X/wallet": "wallet", "/ext/late/wallet": "wallet", "/ext/bc/late": "404 page not found\n",
	} {
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, nil).WithContext(t.Context()))
		// httptest's requests name example.com.
		require.Equal(t, http.StatusForbidden, recorder.Code)
		recorder = httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, path, nil)
		request.Host = "localhost"
		s.ServeHTTP(recorder, request)
		require.Equal(t, want, recorder.Body.String(), path)
	}
	require.EqualError(t, s.Alias("bc/other", "late"), "route is either already aliased or already maps to a handle: /ext/late")
	require.EqualError(t, s.Add("late", "", said("x")), "route is either already aliased or already maps to a handle: /ext/late")
	require.NoError(t, s.Add("info", "", said("info")))
	require.EqualError(t, s.Alias("bc/chain", "info"), "failed to create endpoint as /ext/info already exists")
}
