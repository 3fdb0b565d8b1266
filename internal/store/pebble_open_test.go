package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// broken is a file system that creates no file while err is set. held, unless nil, delays it.
type broken struct {
	vfs.FS
	err  atomic.Pointer[error]
	held chan struct{}
}

func (b *broken) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if b.held != nil {
		<-b.held
	}
	if err := b.err.Load(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: *err}
	}
	return b.FS.Create(name, c)
}

// killed returns the directory of a store whose process was killed: its log has rows that are to be replayed.
func killed(t *testing.T) string {
	t.Helper()
	dir, left := t.TempDir(), t.TempDir()
	s, err := OpenPebble(t.Context(), small(dir))
	require.NoError(t, err)
	for i := range 50 {
		var b Batch
		b.Put(FamilyMessage, PK{P: []byte("p"), K: fmt.Appendf(nil, "%06d", i)}, bytes.Repeat([]byte{1}, 10_000))
		require.NoError(t, s.Commit(t.Context(), &b))
	}
	require.NoError(t, os.CopyFS(left, os.DirFS(dir)))
	require.NoError(t, s.Close())
	return left
}

const brokenDir, brokenError = "QUORATE_STORE_TEST_BROKEN_DIR", "QUORATE_STORE_TEST_BROKEN_ERROR"

// A store whose log cannot be replayed, because the disk is full or files cannot be opened, says so at once and in few
// lines. The engine alone would try for ever. A process of its own opens the store, because the engine does not end.
func TestOpenOnBrokenDisk(t *testing.T) {
	if dir := os.Getenv(brokenDir); dir != "" {
		number, err := strconv.Atoi(os.Getenv(brokenError))
		require.NoError(t, err)
		disk, failure := &broken{FS: vfs.Default}, error(syscall.Errno(number))
		disk.err.Store(&failure)
		options := small(dir)
		options.fs, options.Log = disk, slog.New(slog.NewTextHandler(os.Stderr, nil))
		_, err = OpenPebble(t.Context(), options)
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, failure) {
			os.Exit(3)
		}
		os.Exit(4)
	}
	for _, failure := range []syscall.Errno{syscall.ENOSPC, syscall.EMFILE, syscall.EIO} {
		t.Run(failure.Error(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOpenOnBrokenDisk$")
			child.Env = append(os.Environ(), brokenDir+"="+killed(t), brokenError+"="+strconv.Itoa(int(failure)))
			log, err := child.CombinedOutput()
			var ended *exec.ExitError
			require.ErrorAs(t, err, &ended)
			require.Equal(t, 3, ended.ExitCode(), "%s", log)
			require.Contains(t, string(log), failure.Error())
			require.LessOrEqual(t, bytes.Count(log, []byte("\n")), 3, "%s", log)
		})
	}
}

// Once an interrupted OpenPebble has returned, nothing writes to the directory any more, unless the disk does not answer.
func TestInterruptedOpenWaitsForTheEngine(t *testing.T) {
	for name, test := range map[string]struct {
		open time.Duration // how long the engine takes to open and close
		want time.Duration
		late bool
	}{
		"engine opens":         {open: time.Second, want: time.Second, late: true},
		"disk does not answer": {open: time.Hour, want: lateness},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				var late atomic.Bool
				start := time.Now()
				_, err := newOpening().run(ctx, func() (*pebble.DB, error) {
					time.Sleep(test.open)
					return nil, nil
				}, func(*pebble.DB) { late.Store(true) })
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, test.want, time.Since(start))
				require.Equal(t, test.late, late.Load())
				time.Sleep(test.open) // the engine ends within the bubble
			})
		})
	}
}

// Opening ends with its context, whatever the disk does.
func TestOpenIsInterrupted(t *testing.T) {
	options := small(killed(t))
	disk := &broken{FS: vfs.Default, held: make(chan struct{})}
	options.fs = disk
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := OpenPebble(ctx, options)
		failed <- err
	}()
	cancel()
	select {
	case err := <-failed:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(20 * time.Second):
		t.Fatal("the store is still being opened")
	}
	close(disk.held)
	// The engine closes by itself once the disk answers.
	require.Eventually(t, func() bool {
		options.fs = nil
		s, err := OpenPebble(t.Context(), options)
		return err == nil && s.Close() == nil
	}, 20*time.Second, 10*time.Millisecond)
}
