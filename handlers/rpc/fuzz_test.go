package rpc_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ava-labs/avalanchego/ids"

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
