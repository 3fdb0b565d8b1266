// Package chainkit runs the official JavaScript clients of the Data API, chainkit and avacloud-sdk, against a server
// under test. They always validate responses. The package is only for tests.
package chainkit

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"quorate/internal/testenv"

	"github.com/stretchr/testify/require"
)

// Call is a call of a client method.
type Call struct {
	Name string `json:"name"`
	// Path is the path of the method in the client.
	Path    string         `json:"path"`
	Request map[string]any `json:"request"`
	// List is the field of a page that holds the items; empty if there are no pages.
	List string `json:"list,omitempty"`
}

// Result is the result of a call: all pages that the client returns, or an error.
type Result struct {
	Name  string
	Pages []map[string]any
	Error *Error
}

// Error is an error of the client. Type is its class.
type Error struct {
	Type, Message string
	Status        int
}

//go:embed package.json package-lock.json client.mjs glacier.mjs
var files embed.FS

// Client is an installed client.
type Client struct {
	directory string
	sdk       string // empty means chainkit
}

// Install installs the client for a test.
func Install(t testing.TB) *Client {
	t.Helper()
	return &Client{directory: testenv.Node(t, files)}
}

// NoMethod is the type of the error of a call that the client has no method for.
const NoMethod = "NoMethod"

// AvaCloud returns a client that calls avacloud-sdk instead of chainkit. Most paths of methods are the same.
func (c *Client) AvaCloud() *Client { return &Client{c.directory, "avacloud-sdk"} }

// Request is what a method of glacier-sdk sends. Path is a template, and Query has the names of all parameters.
type Request struct {
	Method, Path string
	Query        []string
}

// Glacier returns the requests of all methods of glacier-sdk, which reads answers without validation.
func (c *Client) Glacier(t testing.TB) []Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "glacier.mjs")
	node.Dir = c.directory
	output, err := node.Output()
	require.NoError(t, err)
	var requests []Request
	require.NoError(t, json.Unmarshal(output, &requests), "%s", output)
	return requests
}

// Run makes the calls one after another.
func (c *Client) Run(t testing.TB, url string, calls []Call) []Result {
	t.Helper()
	input, err := json.Marshal(map[string]any{"url": url, "sdk": c.sdk, "calls": calls})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "client.mjs")
	node.Dir, node.Stdin = c.directory, bytes.NewReader(input)
	var output, errors bytes.Buffer
	node.Stdout, node.Stderr = &output, &errors
	require.NoError(t, node.Run(), "%s", &errors)
	var results []Result
	require.NoError(t, json.Unmarshal(output.Bytes(), &results), "%s", &output)
	require.Len(t, results, len(calls))
	return results
}
