// Package docs serves the reference of the public API: an OpenAPI 3.1 document and a page to read it and to try the
// operations. Both are embedded in the binary and load nothing from other hosts.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"quorate/handlers/operation"
)

//go:embed openapi.yaml
var source []byte

//go:embed ui
var ui embed.FS

// Document returns the OpenAPI document as JSON: openapi.yaml with the paths of operations.
func Document(operations []operation.Operation) ([]byte, error) {
	var document struct {
		Paths map[string]any
		Rest  map[string]any `yaml:",inline"`
	}
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, fmt.Errorf("reading the API's description: %w", err)
	}
	for path, item := range operation.Paths(operations) {
		if _, ok := document.Paths[path]; ok {
			return nil, fmt.Errorf("both openapi.yaml and a table of operations have the path %s", path)
		}
		document.Paths[path] = item
	}
	document.Rest["paths"] = document.Paths
	return json.Marshal(document.Rest)
}

// policy restricts the page to the service's own content. Swagger UI sets inline styles and loads images from data
// URLs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Route adds /docs, the page, and /docs/openapi.json, the document.
func Route(e *echo.Echo, operations []operation.Operation) error {
	document, err := Document(operations)
	if err != nil {
		return err
	}
	files := map[string]file{"/docs/openapi.json": {kind: echo.MIMEApplicationJSON}}
	contents := map[string][]byte{"/docs/openapi.json": document}
	for path, f := range map[string]file{
		"/docs":                      {name: "index.html", kind: echo.MIMETextHTMLCharsetUTF8},
		"/docs/start.js":             {name: "start.js", kind: echo.MIMEApplicationJavaScriptCharsetUTF8},
		"/docs/examples.js":          {name: "examples.js", kind: echo.MIMEApplicationJavaScriptCharsetUTF8},
		"/docs/swagger-ui-bundle.js": {name: "swagger-ui-bundle.js.gz", kind: echo.MIMEApplicationJavaScriptCharsetUTF8},
		"/docs/swagger-ui.css":       {name: "swagger-ui.css.gz", kind: "text/css; charset=utf-8"},
	} {
		if contents[path], err = ui.ReadFile("ui/" + f.name); err != nil {
			return fmt.Errorf("reading the reference's page: %w", err)
		}
		files[path] = f
	}
	for path, f := range files {
		if f.compressed, err = compress(f.name, contents[path]); err != nil {
			return err
		}
		sum := sha256.Sum256(f.compressed)
		f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
		e.GET(path, f.serve)
		e.HEAD(path, f.serve)
	}
	e.GET("/docs/", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, "../docs") })
	return nil
}

// file is the content at one path.
type file struct {
	name, kind, tag string
	compressed      []byte // by gzip
}

func compress(name string, content []byte) ([]byte, error) {
	if strings.HasSuffix(name, ".gz") {
		return content, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (f file) serve(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentSecurityPolicy, policy)
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderCacheControl, "no-cache") // clients revalidate with the tag
	h.Set("ETag", f.tag)
	h.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if c.Request().Header.Get("If-None-Match") == f.tag {
		return c.NoContent(http.StatusNotModified)
	}
	if strings.Contains(c.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
		h.Set(echo.HeaderContentEncoding, "gzip")
		return c.Blob(http.StatusOK, f.kind, f.compressed)
	}
	plain, err := gzip.NewReader(bytes.NewReader(f.compressed))
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", f.name, err)
	}
	content, err := io.ReadAll(plain)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", f.name, err)
	}
	return c.Blob(http.StatusOK, f.kind, content)
}
