package main

import (
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/primary"
	"quorate/internal/store"
)

// TestStoreOfNewerVersion copies a store that a newer version used, which may have families that this one does not know.
//
//test:plain
func TestStoreOfNewerVersion(t *testing.T) {
	for name, test := range map[string]struct {
		newer int // how many versions ahead
		want  error
	}{"of this version": {}, "of a newer version": {1, index.ErrNewer}} {
		for _, of := range []string{"primary", "evm"} {
			t.Run(name+"/"+of, func(t *testing.T) {
				forms := append(primary.Forms(), evm.Form())
				if of == "evm" {
					forms[len(forms)-1].Version += test.newer
				} else {
					forms[0].Version += test.newer
				}
				dir := t.TempDir()
				s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: filepath.Join(dir, config.StoreFolder)})
				require.NoError(t, err)
				require.NoError(t, index.Upgrade(t.Context(), s, slog.New(slog.DiscardHandler), forms...))
				require.NoError(t, s.Close())
				err = copyStore(t.Context(), placeOf(dir), placeOf(t.TempDir()), io.Discard)
				require.ErrorIs(t, err, test.want)
				inspect := newStoreInspect()
				inspect.SetArgs([]string{"--data-dir", dir})
				inspect.SetOut(io.Discard)
				require.ErrorIs(t, inspect.ExecuteContext(t.Context()), test.want)
			})
		}
	}
}

// Commands of root leave the store to the owner of the data folder, who runs the service.
//
//test:plain
func TestStoreBelongsToItsFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const service = 65534
	folder := func() string {
		dir := t.TempDir()
		require.NoError(t, os.Chown(dir, service, service))
		return dir
	}
	requireOwner := func(dir string) {
		t.Helper()
		files := 0
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, config.StoreFolder), func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			require.EqualValues(t, service, info.Sys().(*syscall.Stat_t).Uid, path)
			files++
			return nil
		}))
		require.Greater(t, files, 3)
	}
	from, to := folder(), folder()
	s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: filepath.Join(from, config.StoreFolder)})
	require.NoError(t, err)
	require.NoError(t, index.Upgrade(t.Context(), s, slog.New(slog.DiscardHandler), append(primary.Forms(), evm.Form())...))
	require.NoError(t, s.Close())
	code, _, errOut := quorate(t, "", "store", "copy", "--from", from, "--to", to)
	require.Zero(t, code, errOut)
	requireOwner(from)
	requireOwner(to)
	require.NoError(t, os.Chown(filepath.Join(to, config.StoreFolder), 0, 0))
	code, _, errOut = quorate(t, "", "store", "inspect", "--data-dir", to)
	require.Zero(t, code, errOut)
	requireOwner(to)
}
