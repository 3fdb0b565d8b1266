package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers each call with its own parameters.
func echo(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
			return
		}
		var one request
		if json.NewDecoder(r.Body).Decode(&one) != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = w.Write(one.reply(&Answer{Result: one.Params}))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer func() { _ = r.Body.Close() }()
	content, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(content)
}

func TestRules(t *testing.T) {
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	}
	result := func(text string) string { return `{"jsonrpc":"2.0","id":7,"result":` + text + `}` }
	for _, test := range []struct {
		name   string
		rules  []Rule
		body   string
		status int
		want   string
	}{
		{"no rule", nil, call("a", "[1]"), 200, result("[1]")},
		{"another method", []Rule{Null("b")}, call("a", "[1]"), 200, result("[1]")},
		{"null", []Rule{Null("a")}, call("a", "[1]"), 200, result("null")},
		{"an empty list", []Rule{Empty("a")}, call("a", "[1]"), 200, result("[]")},
		{"a namespace", []Rule{Missing("debug_*")}, call("debug_x", "[]"), 200, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"the method debug_x does not exist/is not available"}}`},
		{"an error", []Rule{Refuse("a", -32000, "no")}, call("a", "[]"), 200, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no"}}`},
		{"a status", []Rule{Status("a", 403)}, call("a", "[]"), 403, "Forbidden\n"},
		{"a height", []Rule{Height("platform.getHeight", 12)}, call("platform.getHeight", "{}"), 200, result(`{"height":"12"}`)},
		{"a block number", []Rule{Height("eth_blockNumber", 12)}, call("eth_blockNumber", "[]"), 200, result(`"0xc"`)},
		{"below a height", []Rule{Below(16, Null("a"))}, call("a", `["0xf",true]`), 200, result("null")},
		{"at the height", []Rule{Below(16, Null("a"))}, call("a", `["0x10",true]`), 200, result(`["0x10",true]`)},
		{"a tag", []Rule{Below(16, Null("a"))}, call("a", `["latest"]`), 200, result(`["latest"]`)},
		{"the first rule", []Rule{Null("a"), Empty("a")}, call("a", "[]"), 200, result("null")},
		{"delay and answer", []Rule{Delay("*", time.Millisecond), Empty("a")}, call("a", "[1]"), 200, result("[]")},
		{"a change", []Rule{{Method: "a", Change: func(_ Call, r json.RawMessage) json.RawMessage {
			return json.RawMessage(`{"was":` + string(r) + `}`)
		}}}, call("a", "[1]"), 200, result(`{"was":[1]}`)},
		{"a batch", []Rule{Null("b")}, "[" + call("a", "[1]") + "," + call("b", "[2]") + "]", 200, "[" + result("[1]") + "," + result("null") + "]"},
		{"a batch with a status", []Rule{Status("b", 503)}, "[" + call("a", "[1]") + "," + call("b", "[2]") + "]", 503, "Service Unavailable\n"},
		{"no call at all", nil, "nonsense", http.StatusTeapot, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, got := post(t, Start(t, echo(t), test.rules...).URL, test.body)
			require.Equal(t, test.status, status)
			require.Equal(t, test.want, got)
		})
	}
}

func TestCountsAndChanges(t *testing.T) {
	p := Start(t, echo(t), First(2, Status("a", 502)), Limit("b", 0))
	body := func(method string) string { return `{"id":1,"method":"` + method + `","params":[]}` }
	for _, want := range []int{502, 502, 200, 200} {
		status, _ := post(t, p.URL, body("a"))
		require.Equal(t, want, status)
	}
	status, _ := post(t, p.URL, body("b"))
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, 4, p.Calls("a"))
	p.Set()
	status, _ = post(t, p.URL, body("b"))
	require.Equal(t, http.StatusOK, status)

	r, err := http.Get(p.URL + "/ext/health")
	require.NoError(t, err)
	defer func() { _ = r.Body.Close() }()
	content, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, "GET /ext/health", string(content))
}
