package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/stretchr/testify/require"

	"quorate/aggregator"
)

// FuzzRoutes sends anything to every route of both surfaces: nothing panics, no
// answer is a 5xx, and every error has the contract's body.
func FuzzRoutes(f *testing.F) {
	s := &fakeSigner{sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) { return signed(req), nil }}
	public := newPublic(f, s, nil)
	private, err := NewPrivate(PrivateOptions{Networks: map[string]Network{"fuji": {NetworkID: 5, Signer: s, SubnetReady: func(ids.ID) error { return nil }}}})
	require.NoError(f, err)
	type route struct {
		h            http.Handler
		method, path string
	}
	var routes []route
	for _, r := range public.Routes() {
		routes = append(routes, route{public, r.Method, r.Path})
	}
	for _, r := range private.Routes() {
		routes = append(routes, route{private, r.Method, r.Path})
	}
	require.Greater(f, len(routes), 20)
	good := hexOf(message(f, 5).Bytes())
	for i := range routes {
		f.Add(uint16(i), "fuji", "1", "pageSize=10", `{"message":"`+good+`"}`, "application/json")
		f.Add(uint16(i), "\x00%2e%2e/", "-1", "pageSize=-1&pageToken=%ff&addresses=,,", "{", "")
		f.Add(uint16(i), strings.Repeat("9", 100), "0x"+strings.Repeat("f", 40), "startBlock=99999999999999999999&blockNumber=0.5", strings.Repeat("[", 2000), "text/plain")
	}
	f.Fuzz(func(t *testing.T, n uint16, first, second, query, body, contentType string) {
		r := routes[int(n)%len(routes)]
		values := []string{first, second, first, second}
		parts := strings.Split(r.path, "/")
		for i, part := range parts {
			if strings.HasPrefix(part, ":") {
				parts[i] = url.PathEscape(values[0])
				values = append(values[1:], first)
			}
		}
		target := strings.ReplaceAll(strings.Join(parts, "/"), `\:`, ":")
		request := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		request.Method = r.method
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // net/http refuses it as well
		}
		u.RawQuery = query
		request.URL = u
		request.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		r.h.ServeHTTP(w, request)
		if w.Code >= 500 {
			t.Fatalf("%s %s: got %d %s, want no 5xx", r.method, target, w.Code, w.Body)
		}
		if w.Code < 400 || r.method == http.MethodHead || u.Path == "/aggregate-signatures" {
			return
		}
		var failure struct {
			Message    any
			StatusCode int
			Error      string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &failure); err != nil || failure.Message == nil || failure.StatusCode != w.Code || failure.Error != http.StatusText(w.Code) {
			t.Fatalf("%s %s: got the error body %s, want message, statusCode %d and error", r.method, target, w.Body, w.Code)
		}
	})
}
