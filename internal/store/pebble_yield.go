package store

import (
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// yieldingFS has flushes and compactions give way after each piece of a table, or of
// values that are kept apart, that they write. They would have a processor for ten milliseconds each time, which is how
// long a page would wait for it where processors are few: it has to wait for what is
// being computed, not for what happens to compute.
type yieldingFS struct{ vfs.FS }

// Create implements vfs.FS.
func (y yieldingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := y.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".blob") {
		return f, err
	}
	return yieldingFile{f}, nil
}

// Unwrap implements vfs.FS.
func (y yieldingFS) Unwrap() vfs.FS { return y.FS }

type yieldingFile struct{ vfs.File }

// Write implements vfs.File.
func (f yieldingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	runtime.Gosched()
	return n, err
}
