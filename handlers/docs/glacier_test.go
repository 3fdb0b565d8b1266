package docs_test

import (
	"regexp"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"quorate/handlers/chainkit"
	"quorate/handlers/docs/conform"
)

// TestGlacierRequests checks that the operations have all query parameters that glacier-sdk can send. Its requests look like
// those of any other program, so unknown parameters would be refused.
func TestGlacierRequests(t *testing.T) {
	braces := regexp.MustCompile(`{\w+}`)
	shape := func(method, path string) string { return method + " " + braces.ReplaceAllString(path, "{}") }
	documented := make(map[string]*openapi3.Operation)
	for path, item := range conform.Document(t).Paths.Map() {
		for method, o := range item.Operations() {
			documented[shape(method, path)] = o
		}
	}
	found := 0
	for _, r := range chainkit.Install(t).Glacier(t) {
		o := documented[shape(r.Method, r.Path)]
		if o == nil {
			continue // TestOtherOperationsAnswer404 has those
		}
		found++
		for _, name := range r.Query {
			if o.OperationID == "listLatestPrimaryNetworkTransactions" && (name == "addresses" || name == "l1ValidationId") {
				continue // transactions are not indexed by these
			}
			assert.NotNil(t, o.Parameters.GetByInAndName(openapi3.ParameterInQuery, name), "%s %s sends %s", r.Method, r.Path, name)
		}
	}
	t.Logf("%d operations", found)
	require.Greater(t, found, 50)
}
