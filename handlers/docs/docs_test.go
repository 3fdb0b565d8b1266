package docs_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/getkin/kin-openapi/openapi3"

	"quorate/handlers"
	"quorate/handlers/apitest"
	"quorate/handlers/docs"
	"quorate/handlers/docs/conform"
	"quorate/handlers/operation"
	"quorate/handlers/query"
)

// The document is valid, examples and defaults included, and describes each operation and
// parameter.
//
//test:plain
func TestDocumentIsValid(t *testing.T) {
	document := conform.Document(t)
	require.NoError(t, document.Validate(t.Context(), openapi3.EnableExamplesValidation()))
	seen := map[string]bool{}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			require.NotEmpty(t, operation.Summary, "%s %s", method, path)
			require.NotEmpty(t, operation.Tags, "%s %s", method, path)
			require.False(t, seen[operation.OperationID], operation.OperationID)
			seen[operation.OperationID] = true
		}
	}
}

func surface(t *testing.T) http.Handler {
	t.Helper()
	e := echo.New()
	require.NoError(t, docs.Route(e, conform.Operations()))
	return e
}

// Everything that the page loads is served here, and it may load nothing else.
func TestPageNeedsNoOtherHost(t *testing.T) {
	h := surface(t)
	page := apitest.Get(h, "/docs")
	require.Equal(t, http.StatusOK, page.Code)
	require.Contains(t, page.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.NotRegexp(t, `https?://`, page.Header().Get("Content-Security-Policy"))
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	require.GreaterOrEqual(t, len(links), 4)
	for _, link := range links {
		if strings.HasPrefix(link[1], "data:") || link[1] == "console/" {
			continue
		}
		require.Equal(t, http.StatusOK, apitest.Get(h, "/"+link[1]).Code, link[1])
	}
	start := apitest.Get(h, "/docs/start.js").Body.String()
	require.Contains(t, start, `fetch("docs/openapi.json")`)
	require.Equal(t, http.StatusOK, apitest.Get(h, "/docs/examples.js").Code)
	require.Contains(t, start, "validatorUrl: null")
	require.True(t, json.Valid(apitest.Get(h, "/docs/openapi.json").Body.Bytes()))
	require.Equal(t, "../docs", apitest.Get(h, "/docs/").Header().Get("Location"))
}

func TestFilesAreCompressedAndKept(t *testing.T) {
	h := surface(t)
	plain := apitest.Get(h, "/docs/swagger-ui.css")
	packed := apitest.Get(h, "/docs/swagger-ui.css", "Accept-Encoding", "br, gzip")
	require.Equal(t, "gzip", packed.Header().Get("Content-Encoding"))
	require.Less(t, packed.Body.Len(), plain.Body.Len()/4)
	unpacked, err := gzip.NewReader(packed.Body)
	require.NoError(t, err)
	content, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Equal(t, plain.Body.Bytes(), content)
	kept := apitest.Get(h, "/docs/swagger-ui.css", "If-None-Match", plain.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, kept.Code)
	require.Zero(t, kept.Body.Len())
}

// The embedded files of Swagger UI equal those of its package.
func TestVendoredFilesHaveTheirSums(t *testing.T) {
	sums, err := os.ReadFile(filepath.Join("ui", "SHA256SUMS"))
	require.NoError(t, err)
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			continue
		}
		n++
		packed, err := os.Open(filepath.Join("ui", name+".gz"))
		require.NoError(t, err)
		defer func() { _ = packed.Close() }()
		plain, err := gzip.NewReader(packed)
		require.NoError(t, err)
		sum := sha256.New()
		_, err = io.Copy(sum, plain)
		require.NoError(t, err)
		require.Equal(t, want, hex.EncodeToString(sum.Sum(nil)), name)
	}
	require.Equal(t, 2, n)
}

var write = flag.Bool("write", false, "write the tables of operations to docs/data-api.md")

// The documentation has a table of the operations of each tag. With -write, the test writes the tables.
func TestOperationsAreDocumented(t *testing.T) {
	const file = "../../docs/data-api.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all, tags := conform.Operations(), map[string]bool{}
	want := regexp.MustCompile(`(?s)<!-- operations: (.+?) -->\n.*?<!-- end of operations -->`).ReplaceAllStringFunc(string(text), func(section string) string {
		begin, _, _ := strings.Cut(section, "\n")
		tag := strings.TrimSuffix(strings.TrimPrefix(begin, "<!-- operations: "), " -->")
		tags[tag] = true
		return begin + "\n" + operation.Table(all, tag) + "<!-- end of operations -->"
	})
	requests := map[string]bool{}
	for _, o := range all {
		request := o.Method + " " + o.Path
		require.False(t, requests[request], "%s is declared twice", request)
		requests[request] = true
		require.True(t, tags[o.Tag], "%s has no table for %q", file, o.Tag)
		paged := slices.ContainsFunc(o.Parameters, func(p query.Parameter) bool { return p.Name == query.PageToken.Name })
		require.Equal(t, paged, o.Order != "", "%s: lists in pages have an order", o.ID)
		require.NotEmpty(t, o.Index, o.ID)
	}
	if *write {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text))
}

// Operations of the clients that the documentation lists as not built are not in the document, and answer 404 with where
// to look.
func TestOtherOperationsAnswer404(t *testing.T) {
	text, err := os.ReadFile("../../docs/data-api.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "<!-- not built -->")
	require.True(t, found)
	table, _, found = strings.Cut(table, "<!-- end of not built -->")
	require.True(t, found)
	rows := regexp.MustCompile("(?m)^\\| `(GET|POST) (\\S+)` \\| (.+) \\|$").FindAllStringSubmatch(table, -1)
	require.Len(t, rows, strings.Count(table, "\n")-3)
	h, err := handlers.New(handlers.Options{})
	require.NoError(t, err)
	documented := conform.Document(t).Paths
	for _, row := range rows {
		method, path := row[1], row[2]
		if item := documented.Value(path); item != nil {
			require.Nil(t, item.GetOperation(method), path)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "1"), strings.NewReader("{}")))
		require.Equal(t, http.StatusNotFound, w.Code, "%s: %s", path, w.Body)
		require.Contains(t, w.Body.String(), "GET /docs", path)
	}
}

// For each tag with an operation that the generated clients have, a test requires that their calls reach all of them.
func TestOperationsAreCalledByClients(t *testing.T) {
	files, err := filepath.Glob("../*/*_test.go")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(text)
	}
	for _, o := range conform.Operations() {
		if !o.NoClient {
			require.Contains(t, tests.String(), fmt.Sprintf(".Require(t, %q)", o.Tag), "%s: no test requires client calls, see conform.Calls", o.ID)
		}
	}
}
