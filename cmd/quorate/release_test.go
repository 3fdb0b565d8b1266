package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/testenv"
)

// command runs a program in the root of the repository and returns what it printed.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	require.NoError(t, cmd.Run(), "%s %v: %s", name, args, &errOut)
	return out.String()
}

// linkStatically builds the program, linked like that of a release but with the packages that other tests have built, and
// returns its path.
func linkStatically(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "quorate")
	command(t, "go", "build", "-ldflags", "-s -w -linkmode external -extldflags -static", "-o", program, "./cmd/quorate")
	return program
}

// The image and the packages contain the same program. Each file is in the checksums, the .deb has all
// its files, and the list of contents has the program's modules.
func TestReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and packs it")
	}
	dpkg := testenv.Program(t, "dpkg", "dpkg-deb")
	dir := t.TempDir()
	program := linkStatically(t, dir)
	t.Run("image", func(t *testing.T) { testImage(t, program) })
	out := filepath.Join(dir, "dist")
	command(t, "deploy/release.sh", out, program)

	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	require.NoError(t, err)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	listed := 0
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(out, e.Name()))
		require.NoError(t, err)
		digest := sha256.Sum256(content)
		require.Contains(t, string(sums), hex.EncodeToString(digest[:])+"  "+e.Name()+"\n")
		listed++
	}
	require.Equal(t, 5, listed, "%v", entries) // archive, .deb, .rpm, list of contents, chart
	require.Equal(t, listed, strings.Count(string(sums), "\n"))

	deb := filepath.Join(out, "quorate_"+version+"_"+runtime.GOARCH+".deb")
	require.Equal(t, version+"\n", command(t, dpkg, "--field", deb, "Version"))
	installed := filepath.Join(dir, "installed")
	command(t, dpkg, "--extract", deb, installed)
	for _, name := range []string{
		"usr/bin/quorate", "lib/systemd/system/quorate.service", "etc/quorate",
		"usr/share/doc/quorate/config.example.yaml", "usr/share/doc/quorate/copyright", "usr/share/doc/quorate/THIRD_PARTY_NOTICES",
		"usr/share/man/man1/quorate.1.gz", "usr/share/man/man1/quorate-serve.1.gz",
		"usr/share/bash-completion/completions/quorate", "usr/share/zsh/vendor-completions/_quorate", "usr/share/fish/vendor_completions.d/quorate.fish",
	} {
		info, err := os.Stat(filepath.Join(installed, name))
		require.NoError(t, err)
		require.Positive(t, info.Size(), name)
	}
	want, err := os.ReadFile(root + "/deploy/quorate.service")
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(installed, "lib/systemd/system/quorate.service"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Contains(t, command(t, filepath.Join(installed, "usr/bin/quorate"), "version"), "quorate "+version+" ")

	archive := command(t, "tar", "-tzf", filepath.Join(out, "quorate_"+version+"_linux_"+runtime.GOARCH+".tar.gz"))
	require.Contains(t, archive, "/quorate\n")
	require.Contains(t, archive, "/THIRD_PARTY_NOTICES\n")
	chart := command(t, "tar", "-tzf", filepath.Join(out, "quorate-chart-"+version+".tgz"))
	require.Contains(t, chart, "quorate/Chart.yaml\n")
	require.NotContains(t, chart, "quorate/ci")

	content, err := os.ReadFile(filepath.Join(out, "quorate_"+version+"_linux_"+runtime.GOARCH+".cdx.json"))
	require.NoError(t, err)
	var contents struct {
		Components []struct{ Name, Version string }
	}
	require.NoError(t, json.Unmarshal(content, &contents))
	names := make(map[string]string)
	for _, c := range contents.Components {
		names[c.Name] = c.Version
	}
	require.Equal(t, runtime.Version(), "go"+names["std"])
	require.NotEmpty(t, names["glibc"])
	modules, err := os.ReadFile(root + "/go.mod")
	require.NoError(t, err)
	for _, name := range []string{"github.com/ava-labs/avalanchego", "github.com/supranational/blst"} {
		require.NotEmpty(t, names[name])
		require.Contains(t, string(modules), name+" "+names[name])
	}
}
