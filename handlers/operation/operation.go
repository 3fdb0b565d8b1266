// Package operation declares the operations of the API. The declaration of an operation routes and parses its requests,
// and generates its entry in the OpenAPI document and in the documentation. Each package of the API has a table of its
// operations. To add one, write its handler, a row of the table, and the schema of its answer in
// handlers/docs/openapi.yaml.
package operation

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/handlers/compat"
	"quorate/handlers/query"
	"quorate/internal/store"
)

// Operation declares an operation. All fields but those that say so are required.
type Operation struct {
	// ID is unique. It identifies the operation in the reference.
	ID string
	// Method is GET if it is empty.
	Method string
	// Path is the path with its parameters in braces, for example /v1/chains/{chainId}/transactions.
	Path string
	// Tag is the section of the reference and of the documentation.
	Tag string
	// Summary is a phrase. Description is Markdown and may be empty.
	Summary, Description string
	// Order describes the order of a list. It is empty if there is no list.
	Order string
	// Index is the name of the index that the operation reads.
	Index string
	// Parameters are those of the path, in its order, and those of the query.
	Parameters []query.Parameter
	// Body names the schema of the request's body in openapi.yaml. It is empty if there is none.
	Body string
	// Returns describes the answer, Schema names its schema in openapi.yaml.
	Returns, Schema string
	// Partial reports that the answer may leave out what other chains have, and then has the header Indexed-Without.
	Partial bool
	// Errors names the response of all errors in openapi.yaml. Empty means those of the Data API.
	Errors string
	// NoClient reports that the generated clients have no method for the operation.
	NoClient bool
	// Handle sends the answer.
	Handle func(Request) error
}

// Request is a request for an operation.
type Request struct {
	echo.Context
	// Query has the parameters of the query that the operation declares.
	Query *query.Values
}

// Route adds operations to e. They refuse parameters that they do not declare, except from generated clients.
func Route(e *echo.Echo, all []Operation) {
	for _, o := range all {
		handle := Strict(func(c echo.Context) error {
			c.SetRequest(c.Request().WithContext(store.OneServer(c.Request().Context()))) // handlers combine several reads
			return o.Handle(Request{c, query.Parse(c.Request().URL.RawQuery, o.Parameters)})
		}, o.queryNames()...)
		e.Add(o.method(), o.route(), func(c echo.Context) error {
			if path := c.Request().URL.EscapedPath(); strings.Count(path, "/") != strings.Count(o.Path, "/") {
				return echo.ErrNotFound // the router's last parameter matches the rest of the path
			}
			return handle(c)
		})
	}
}

// Strict returns a handler that calls h, but refuses parameters of the query that are not in names, except from
// generated clients.
func Strict(h echo.HandlerFunc, names ...string) echo.HandlerFunc {
	return func(c echo.Context) error {
		if raw := c.Request().URL.RawQuery; raw != "" && !compat.Enabled(c.Request().Context()) {
			q := query.Parse(raw, nil)
			if q.Only(names); q.Err() != nil {
				return q.Err()
			}
		}
		return h(c)
	}
}

// queryNames returns the names of the parameters of the query; those of lists also with [] at their end.
func (o *Operation) queryNames() (names []string) {
	for i := range o.Parameters {
		name := o.Parameters[i].Name
		if strings.Contains(o.Path, "{"+name+"}") {
			continue
		}
		names = append(names, name)
		if kind := o.Parameters[i].Kind; kind == query.Commas || kind == query.Array {
			names = append(names, name+"[]")
		}
	}
	return names
}

// Is reports whether c is routed to the operation.
func (o *Operation) Is(c echo.Context) bool {
	return c.Request().Method == o.method() && c.Path() == o.route()
}

func (o *Operation) method() string { return cmp.Or(o.Method, http.MethodGet) }

// route returns the path in the router's notation.
func (o *Operation) route() string {
	return strings.NewReplacer(":", `\:`, "{", ":", "}", "").Replace(o.Path)
}
