package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unpack reads an archive as it was written.
func unpack(t *testing.T, name string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	packed, err := gzip.NewReader(f)
	require.NoError(t, err)
	all := make(map[string][]byte)
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[h.Name], err = io.ReadAll(files)
		require.NoError(t, err)
	}
}

func TestDatabase(t *testing.T) {
	var clone bytes.Buffer
	files := tar.NewWriter(&clone)
	for name, content := range map[string]string{
		"GO-1-2.json": `{"id":"GO-1-2","details":"long","references":[],"summary":"s","affected":[{"package":{"name":"b"},"ranges":[{"type":"SEMVER"}]},{"package":{"name":"a"}},{"package":{"name":"a"}}]}`,
		"GO-1-1.json": `{"id":"GO-1-1","affected":[{"package":{"name":"a"}}]}`,
		"GO-1-3.json": `{"id":"GO-1-3","withdrawn":"2026-01-01T00:00:00Z","affected":[{"package":{"name":"c"}}]}`,
		"README":      "not looked at",
	} {
		require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Size: int64(len(content))}))
		_, err := io.WriteString(files, content)
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	d := newDatabase(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	require.NoError(t, d.readTar(&clone))
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	require.NoError(t, d.write(first))
	require.NoError(t, d.write(second))
	got := unpack(t, first)
	require.Equal(t, map[string][]byte{
		"index/db.json":      []byte(`{"modified":"2026-01-02T03:04:05Z"}`),
		"index/modules.json": []byte(`[{"path":"a","vulns":[{"id":"GO-1-1","modified":"2026-01-02T03:04:05Z"},{"id":"GO-1-2","modified":"2026-01-02T03:04:05Z"}]},{"path":"b","vulns":[{"id":"GO-1-2","modified":"2026-01-02T03:04:05Z"}]}]`),
		"index/vulns.json":   []byte(`[{"id":"GO-1-1","modified":"2026-01-02T03:04:05Z"},{"id":"GO-1-2","modified":"2026-01-02T03:04:05Z"}]`),
		"ID/GO-1-1.json":     []byte(`{"affected":[{"package":{"name":"a"}}],"id":"GO-1-1"}`),
		"ID/GO-1-2.json":     []byte(`{"affected":[{"package":{"name":"b"},"ranges":[{"type":"SEMVER"}]},{"package":{"name":"a"}},{"package":{"name":"a"}}],"id":"GO-1-2","summary":"s"}`),
	}, got)
	one, err := os.ReadFile(first)
	require.NoError(t, err)
	other, err := os.ReadFile(second)
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, other), "the same database makes other files")

	for _, bad := range []string{"", "[]", `{"id":"GO-1-1"}`, `{"id":"../x","affected":[{}]}`, `{"affected":[{}]}`} {
		require.Error(t, d.add([]byte(bad)), bad)
	}
}

// The committed database is complete.
func TestCommittedDatabase(t *testing.T) {
	files := unpack(t, "vulndb.tar.gz")
	var modules []struct {
		Path  string
		Vulns []struct{ ID string }
	}
	require.NoError(t, json.Unmarshal(files["index/modules.json"], &modules))
	paths := make(map[string]int, len(modules))
	for _, m := range modules {
		paths[m.Path] = len(m.Vulns)
		for _, v := range m.Vulns {
			require.NotEmpty(t, files["ID/"+v.ID+".json"], v.ID)
		}
	}
	for _, path := range []string{"stdlib", "toolchain", "golang.org/x/net", "google.golang.org/grpc"} {
		require.Positive(t, paths[path], path)
	}
}
