package store_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

const crashDir = "QUORATE_STORE_TEST_CRASH_DIR"

// runChild turns the test binary into a writer that never ends by itself.
func runChild() {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return
	}
	err := write(dir)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const (
	crashRows  = 40
	crashBytes = 200 << 10
)

// crashBatch is what moves the cursor from n to n+1: rows named by n, and one
// row that always says n.
func crashBatch(n uint64) *store.Batch {
	var b store.Batch
	for i := range crashRows {
		b.Put(store.FamilySignature, crashKey(n, i), fmt.Appendf(nil, "%d/%d", n, i))
	}
	if n > 0 {
		b.Delete(store.FamilySignature, crashKey(n-1, crashRows-1))
	}
	// Its size is one at which an engine may store it apart from other rows.
	b.Put(store.FamilyContainer, store.PK{K: binary.BigEndian.AppendUint64(nil, n)}, bytes.Repeat(fmt.Appendf(nil, "%d ", n), 200))
	b.Put(store.FamilyMeta, store.PK{P: []byte("crash")}, strconv.AppendUint(nil, n, 10))
	b.Move("crash", store.Cursor{Next: n}, store.Cursor{Next: n + 1})
	return &b
}

func crashKey(n uint64, i int) store.PK {
	return store.PK{P: fmt.Appendf(nil, "row %d", i), K: fmt.Appendf(nil, "%010d", n)}
}

// write commits forever, saying on standard output how far it got, while a
// bounded family is written without syncing.
func write(dir string) error {
	ctx := context.Background()
	s, err := openAny(ctx, dir)
	if err != nil {
		return err
	}
	cache, err := store.NewBounded(ctx, s, store.FamilyMessage, crashBytes)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() {
		rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
		for {
			e := store.Entry{PK: store.PK{P: fmt.Appendf(nil, "m%d", rng.IntN(300))}, V: make([]byte, rng.IntN(8000))}
			if err := cache.Put(ctx, e); err != nil {
				failed <- err
				return
			}
		}
	}()
	go func() {
		cursor, err := store.ReadCursor(ctx, s, "crash")
		for n := cursor.Next; err == nil; n++ {
			err = s.Commit(ctx, crashBatch(n))
			fmt.Println(n + 1)
		}
		failed <- err
	}()
	return <-failed
}

// openAny opens the store in a folder, or on a server.
func openAny(ctx context.Context, place string) (store.Store, error) {
	if strings.HasPrefix(place, "postgres://") {
		return store.OpenPostgres(ctx, store.PostgresOptions{URL: place})
	}
	return store.OpenPebble(ctx, store.PebbleOptions{Dir: place, CacheBytes: 4 << 20, MemTableBytes: 1 << 20})
}

// TestPebbleKilled kills a writer at random moments and checks the store: it has everything that was
// acknowledged, and nothing in part.
func TestPebbleKilled(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for round := range rounds {
		acknowledged := killWriter(t, dir, 1+rng.IntN(60))
		requireWhole(t, openPebble(t, dir), round, acknowledged)
	}
}

// requireWhole checks what a killed writer left behind, and closes the store.
func requireWhole(t *testing.T, s store.Store, round int, acknowledged uint64) {
	t.Helper()
	cursor, err := store.ReadCursor(t.Context(), s, "crash")
	require.NoError(t, err)
	if cursor.Next < acknowledged {
		t.Fatalf("round %d: got a cursor at %d, want at least the acknowledged %d", round, cursor.Next, acknowledged)
	}
	checkCrashRows(t, s, cursor.Next)
	cache, err := store.NewBounded(t.Context(), s, store.FamilyMessage, crashBytes)
	require.NoError(t, err)
	require.NoError(t, cache.Verify(t.Context()))
	require.NoError(t, s.Close())
}

// killWriter lets a writer acknowledge so many commits, kills it while it goes
// on, and returns the last one it managed to acknowledge.
func killWriter(t *testing.T, dir string, commits int) (acknowledged uint64) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	killed := false
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
			acknowledged = n
		}
		if seen == commits {
			require.NoError(t, child.Process.Kill())
			killed = true
		}
	}
	err = child.Wait()
	var exit *exec.ExitError
	if !killed || !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("writer: got %v, want it to write until killed", err)
	}
	return acknowledged
}

func checkCrashRows(t testing.TB, s store.Reader, next uint64) {
	t.Helper()
	memory := store.NewMemory()
	for n := range next {
		require.NoError(t, memory.Commit(t.Context(), crashBatch(n)))
	}
	for _, family := range []store.Family{store.FamilySignature, store.FamilyContainer} {
		var after *store.PK
		for {
			want, err := memory.Walk(t.Context(), family, after, 1000)
			require.NoError(t, err)
			got, err := s.Walk(t.Context(), family, after, 1000)
			require.NoError(t, err)
			require.Equal(t, want, got, "rows of %s up to cursor %d", family, next)
			if len(want) == 0 {
				break
			}
			after = &want[len(want)-1].PK
		}
	}
	if next > 0 {
		values, err := s.Get(t.Context(), store.FamilyMeta, []store.PK{{P: []byte("crash")}})
		require.NoError(t, err)
		require.Equal(t, strconv.FormatUint(next-1, 10), string(values[0]), "row that says how far the rows go")
	}
}

// TestPebbleHeld refuses a store that another process holds, or the same process, which the system
// does not distinguish.
func TestPebbleHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := openPebble(t, dir)
	_, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
	require.ErrorIs(t, err, store.ErrInUse)
	require.ErrorContains(t, err, dir)
	require.NoError(t, s.Close())

	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.True(t, bufio.NewScanner(out).Scan(), "the other process has the store open")
	_, err = store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
	require.ErrorIs(t, err, store.ErrInUse)
	require.ErrorContains(t, err, dir)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, openPebble(t, dir).Close())
}
