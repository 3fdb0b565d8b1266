package handlers

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/docs/conform"
)

// Every documented operation refuses a parameter that it does not have, by name. Generated clients may send it.
// The health check ignores parameters, because load balancers add some.
func TestUnknownParametersAreRefused(t *testing.T) {
	public := newPublic(t, &fakeSigner{}, nil)
	const txHash = "11111111111111111111111111111111LpoYY"
	braces := regexp.MustCompile(`{\w+}`)
	tested := 0
	for path, item := range conform.Document(t).Paths.Map() {
		for method := range item.Operations() {
			target := strings.NewReplacer("{network}", "fuji", "{txHash}", txHash).Replace(path)
			request := httptest.NewRequest(method, braces.ReplaceAllString(target, "1")+"?zzz=1", http.NoBody)
			answer := httptest.NewRecorder()
			if public.ServeHTTP(answer, request); path == "/health" {
				require.Equal(t, http.StatusOK, answer.Code, path)
				continue
			}
			require.Equal(t, http.StatusBadRequest, answer.Code, "%s %s: %s", method, path, answer.Body)
			require.Contains(t, answer.Body.String(), "zzz", "%s %s", method, path)
			tested++
			if strings.HasSuffix(path, "/transactions/{txHash}/messages") {
				continue // generated clients do not have it
			}
			request.Header.Set("User-Agent", "speakeasy-sdk/typescript 1.0")
			answer = httptest.NewRecorder()
			public.ServeHTTP(answer, request)
			require.NotContains(t, answer.Body.String(), "zzz", "%s %s", method, path)
		}
	}
	require.Greater(t, tested, 60)

	for target, hint := range map[string]string{
		"/v1/signatureAggregator/fuji/messages:stream?form=oldest": "form: the operation has no such parameter; did you mean from?",
		"/v1/icm/messages:stream?cursors=oldest":                   "cursors: the operation has no such parameter; did you mean cursor?",
		"/v1/webhooks?pagesize=5":                                  "pagesize: the operation has no such parameter; did you mean pageSize?",
		"/v1/webhooks/1?status=active":                             "status: the operation has no such parameter",
	} {
		answer := do(public, http.MethodGet, target, "")
		require.Equal(t, http.StatusBadRequest, answer.Code, target)
		require.Contains(t, answer.Body.String(), hint)
	}
}

// Every route is in the document, and the document has no other.
func TestRoutesAreDocumented(t *testing.T) {
	parameter := regexp.MustCompile(`:(\w+)`)
	served := map[string]bool{}
	for _, route := range newPublic(t, &fakeSigner{}, nil).Routes() {
		if strings.HasPrefix(route.Path, "/docs") {
			continue
		}
		path := strings.ReplaceAll(route.Path, `\:`, "\x00")
		path = parameter.ReplaceAllString(path, "{$1}")
		served[route.Method+" "+strings.ReplaceAll(path, "\x00", ":")] = true
	}
	documented := map[string]bool{}
	for path, item := range conform.Document(t).Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+path] = true
		}
	}
	sorted := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	require.Equal(t, sorted(served), sorted(documented))
	require.Contains(t, served, http.MethodGet+" /v1/avg_tps/{chainId}")
}
