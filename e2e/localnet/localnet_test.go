package localnet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContentDigest tells apart names and contents.
func TestContentDigest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	digests := make(map[string]bool)
	digest := func() string {
		d, err := contentDigest(filepath.Join(dir, "go.mod"), filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		digests[d] = true
		return d
	}
	write("go.mod", "module a")
	write("main.go", "package main")
	require.Equal(t, digest(), digest())
	write("go.mod", "module b")
	digest()
	write("main.go", "package other")
	last := digest()
	write("more.go", "package other")
	digest()
	require.Len(t, digests, 4)
	require.NoError(t, os.Remove(filepath.Join(dir, "more.go")))
	write("notes.md", "text")
	require.Equal(t, last, digest())
}
