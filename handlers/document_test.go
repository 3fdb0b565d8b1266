package handlers

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/docs/conform"
)

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
