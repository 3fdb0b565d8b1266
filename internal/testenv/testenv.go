// Package testenv finds what tests need besides Go: programs, and packages of npm. A test
// whose program is missing is skipped, and fails where CI is set: there everything must
// be installed. It also has the Delay of fakes. It is for tests alone.
package testenv

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Program returns the path of the first of the named programs that is in PATH. Without
// any it skips the test and says which Debian package to install.
func Program(t testing.TB, debianPackage string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, names[0]+" is not in PATH; install it: apt-get install "+debianPackage)
	return ""
}

// Missing skips the test for a reason, or fails it where CI is set.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Node returns a folder with the files and, in node_modules, the packages of their
// package-lock.json. It installs the packages with npm, once for each lock file if the
// repository has a .cache folder. Run programs there with the node in PATH.
func Node(t testing.TB, files embed.FS) string {
	t.Helper()
	Program(t, "nodejs", "node")
	npm := Program(t, "npm", "npm")
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	lock, err := files.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(lock)
	cache := cacheDir()
	kept := filepath.Join(cache, "npm-"+hex.EncodeToString(digest[:8]))
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(kept); cache != "" && err == nil {
		if err := os.Symlink(filepath.Join(kept, "node_modules"), modules); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("installing npm packages, from the registry or npm's cache: %v\n%s", err, out)
	}
	if cache != "" {
		keep(t, modules, kept)
	}
	return dir
}

// keep copies modules to kept. Other test processes may do the same at the same time, so
// the copy gets its name only when it is complete.
func keep(t testing.TB, modules, kept string) {
	t.Helper()
	part, err := os.MkdirTemp(filepath.Dir(kept), filepath.Base(kept)+"-*.part")
	if err != nil {
		t.Fatal(err)
	}
	// Packages find each other by the name of the folder that they are in.
	if err := os.CopyFS(filepath.Join(part, "node_modules"), os.DirFS(modules)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, kept); err != nil {
		_ = os.RemoveAll(part)
		if _, missing := os.Stat(kept); missing != nil {
			t.Fatalf("keeping npm packages: %v", err)
		}
	}
}

// cacheDir returns the .cache folder at the top of the repository, or nothing if there is
// none.
func cacheDir() string {
	dir, err := os.Getwd()
	for err == nil {
		cache := filepath.Join(dir, ".cache")
		if info, err := os.Stat(cache); err == nil && info.IsDir() {
			return cache
		}
		if _, err := os.Stat(filepath.Join(dir, "THIRD_PARTY_NOTICES")); err == nil || dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
	return ""
}
