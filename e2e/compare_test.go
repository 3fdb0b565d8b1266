package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rpcAnswer is what came of a request, whatever it was.
type rpcAnswer struct {
	status int
	header http.Header
	body   string
}

// comparedHeaders are those that have to be equal.
var comparedHeaders = []string{
	"Content-Type", "X-Content-Type-Options", "Vary", "Allow", "Location",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
}

// ask sends a request as it is.
func ask(t testing.TB, ctx context.Context, verb, url, contentType, body string) rpcAnswer {
	t.Helper()
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return askWith(t, ctx, verb, url, header, body)
}

// askWith sends a request with headers, of which Host is the one it is addressed to.
func askWith(t testing.TB, ctx context.Context, verb, url string, header http.Header, body string) rpcAnswer {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, verb, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header, request.Host = header, header.Get("Host")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return rpcAnswer{response.StatusCode, response.Header, string(content)}
}

func callBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
}

// alike says how two answers are compared.
type alike struct {
	// shape compares member names and JSON kinds alone.
	shape bool
	// sets are members whose lists have no order, loose those whose values are the
	// answering node's own.
	sets, loose []string
	// free are members whose value is of one kind, and whatever it is.
	free []string
	// blank are members that may be null where the other answer has an empty list.
	blank []string
}

// kind is what of a value remains if it is loose: for texts, no more than that.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

func isBlank(v any) bool {
	list, ok := v.([]any)
	return v == nil || ok && len(list) == 0
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(b) > 600 {
		return string(b[:600]) + "..."
	}
	return string(b)
}

// differences are between what the node and the service say, each with where it is.
func (a alike) differences(at string, node, service any) (all []string) {
	differ := func() []string {
		return []string{fmt.Sprintf("%s: the node has %s, the service %s", at, text(node), text(service))}
	}
	if kind(node) != kind(service) {
		return differ()
	}
	switch node := node.(type) {
	case map[string]any:
		service := service.(map[string]any)
		names := maps.Clone(node)
		maps.Copy(names, service)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			one, ok := node[name]
			other, also := service[name]
			switch {
			case !ok:
				all = append(all, fmt.Sprintf("%s.%s: only the service has it: %s", at, name, text(other)))
			case !also:
				all = append(all, fmt.Sprintf("%s.%s: only the node has it: %s", at, name, text(one)))
			case slices.Contains(a.blank, name) && isBlank(one) && isBlank(other):
			case slices.Contains(a.free, name):
				if kind(one) != kind(other) {
					all = append(all, fmt.Sprintf("%s.%s: the node has %s, the service %s", at, name, text(one), text(other)))
				}
			default:
				inner := a
				inner.shape = a.shape || slices.Contains(a.loose, name)
				if slices.Contains(a.sets, name) && kind(one) == "list" && kind(other) == "list" {
					one, other = a.sorted(one.([]any)), a.sorted(other.([]any))
				}
				all = append(all, inner.differences(at+"."+name, one, other)...)
			}
		}
	case []any:
		service := service.([]any)
		if a.shape {
			if len(node) > 0 && len(service) > 0 {
				return a.differences(at+"[0]", node[0], service[0])
			}
			return nil
		}
		if len(node) != len(service) {
			return append(differ(), fmt.Sprintf("%s: %d and %d", at, len(node), len(service)))
		}
		for i := range node {
			all = append(all, a.differences(fmt.Sprintf("%s[%d]", at, i), node[i], service[i])...)
		}
	default:
		if !a.shape && node != service {
			return differ()
		}
	}
	return all
}

// sorted is a list in an order that does not depend on what is loose.
func (a alike) sorted(list []any) []any {
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			kept := make(map[string]any)
			for name, inner := range v {
				if !slices.Contains(a.loose, name) && !slices.Contains(a.sets, name) {
					kept[name] = strip(inner)
				}
			}
			return kept
		default:
			return v
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y any) int {
		b, _ := json.Marshal(strip(x))
		c, _ := json.Marshal(strip(y))
		return bytes.Compare(b, c)
	})
	return list
}

// parsed is a body as JSON, or as text.
func parsed(body string) any {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return body
	}
	return v
}

func (a alike) compare(node, service rpcAnswer) (all []string) {
	if node.status != service.status {
		all = append(all, fmt.Sprintf("HTTP status: the node has %d, the service %d", node.status, service.status))
	}
	for _, name := range comparedHeaders {
		if one, other := node.header.Values(name), service.header.Values(name); !slices.Equal(one, other) {
			all = append(all, fmt.Sprintf("%s: the node has %q, the service %q", name, one, other))
		}
	}
	if (node.header.Get("Node-Id") == "") != (service.header.Get("Node-Id") == "") {
		all = append(all, fmt.Sprintf("Node-Id: the node has %q, the service %q", node.header.Get("Node-Id"), service.header.Get("Node-Id")))
	}
	return append(all, a.differences("body", parsed(node.body), parsed(service.body))...)
}
