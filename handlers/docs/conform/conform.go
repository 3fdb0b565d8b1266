// Package conform tests an API against its OpenAPI document: each answer must match the document without additional
// fields, and each parameter must have the stated limits.
package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/labstack/echo/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"quorate/handlers/data"
	"quorate/handlers/docs"
	"quorate/handlers/evm"
	"quorate/handlers/metrics"
	"quorate/handlers/operation"
	"quorate/handlers/sse"
)

// Operations returns the declared operations of all packages.
func Operations() []operation.Operation {
	return slices.Concat(new(data.API).Operations(), new(evm.API).Operations(), new(metrics.API).Operations())
}

// described is the document, and the compiled schemas of answers.
type described struct {
	document   *openapi3.T
	components any
	schemas    sync.Map // *jsonschema.Schema by *openapi3.SchemaRef
}

// load reads the document once, since this takes some tenths of a second.
var load = sync.OnceValues(func() (*described, error) {
	plain, err := docs.Document(Operations())
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(plain, &tree); err != nil {
		return nil, err
	}
	closeObjects(tree)
	closed, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(closed)
	if err != nil {
		return nil, fmt.Errorf("loading the document: %w", err)
	}
	return &described{document: document, components: tree["components"]}, nil
})

// closeObjects forbids fields that a schema does not name. Clients must not rely on this, as later versions may add
// fields; the tests do.
func closeObjects(tree any) {
	switch node := tree.(type) {
	case map[string]any:
		_, properties := node["properties"].(map[string]any)
		_, open := node["additionalProperties"]
		if node["type"] == "object" && properties && !open {
			node["additionalProperties"] = false
		}
		for _, child := range node {
			closeObjects(child)
		}
	case []any:
		for _, child := range node {
			closeObjects(child)
		}
	}
}

// Document returns the validated document.
func Document(t testing.TB) *openapi3.T {
	t.Helper()
	return loaded(t).document
}

func loaded(t testing.TB) *described {
	t.Helper()
	d, err := load()
	require.NoError(t, err)
	return d
}

// Watch validates each answer of e against the document; a difference fails the test. It ignores streams and paths
// that are not in the document.
func Watch(t testing.TB, e *echo.Echo) {
	t.Helper()
	d := loaded(t)
	router, err := gorillamux.NewRouter(d.document)
	require.NoError(t, err)
	e.Pre(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request := c.Request().Clone(context.WithoutCancel(c.Request().Context()))
			route, values, err := router.FindRoute(request)
			if err != nil {
				return next(c)
			}
			answer := &recorder{ResponseWriter: c.Response().Writer}
			c.Response().Writer = answer
			err = next(c)
			kind := c.Response().Header().Get(echo.HeaderContentType)
			if err != nil || !c.Response().Committed || answer.Len() == 0 || kind == sse.ContentType {
				return err
			}
			if err := d.check(request, route, values, c.Response(), answer.Bytes()); err != nil {
				t.Errorf("%s %s: the answer is not as the document has it: %v\n%s", request.Method, request.URL, err, answer.Bytes())
			}
			return nil
		}
	})
}

// recorder records a response while it forwards it.
type recorder struct {
	http.ResponseWriter
	bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.Buffer.Write(b)
	return r.ResponseWriter.Write(b)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// check validates status and headers with openapi3filter. The body is validated here, because openapi3filter compiles the
// schema again for each answer.
func (d *described) check(r *http.Request, route *routers.Route, values map[string]string, response *echo.Response, body []byte) error {
	if err := openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: values, Route: route},
		Status:                 response.Status,
		Header:                 response.Header(),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: true},
	}); err != nil {
		return err
	}
	ref := route.Operation.Responses.Status(response.Status)
	if ref == nil {
		ref = route.Operation.Responses.Default()
	}
	if ref == nil || r.Method == http.MethodHead {
		return nil // a redirect, or the body is not sent
	}
	kind := response.Header().Get(echo.HeaderContentType)
	media := ref.Value.Content.Get(kind)
	if media == nil || media.Schema == nil {
		return fmt.Errorf("it has no answer %d of type %q", response.Status, kind)
	}
	schema, err := d.schema(media.Schema)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// schema compiles a schema of the document, once.
func (d *described) schema(ref *openapi3.SchemaRef) (*jsonschema.Schema, error) {
	if schema, ok := d.schemas.Load(ref); ok {
		return schema.(*jsonschema.Schema), nil
	}
	text, err := json.Marshal(ref)
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	root["components"] = d.components // to which schemas refer
	const name = "urn:answer"
	compiler := jsonschema.NewCompiler()
	compiler.RegisterFormat(&jsonschema.Format{Name: "int64", Validate: isInt64})
	compiler.AssertFormat()
	if err := compiler.AddResource(name, root); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return nil, err
	}
	d.schemas.Store(ref, schema)
	return schema, nil
}

// isInt64 checks a format of OpenAPI that JSON Schema lacks.
func isInt64(value any) (err error) {
	if n, ok := value.(json.Number); ok {
		_, err = n.Int64()
	}
	return err
}

// Calls records which operations the calls of a generated client reach.
type Calls struct {
	mu      sync.Mutex
	reached map[string]bool // by operation ID
}

// NewCalls records the requests to e.
func NewCalls(e *echo.Echo) *Calls {
	calls, all := &Calls{reached: make(map[string]bool)}, Operations()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			for i := range all {
				if all[i].Is(c) {
					calls.mu.Lock()
					calls.reached[all[i].ID] = true
					calls.mu.Unlock()
				}
			}
			return next(c)
		}
	})
	return calls
}

// Require fails the test unless the calls have reached each operation with a tag, but for those that all generated
// clients lack, or this one.
func (c *Calls) Require(t testing.TB, tag string, lacking ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range Operations() {
		if o.Tag == tag {
			require.Equal(t, !o.NoClient && !slices.Contains(lacking, o.ID), c.reached[o.ID], "%s: give the test a call of the generated client, or declare NoClient if the client has none", o.ID)
		}
	}
}

// Parameters sends h, for each operation, a request with every limit of every query parameter: values that the
// document allows must get 200, and others 400 with a message that names the parameter. requests holds a valid URL for
// each operation with a tag that has parameters in the query, by operation ID.
func Parameters(t *testing.T, h http.Handler, tag string, requests map[string]string) {
	for _, o := range Operations() {
		if o.Tag == tag && len(o.Parameters) > strings.Count(o.Path, "{") {
			require.Contains(t, requests, o.ID, "operation without a test of its parameters")
		}
	}
	operations := map[string]*openapi3.Operation{}
	for _, path := range Document(t).Paths.Map() {
		for _, operation := range path.Operations() {
			operations[operation.OperationID] = operation
		}
	}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		base, err := url.Parse(requests[id])
		require.NoError(t, err)
		operation := operations[id]
		require.NotNil(t, operation, "operation %s", id)
		with := func(name, value string) string {
			query := base.Query()
			query.Set(name, value)
			return base.Path + "?" + query.Encode()
		}
		ask := func(request string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, request, nil))
			return w
		}
		allowed := func(name, value string) {
			w := ask(with(name, value))
			require.Equal(t, http.StatusOK, w.Code, "%s: %s=%s: %s", id, name, value, w.Body)
		}
		refused := func(name, request string) {
			w := ask(request)
			require.Equal(t, http.StatusBadRequest, w.Code, "%s: %s: %s", id, request, w.Body)
			require.Contains(t, w.Body.String(), name, "%s: %s", id, request)
		}
		require.Equal(t, http.StatusOK, ask(base.String()).Code, "%s: %s", id, base)
		for _, ref := range operation.Parameters {
			p := ref.Value
			if p.In != "query" || p.Name == "pageToken" {
				continue
			}
			s := p.Schema.Value
			if p.Required {
				query := base.Query()
				query.Del(p.Name)
				refused(p.Name, base.Path+"?"+query.Encode())
			}
			for _, value := range s.Enum {
				allowed(p.Name, fmt.Sprint(value))
			}
			if len(s.Enum) > 0 || s.Type.Is("boolean") {
				refused(p.Name, with(p.Name, "nonsense"))
			}
			if s.Type.Is("boolean") {
				allowed(p.Name, "true")
				allowed(p.Name, "false")
			}
			if s.Type.Is("integer") || s.Type.Is("number") {
				refused(p.Name, with(p.Name, "one"))
				if s.Min != nil {
					allowed(p.Name, fmt.Sprint(*s.Min))
					refused(p.Name, with(p.Name, fmt.Sprint(*s.Min-1)))
				}
				if s.Max != nil {
					allowed(p.Name, fmt.Sprint(*s.Max))
					refused(p.Name, with(p.Name, fmt.Sprint(*s.Max+1)))
				}
			}
			if s.Type.Is("integer") {
				refused(p.Name, with(p.Name, "1.5"))
			}
			if s.Type.Is("array") {
				var all []string
				for _, value := range s.Items.Value.Enum {
					all = append(all, fmt.Sprint(value))
				}
				allowed(p.Name, strings.Join(all, ","))
				refused(p.Name, with(p.Name, "nonsense"))
			}
		}
	}
}
