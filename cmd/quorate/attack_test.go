package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/config"
	"quorate/internal/store"
)

// A configuration that would take much memory or time is refused with the reason.
func TestAttackConfiguration(t *testing.T) {
	// laughs are lists of lists by aliases, so many levels of nine.
	laughs := func(levels int) string {
		text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
		for i := 1; i <= levels; i++ {
			text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
		}
		return text
	}
	for name, test := range map[string]struct{ content, want string }{
		"aliases that multiply":           {laughs(20), "more than 100 aliases"},
		"aliases that multiply in a list": {laughs(9) + "cors_origins: *a9\n", "a0: unknown key\n"},
		"an alias in itself":              {"networks: &n\n  fuji: *n\n", "networks.fuji.fuji: unknown key"},
		"a map merged into itself":        {"networks: &n\n  <<: *n\n", "quorate:"},
		"lists 20000 deep":                {"cors_origins: " + strings.Repeat("[", 20_000), "exceeded max depth"},
		"maps 20000 deep":                 {strings.Repeat("{a: ", 20_000), "exceeded max depth"},
		"2 MiB of comment":                {strings.Repeat("# nothing\n", 2<<20/10), "larger than 1"},
		"a key 100000 times":              {strings.Repeat("a: 1\n", 100_000), "more than"},
		"a key 256 times":                 {strings.Repeat("a: 1\n", 256), "mistakes more"},
		"no text":                         {"listen: \"\x00\xff\"\n", "control characters are not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "quorate.yaml")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			code, out, errOut := quorate(t, "", "serve", "--config", path)
			runtime.ReadMemStats(&after)
			require.Equal(t, exitUsage, code)
			require.Contains(t, errOut, test.want)
			require.Less(t, len(out)+len(errOut), 4<<10, "what is said")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<20), "bytes allocated")
		})
	}
	t.Run("a file without end", func(t *testing.T) {
		code, _, errOut := quorate(t, "", "serve", "--config", "/dev/zero")
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut, "larger than 1")
	})
}

// A copy of a data folder keeps API keys, and revoked ones stay revoked.
func TestStoreCopyTakesKeys(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: filepath.Join(from, config.StoreFolder), CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	var batch store.Batch
	batch.Put(store.FamilyMessage, store.PK{P: []byte("p"), K: []byte("k")}, []byte("v"))
	require.NoError(t, s.Commit(t.Context(), &batch))
	require.NoError(t, s.Close())
	for _, args := range [][]string{{"add", "good"}, {"add", "bad"}, {"revoke", "bad"}} {
		code, _, errOut := quorate(t, "", append(append([]string{"keys"}, args...), "--data-dir", from)...)
		require.Zero(t, code, errOut)
	}
	code, out, errOut := quorate(t, "", "store", "copy", "--from", from, "--to", to)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "copied 2 API keys")
	want, err := (&config.Config{DataDir: from}).KeyFile().List()
	require.NoError(t, err)
	got, err := (&config.Config{DataDir: to}).KeyFile().List()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.False(t, got[0].Revoked.IsZero(), got[0].Name)
}
