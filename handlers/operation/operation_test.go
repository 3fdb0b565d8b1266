package operation_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"quorate/handlers/compat"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/query/page"
	"quorate/internal/store"
)

// An operation with all kinds of parameters makes a route that parses them, an entry of the reference
// and a line of the documentation.
func TestRow(t *testing.T) {
	got := map[string]any{}
	all := []operation.Operation{{
		ID: "listCakes", Method: http.MethodPost, Path: "/v2/cakes/{cake}/slices:list", Tag: "Cakes",
		Summary: "Slices of a cake", Description: "Eaten ones included.", Order: "weight", Index: "bakery",
		Parameters: []query.Parameter{
			{Name: "cake", Description: "Which one.", Example: "plum"}, query.PageToken, query.PageSize(50, 5),
			{Name: "after", Kind: query.Integer, Required: true}, {Name: "block", Kind: query.Digits},
			{Name: "minWeight", Kind: query.Number, Default: "0"}, {Name: "eaten", Kind: query.Boolean, Default: "true"},
			{Name: "guests", Kind: query.Commas, Item: "guest"}, {Name: "colours", Kind: query.Array, OneOf: []string{"red", "blue"}, Item: "colour"},
			{Name: "sort", OneOf: []string{"up", "down"}, Default: "down"}, {Name: "baker", Component: "Baker"},
		},
		Returns: "A page.", Schema: "SlicePage", Partial: true, Errors: "CakeError",
		Handle: func(r operation.Request) error {
			q := r.Query
			least, _ := q.AtLeast("minWeight")
			got = map[string]any{
				"cake": r.Param("cake"), "size": q.Page(page.List{Operation: "slices"}).Size, "after": q.Integer("after"), "block": q.Optional("block"), "least": least,
				"eaten": q.Bool("eaten"), "guests": q.List("guests"), "colours": q.List("colours"), "sort": q.OneOf("sort"),
			}
			return q.Err()
		},
	}}
	e := echo.New()
	operation.Route(e, all)
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v2/cakes/plum/slices:list?after=7&guests[]=a,b&colours=red&colours[]=blue", http.NoBody))
	require.Equal(t, map[string]any{
		"cake": "plum", "size": 5, "after": uint64(7), "block": (*uint64)(nil), "least": uint64(0),
		"eaten": true, "guests": []string{"a", "b"}, "colours": []string{"red", "blue"}, "sort": "down",
	}, got)

	// All reads of a request are of one standby.
	var ctx context.Context
	all[0].Handle = func(r operation.Request) error {
		ctx = r.Request().Context()
		return nil
	}
	reads := echo.New()
	operation.Route(reads, all)
	reads.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v2/cakes/plum/slices:list", http.NoBody))
	require.Equal(t, ctx, store.OneServer(ctx))

	// A parameter that is not declared is refused by name, except from a generated client.
	e.Use(compat.Middleware(compat.Auto))
	for target, want := range map[string]string{
		"/v2/cakes/plum/slices:list?after=7&pagesize=1":   "pagesize: the operation has no such parameter; did you mean pageSize?",
		"/v2/cakes/plum/slices:list?after=7&xyz[]=1":      "xyz[]: the operation has no such parameter",
		"/v2/cakes/plum/slices:list?after=7&pageSize[]=5": "pageSize[]: the operation has no such parameter; did you mean pageSize?",
		"/v2/cakes/plum/slices:list?after=7&cake=lemon":   "cake: the operation has no such parameter",
	} {
		var failed error
		e.HTTPErrorHandler = func(err error, _ echo.Context) { failed = err }
		request := httptest.NewRequest(http.MethodPost, target, http.NoBody)
		e.ServeHTTP(httptest.NewRecorder(), request)
		require.ErrorContains(t, failed, want)
		failed = nil
		request.Header.Set("User-Agent", "speakeasy-sdk/typescript")
		e.ServeHTTP(httptest.NewRecorder(), request)
		require.NoError(t, failed)
	}

	document, err := json.Marshal(operation.Paths(all))
	require.NoError(t, err)
	const failed = `{"$ref": "#/components/responses/CakeError"}`
	require.JSONEq(t, `{"/v2/cakes/{cake}/slices:list": {"post": {
		"operationId": "listCakes", "tags": ["Cakes"], "summary": "Slices of a cake", "description": "Eaten ones included.\n\nOrder: weight.",
		"parameters": [
			{"name": "cake", "in": "path", "required": true, "description": "Which one.", "example": "plum", "schema": {"type": "string"}},
			{"name": "pageToken", "in": "query", "description": "`+"`nextPageToken`"+` of the page before, with everything else unchanged.", "schema": {"type": "string"}},
			{"name": "pageSize", "in": "query", "description": "Items on a page.", "schema": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5}},
			{"name": "after", "in": "query", "required": true, "schema": {"type": "integer", "minimum": 0, "format": "int64"}},
			{"name": "block", "in": "query", "schema": {"type": "string", "pattern": "^[0-9]+$"}},
			{"name": "minWeight", "in": "query", "schema": {"type": "number", "minimum": 0, "default": 0}},
			{"name": "eaten", "in": "query", "schema": {"type": "boolean", "default": true}},
			{"name": "guests", "in": "query", "schema": {"type": "string"}},
			{"name": "colours", "in": "query", "schema": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}},
			{"name": "sort", "in": "query", "schema": {"type": "string", "enum": ["up", "down"], "default": "down"}},
			{"name": "baker", "in": "query", "schema": {"$ref": "#/components/schemas/Baker"}}
		],
		"responses": {
			"200": {"description": "A page.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/SlicePage"}}}, "headers": {
				"x-request-id": {"$ref": "#/components/headers/requestId"}, "Indexed-From": {"$ref": "#/components/headers/indexedFrom"},
				"Indexed-Height": {"$ref": "#/components/headers/indexedHeight"}, "Indexed-Timestamp": {"$ref": "#/components/headers/indexedTimestamp"},
				"Indexed-Lag": {"$ref": "#/components/headers/indexedLag"}, "Indexed-State": {"$ref": "#/components/headers/indexedState"},
				"Indexed-Without": {"$ref": "#/components/headers/indexedWithout"}
			}},
			"400": `+failed+`, "401": `+failed+`, "403": `+failed+`, "404": `+failed+`, "429": `+failed+`, "500": `+failed+`, "502": `+failed+`, "503": `+failed+`
		}
	}}}`, string(document))
	require.Equal(t, "| request | returns | order | index |\n|---|---|---|---|\n| `POST /v2/cakes/{cake}/slices:list` | Slices of a cake | weight | bakery |\n",
		operation.Table(all, "Cakes"))
}
