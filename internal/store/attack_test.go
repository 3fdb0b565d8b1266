package store

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// filled makes a store of so many rows, each in a batch of its own, and returns its folder.
func filled(t *testing.T, rows int) PebbleOptions {
	t.Helper()
	options := small(t.TempDir())
	s, err := OpenPebble(t.Context(), options)
	require.NoError(t, err)
	for i := range rows {
		var b Batch
		b.Put(FamilyMessage, PK{P: []byte("p"), K: fmt.Appendf(nil, "%04d", i)}, bytes.Repeat([]byte{byte(i)}, 100))
		require.NoError(t, s.Commit(t.Context(), &b))
	}
	require.NoError(t, s.Close())
	return options
}

func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
	return found[len(found)-1]
}

// A log whose end is missing or garbage gives the rows of its beginning, in order and none in part. If
// the store cannot be opened, the error says that it is damaged, and what to do.
func TestAttackSpoiltFiles(t *testing.T) {
	const rows = 50
	spoil := func(pattern string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := only(t, dir, pattern)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, change(content), 0o600))
		}
	}
	remove := func(pattern string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Remove(only(t, dir, pattern))) }
	}
	for name, test := range map[string]struct {
		spoil func(*testing.T, string)
		least int    // rows that remain
		most  int    // likewise
		fails string // why it cannot be opened
	}{
		"log cut short":               {spoil("*.log", func(b []byte) []byte { return b[:len(b)*2/3] }), 1, rows - 1, ""},
		"log emptied":                 {spoil("*.log", func([]byte) []byte { return nil }), 0, 0, ""},
		"garbage after the log":       {spoil("*.log", func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0xa5}, 1000)...) }), rows, rows, ""},
		"a bit in the log's middle":   {spoil("*.log", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), 1, rows - 1, ""},
		"log removed":                 {remove("*.log"), 0, 0, ""},
		"manifest cut short":          {spoil("MANIFEST-*", func(b []byte) []byte { return b[:len(b)/8] }), 0, 0, "store is damaged: move the directory away"},
		"manifest emptied":            {spoil("MANIFEST-*", func([]byte) []byte { return nil }), 0, 0, "store is damaged: move the directory away"},
		"manifest removed":            {remove("MANIFEST-*"), 0, 0, "could not open manifest file"},
		"options of another comparer": {spoil("OPTIONS-*", func(b []byte) []byte { return bytes.Replace(b, []byte("comparer="), []byte("comparer=not"), 1) }), 0, 0, "comparer name from file"},
		"markers removed":             {remove("marker.manifest.*"), rows, rows, ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := filled(t, rows)
			test.spoil(t, options.Dir)
			s, err := OpenPebble(t.Context(), options)
			if test.fails != "" {
				require.ErrorContains(t, err, test.fails)
				require.ErrorContains(t, err, options.Dir)
				return
			}
			require.NoError(t, err)
			got, err := s.Scan(t.Context(), FamilyMessage, []byte("p"), nil, nil, Ascending, 1<<20)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(got), test.least)
			require.LessOrEqual(t, len(got), test.most)
			for i, r := range got {
				require.Equal(t, fmt.Sprintf("%04d", i), string(r.K))
				require.Equal(t, bytes.Repeat([]byte{byte(i)}, 100), r.V)
			}
			require.NoError(t, s.Close())
		})
	}
}

// full is a disk with room for so many bytes more.
type full struct {
	vfs.FS
	room atomic.Int64
}

func (f *full) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return fullFile{file, f}, err
}

func (f *full) ReuseForWrite(before, now string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(before, now, c)
	return fullFile{file, f}, err
}

type fullFile struct {
	vfs.File
	disk *full
}

func (f fullFile) Write(b []byte) (int, error) {
	if f.disk.room.Add(-int64(len(b))) < 0 {
		return 0, &fs.PathError{Op: "write", Path: "store", Err: syscall.ENOSPC}
	}
	return f.File.Write(b)
}

func (f fullFile) Preallocate(int64, int64) error { return nil }

const fullDir = "QUORATE_STORE_TEST_FULL_DIR"

// On a full disk the process ends and says why, before a caller hears that its commit failed: the engine shows the rows of
// that commit and fails all later ones. Acknowledged rows are there once there is room again.
func TestAttackFullDisk(t *testing.T) {
	if dir := os.Getenv(fullDir); dir != "" {
		options := small(dir)
		disk := &full{FS: vfs.Default}
		disk.room.Store(3 << 20)
		options.fs, options.Log = disk, slog.New(slog.NewTextHandler(os.Stderr, nil))
		s, err := OpenPebble(t.Context(), options)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		for i := 0; ; i++ {
			var b Batch
			b.Put(FamilyMessage, PK{P: []byte("p"), K: fmt.Appendf(nil, "%06d", i)}, make([]byte, 1000))
			if err := s.Commit(t.Context(), &b); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(4)
			}
			fmt.Println(i)
		}
	}
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestAttackFullDisk$")
	child.Env = append(os.Environ(), fullDir+"="+dir)
	var said, log bytes.Buffer
	child.Stdout, child.Stderr = &said, &log
	err = child.Run()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	require.Contains(t, log.String(), syscall.ENOSPC.Error())
	require.Equal(t, 1, ended.ExitCode(), &log)
	require.Contains(t, log.String(), "embedded store cannot go on, ending the process; is the disk full")
	lines := strings.Fields(said.String())
	require.NotEmpty(t, lines)
	s, err := OpenPebble(t.Context(), small(dir))
	require.NoError(t, err)
	rows, err := s.Scan(t.Context(), FamilyMessage, []byte("p"), nil, nil, Ascending, 1<<20)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(rows), len(lines))
	require.NoError(t, s.Close())
}

// A folder that cannot be written is refused at the start, and left as it is.
func TestAttackReadOnlyFolder(t *testing.T) {
	options := filled(t, 5)
	options.fs = &readOnly{vfs.Default}
	_, err := OpenPebble(t.Context(), options)
	require.ErrorIs(t, err, syscall.EROFS)
	require.ErrorContains(t, err, options.Dir)
	options.fs = nil
	s, err := OpenPebble(t.Context(), options)
	require.NoError(t, err)
	rows, err := s.Scan(t.Context(), FamilyMessage, []byte("p"), nil, nil, Ascending, 1<<20)
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.NoError(t, s.Close())
}

// readOnly is a file system that is mounted so.
type readOnly struct{ vfs.FS }

func (r *readOnly) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
}

// A store with a wrong bit in its log is not opened and says that it is damaged, if the log
// goes on for another block of 32 KiB. Near its end the bit looks like a write that
// a loss of power cut short: the store is as it was after one of its commits, with the cursor
// of that one, so that what is missing of a chain is indexed again. Signed messages, of
// which there is no cursor, are lost with what is behind the bit.
func TestAttackFlippedBits(t *testing.T) {
	const rows, flips, block = 600, 60, 32 << 10
	options := small(t.TempDir())
	s, err := OpenPebble(t.Context(), options)
	require.NoError(t, err)
	for i := range rows {
		var b Batch
		b.Put(FamilyMessage, PK{P: []byte("p"), K: fmt.Appendf(nil, "%04d", i)}, bytes.Repeat([]byte{byte(i)}, 1+i%200))
		b.Move("chain", Cursor{Next: uint64(i)}, Cursor{Next: uint64(i) + 1})
		require.NoError(t, s.Commit(t.Context(), &b))
	}
	require.NoError(t, s.Close())
	path := only(t, options.Dir, "*.log")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Greater(t, len(whole), 3*block)
	draw := rand.New(rand.NewPCG(7, 7))
	shorter, refused := 0, 0
	for range flips {
		at, bit := draw.IntN(len(whole)), draw.IntN(8)
		options := small(t.TempDir())
		require.NoError(t, os.CopyFS(options.Dir, os.DirFS(filepath.Dir(path))))
		spoilt := bytes.Clone(whole)
		spoilt[at] ^= 1 << bit
		require.NoError(t, os.WriteFile(filepath.Join(options.Dir, filepath.Base(path)), spoilt, 0o600))
		s, err := OpenPebble(t.Context(), options)
		if err != nil {
			require.Less(t, at, len(whole)/block*block, "what looks like a write that was cut short")
			require.ErrorIs(t, err, ErrCorrupt, "bit %d of byte %d", bit, at)
			require.ErrorContains(t, err, "store is damaged: move the directory away")
			refused++
			continue
		}
		got, err := s.Scan(t.Context(), FamilyMessage, []byte("p"), nil, nil, Ascending, 1<<20)
		require.NoError(t, err)
		cursor, err := ReadCursor(t.Context(), s, "chain")
		require.NoError(t, err)
		require.Equal(t, uint64(len(got)), cursor.Next, "bit %d of byte %d", bit, at)
		for i, r := range got {
			require.Equal(t, fmt.Sprintf("%04d", i), string(r.K))
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, 1+i%200), r.V)
		}
		if len(got) < rows {
			require.Greater(t, at, len(whole)-2*block, "rows are lost without a word")
			shorter++
		}
		require.NoError(t, s.Close())
	}
	t.Logf("of %d flips %d are refused, %d lose rows without a word", flips, refused, shorter)
	require.NotZero(t, refused)
	require.NotZero(t, shorter)
}
