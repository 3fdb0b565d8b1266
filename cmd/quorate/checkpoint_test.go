package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Root may export into the data folder, which belongs to the service's user.
func TestExportFollowsNoLink(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "no checkpoint")
	}))
	defer server.Close()
	file, target := filepath.Join(t.TempDir(), "checkpoint"), filepath.Join(t.TempDir(), "passwd")
	require.NoError(t, os.WriteFile(target, []byte("content"), 0o600))
	require.NoError(t, os.Symlink(target, file+".part"))
	code, _, errOut := quorate(t, "", "checkpoint", "export", "--server", server.URL, file)
	require.Equal(t, exitFailed, code, errOut)
	content, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	require.NoFileExists(t, file+".part")
}
