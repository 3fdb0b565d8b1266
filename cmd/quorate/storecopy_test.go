package main

import (
	"io"
	"log/slog"
	"path/filepath"
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
