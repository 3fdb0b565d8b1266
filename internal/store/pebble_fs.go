package store

import (
	"bufio"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableBuffer is the size of a write to a table. The library writes 4 KiB at a time, at three times the
// processor time.
const tableBuffer = 64 << 10

// tableFS is a file system in which tables are written in larger pieces.
type tableFS struct{ vfs.FS }

// Create implements vfs.FS.
func (fs tableFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &table{File: f, buffer: bufio.NewWriterSize(f, tableBuffer)}, nil
}

// Unwrap implements vfs.FS.
func (fs tableFS) Unwrap() vfs.FS { return fs.FS }

// table is a table that is being written. The library reads it only after it is closed.
type table struct {
	vfs.File
	buffer *bufio.Writer
}

func (t *table) Write(p []byte) (int, error) { return t.buffer.Write(p) }

func (t *table) Sync() error {
	if err := t.buffer.Flush(); err != nil {
		return err
	}
	return t.File.Sync()
}

func (t *table) SyncData() error {
	if err := t.buffer.Flush(); err != nil {
		return err
	}
	return t.File.SyncData()
}

func (t *table) SyncTo(length int64) (fullSync bool, err error) {
	if err := t.buffer.Flush(); err != nil {
		return false, err
	}
	return t.File.SyncTo(length)
}

func (t *table) Close() error {
	err := t.buffer.Flush()
	return errors.Join(err, t.File.Close())
}
