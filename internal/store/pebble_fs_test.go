package store

import (
	"io"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// Whatever makes a table durable writes what is still buffered, and reports what the disk answers.
func TestTableFS(t *testing.T) {
	for name, durable := range map[string]func(vfs.File) error{
		"sync":      vfs.File.Sync,
		"sync data": vfs.File.SyncData,
		"sync to": func(f vfs.File) error {
			_, err := f.SyncTo(1)
			return err
		},
		"close": vfs.File.Close,
	} {
		t.Run(name, func(t *testing.T) {
			disk := &full{FS: vfs.NewMem()}
			disk.room.Store(10)
			create := func() vfs.File {
				f, err := tableFS{disk}.Create("000001.sst", vfs.WriteCategoryUnspecified)
				require.NoError(t, err)
				_, err = f.Write([]byte("row row"))
				require.NoError(t, err)
				return f
			}
			require.NoError(t, durable(create()))
			f, err := disk.Open("000001.sst")
			require.NoError(t, err)
			written, err := io.ReadAll(f)
			require.NoError(t, err)
			require.Equal(t, "row row", string(written))
			require.NoError(t, f.Close())
			require.ErrorIs(t, durable(create()), syscall.ENOSPC)
		})
	}
}
