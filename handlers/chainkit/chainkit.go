// Package chainkit runs the official JavaScript client of the Data API against a
// server under test. Its validation of responses is always on. It is for tests alone.
package chainkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Call is a call of a method of the client.
type Call struct {
	Name string `json:"name"`
	// Path is the method's in the client.
	Path    string         `json:"path"`
	Request map[string]any `json:"request"`
	// List is the member of a page that has the items; empty if there are no pages.
	List string `json:"list,omitempty"`
}

// Result is what came of a call: all pages as the client hands them out, or an error.
type Result struct {
	Name  string
	Pages []map[string]any
	Error *Error
}

// Error is one of the client's. Type is its class.
type Error struct {
	Type, Message string
	Status        int
}

//go:embed package.json package-lock.json client.mjs
var files embed.FS

// Client is an installed client.
type Client struct{ directory string }

// Install installs the client for a test. What was installed is kept in .cache at the
// top of the repository, two folders above the test's, if that is there, by the lock
// file it was installed from.
func Install(t testing.TB) *Client {
	t.Helper()
	lock, err := files.ReadFile("package-lock.json")
	require.NoError(t, err)
	digest := sha256.Sum256(lock)
	name := "chainkit-" + hex.EncodeToString(digest[:8])
	cache, err := filepath.Abs("../../.cache")
	require.NoError(t, err)
	c := &Client{directory: t.TempDir()}
	require.NoError(t, os.CopyFS(c.directory, files))
	kept := filepath.Join(cache, name)
	modules := filepath.Join(c.directory, "node_modules")
	if _, err := os.Stat(kept); err == nil {
		require.NoError(t, os.Symlink(filepath.Join(kept, "node_modules"), modules))
		return c
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = c.directory
	output, err := npm.CombinedOutput()
	require.NoError(t, err, "installing the official client needs Node.js with npm, and a registry or its cache: %s", output)
	if _, err := os.Stat(cache); err != nil {
		return c
	}
	// Another test may do the same: only what is complete gets its name.
	part, err := os.MkdirTemp(cache, name+"-*.part")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(part) }()
	require.NoError(t, os.CopyFS(filepath.Join(part, "node_modules"), os.DirFS(modules)))
	if err := os.Rename(part, kept); err != nil {
		_, missing := os.Stat(kept)
		require.NoError(t, missing, "keeping what was installed: %v", err)
	}
	return c
}

// Run makes calls of a server one after the other.
func (c *Client) Run(t testing.TB, url string, calls []Call) []Result {
	t.Helper()
	input, err := json.Marshal(map[string]any{"url": url, "calls": calls})
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
