package operation

import (
	"fmt"
	"strings"
)

// Paths returns the operations as the paths of an OpenAPI document. They refer to its components.
func Paths(all []Operation) map[string]map[string]any {
	paths := make(map[string]map[string]any)
	for _, o := range all {
		if paths[o.Path] == nil {
			paths[o.Path] = make(map[string]any)
		}
		paths[o.Path][strings.ToLower(o.method())] = o.document()
	}
	return paths
}

func (o *Operation) document() map[string]any {
	parameters := make([]map[string]any, len(o.Parameters))
	for i := range o.Parameters {
		p := &o.Parameters[i]
		shown := map[string]any{"name": p.Name, "in": "query", "schema": p.Schema()}
		if strings.Contains(o.Path, "{"+p.Name+"}") {
			shown["in"], shown["required"] = "path", true
		} else if p.Required {
			shown["required"] = true
		}
		if p.Description != "" {
			shown["description"] = p.Description
		}
		if p.Example != "" {
			shown["example"] = p.Example
		}
		parameters[i] = shown
	}
	document := map[string]any{
		"operationId": o.ID, "tags": []string{o.Tag}, "summary": o.Summary, "parameters": parameters, "responses": o.responses(),
	}
	if o.Body != "" {
		document["requestBody"] = map[string]any{
			"required": true, "content": map[string]any{"application/json": map[string]any{"schema": reference("schemas", o.Body)}},
		}
	}
	description := o.Description
	if o.Order != "" {
		description = strings.TrimSpace(description + "\n\nOrder: " + o.Order + ".")
	}
	if description != "" {
		document["description"] = description
	}
	return document
}

// errorResponses lists the responses of the Data API's errors in the document.
var errorResponses = map[string]string{
	"400": "BadRequest", "401": "Unauthorized", "403": "Forbidden", "404": "NotFound", "429": "TooManyRequests",
	"500": "InternalError", "502": "BadGateway", "503": "Unavailable",
}

func (o *Operation) responses() map[string]any {
	headers := map[string]any{"x-request-id": reference("headers", "requestId")}
	for _, name := range []string{"From", "Height", "Timestamp", "Lag", "State"} {
		headers["Indexed-"+name] = reference("headers", "indexed"+name)
	}
	if strings.Contains(o.Path, "{chainId}") {
		headers["Proven-From"], headers["Proven-Height"] = reference("headers", "provenFrom"), reference("headers", "provenHeight")
	}
	if o.Partial {
		headers["Indexed-Without"] = reference("headers", "indexedWithout")
	}
	responses := map[string]any{"200": map[string]any{
		"description": o.Returns,
		"headers":     headers,
		"content":     map[string]any{"application/json": map[string]any{"schema": reference("schemas", o.Schema)}},
	}}
	for status, response := range errorResponses {
		if o.Errors != "" {
			response = o.Errors
		}
		responses[status] = reference("responses", response)
	}
	return responses
}

func reference(kind, name string) map[string]string {
	return map[string]string{"$ref": "#/components/" + kind + "/" + name}
}

// Table returns a Markdown table of the operations with a tag.
func Table(all []Operation, tag string) string {
	var b strings.Builder
	b.WriteString("| request | returns | order | index |\n|---|---|---|---|\n")
	for _, o := range all {
		if o.Tag == tag {
			fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", o.method(), o.Path, o.Summary, o.Order, o.Index)
		}
	}
	return b.String()
}
