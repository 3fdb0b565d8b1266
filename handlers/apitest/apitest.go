// Package apitest sends requests to an API under test and checks its answers. It is only for tests.
package apitest

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/chainkit"
)

// update is a flag of every test binary that has golden files.
var update = flag.Bool("update", false, "rewrite the golden files of the shapes")

// Get sends a GET request. headers are alternating names and values.
func Get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Call sends a JSON-RPC 2.0 call. It returns the result, or the text of the error.
func Call(t testing.TB, h http.Handler, method, params string) (result json.RawMessage, failure string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), "%s", w.Body)
	if answer.Error != nil {
		return nil, answer.Error.Message
	}
	return answer.Result, ""
}

// RequireError checks that an answer is an error in the contract's format. Its message must begin with the first part,
// which is the parameter, contain the other parts, and be shorter than longest bytes.
func RequireError(t testing.TB, w *httptest.ResponseRecorder, longest, status int, parts ...string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var body struct {
		Message, Error string
		StatusCode     int
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	require.Equal(t, status, body.StatusCode)
	require.Equal(t, http.StatusText(status), body.Error)
	require.Less(t, len(body.Message), longest)
	for i, part := range parts {
		if i == 0 {
			require.True(t, strings.HasPrefix(body.Message, part), "got %q, want it to begin with %q", body.Message, part)
		}
		require.Contains(t, body.Message, part)
	}
}

var opaque = regexp.MustCompile(`"nextPageToken":"[\w-]+"`)

// RequireGolden compares an answer, without its page token, with the named file in testdata.
func RequireGolden(t testing.TB, name string, body []byte) {
	t.Helper()
	var got bytes.Buffer
	require.NoError(t, json.Indent(&got, opaque.ReplaceAll(body, []byte(`"nextPageToken":"opaque"`)), "", "  "))
	got.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), name)
}

// RequireClientErrors checks type, status, and parts of the messages of the official client's errors.
func RequireClientErrors(t testing.TB, got []chainkit.Result, want []chainkit.Error) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		require.NotNil(t, got[i].Error)
		require.Equal(t, w.Type, got[i].Error.Type)
		require.Equal(t, w.Status, got[i].Error.Status)
		require.Contains(t, got[i].Error.Message, w.Message)
	}
}

// RequireRefusals checks that the official client refuses the answer to call after each of the changes, so that its
// acceptance of the original answer is meaningful.
func RequireRefusals(t testing.TB, client *chainkit.Client, h http.Handler, call chainkit.Call, changes ...*strings.Replacer) {
	t.Helper()
	for _, change := range changes {
		broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, r)
			w.Header().Set("Content-Type", "application/json")
			_, err := change.WriteString(w, recorder.Body.String())
			require.NoError(t, err)
		}))
		r := client.Run(t, broken.URL, []chainkit.Call{call})
		broken.Close()
		require.NotNil(t, r[0].Error)
		require.Equal(t, "ResponseValidationError", r[0].Error.Type)
	}
}
