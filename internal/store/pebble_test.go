package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

func small(dir string) PebbleOptions {
	return PebbleOptions{Dir: dir, CacheBytes: 1 << 20, MemTableBytes: 1 << 20}
}

// TestPebbleLossOfPower takes what a disk may hold after a loss of power, at a
// random moment between commits that go on, and opens it.
func TestPebbleLossOfPower(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	rng := rand.New(rand.NewPCG(5, 5))
	disk := vfs.NewCrashableMem()
	lost := []Family{FamilySignature, FamilyContainer}
	for round := range rounds {
		options := small("store")
		options.fs = disk
		s, err := OpenPebble(t.Context(), options)
		require.NoError(t, err)
		cache, err := NewBounded(t.Context(), s, FamilyMessage, 20<<10)
		require.NoError(t, err)
		cursor, err := ReadCursor(t.Context(), s, "c")
		require.NoError(t, err)

		var mu sync.Mutex
		acknowledged, next := cursor.Next, cursor.Next
		var wg sync.WaitGroup
		stop := make(chan struct{})
		commits := make(chan struct{}, 1)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var b Batch
				for i := range 20 {
					pk := PK{P: fmt.Appendf(nil, "p%d", i), K: fmt.Appendf(nil, "%08d", next)}
					b.Put(lost[i%2], pk, bytes.Repeat(fmt.Append(nil, next), 100))
				}
				b.Move("c", Cursor{Next: next}, Cursor{Next: next + 1})
				if err := s.Commit(t.Context(), &b); err != nil {
					t.Errorf("committing: got %v, want nil", err)
					return
				}
				next++
				mu.Lock()
				acknowledged = next
				mu.Unlock()
				select {
				case commits <- struct{}{}:
				default:
				}
			}
		})
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				e := Entry{PK: PK{P: fmt.Appendf(nil, "%d", i%50)}, V: make([]byte, i%1500)}
				if err := cache.Put(t.Context(), e); err != nil {
					t.Errorf("putting: got %v, want nil", err)
					return
				}
			}
		})
		for range 1 + rng.IntN(30) {
			<-commits
		}
		mu.Lock()
		want := acknowledged
		mu.Unlock()
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		close(stop)
		wg.Wait()
		require.NoError(t, s.Close())

		options.fs = after
		s, err = OpenPebble(t.Context(), options)
		require.NoError(t, err)
		cursor, err = ReadCursor(t.Context(), s, "c")
		require.NoError(t, err)
		if cursor.Next < want {
			t.Fatalf("round %d: got a cursor at %d, want at least the acknowledged %d", round, cursor.Next, want)
		}
		for i := range 20 {
			rows, err := s.Scan(t.Context(), lost[i%2], fmt.Appendf(nil, "p%d", i), nil, nil, Ascending, 1<<20)
			require.NoError(t, err)
			require.Len(t, rows, int(cursor.Next), "rows of partition p%d, round %d", i, round)
			for at, row := range rows {
				require.Equal(t, bytes.Repeat(fmt.Append(nil, at), 100), row.V, "row %d of partition p%d, round %d", at, i, round)
			}
		}
		cache, err = NewBounded(t.Context(), s, FamilyMessage, 20<<10)
		require.NoError(t, err)
		require.NoError(t, cache.Verify(t.Context()))
		require.NoError(t, s.Close())
		disk = after
	}
}

func TestPebbleOtherFormat(t *testing.T) {
	for name, change := range map[string]func(*Batch){
		"newer":      func(b *Batch) { b.Put(FamilyMeta, formatKey, []byte("2")) },
		"not marked": func(b *Batch) { b.Delete(FamilyMeta, formatKey); b.Put(FamilyMessage, PK{}, nil) },
		"empty mark": func(b *Batch) { b.Put(FamilyMeta, formatKey, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			options := small(t.TempDir())
			s, err := OpenPebble(t.Context(), options)
			require.NoError(t, err)
			var b Batch
			change(&b)
			require.NoError(t, s.Commit(t.Context(), &b))
			require.NoError(t, s.Close())
			_, err = OpenPebble(t.Context(), options)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, options.Dir)
			require.ErrorContains(t, err, "another data directory")
			// The lock is free again.
			_, err = OpenPebble(t.Context(), options)
			require.ErrorIs(t, err, ErrFormat)
		})
	}
}

func TestPebbleOptions(t *testing.T) {
	for name, options := range map[string]PebbleOptions{
		"no directory":       {},
		"negative cache":     {Dir: "x", CacheBytes: -1},
		"small write buffer": {Dir: "x", MemTableBytes: 1},
		"large write buffer": {Dir: "x", MemTableBytes: 2 << 30},
	} {
		options.fs = vfs.NewMem()
		_, err := OpenPebble(t.Context(), options)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := OpenPebble(t.Context(), small(file))
	require.ErrorContains(t, err, file)
	require.NotErrorIs(t, err, ErrInUse)
}

// TestPebbleDamage flips bits of a table: reads that meet them say so, and the
// process goes on.
func TestPebbleDamage(t *testing.T) {
	for _, family := range []Family{FamilyMessage, FamilyContainer} {
		t.Run(family.String(), func(t *testing.T) {
			options := small(t.TempDir())
			var log bytes.Buffer
			options.Log = slog.New(slog.NewTextHandler(&log, nil))
			s, err := OpenPebble(t.Context(), options)
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(1, 1))
			var b Batch
			for i := range 1000 {
				v := make([]byte, 1000)
				for j := range v {
					v[j] = byte(random.Uint32())
				}
				b.Put(family, PK{P: []byte("p"), K: fmt.Appendf(nil, "%04d", i)}, v)
			}
			require.NoError(t, s.Commit(t.Context(), &b))
			require.NoError(t, s.db.Flush())
			require.NoError(t, s.Close())
			found, err := filepath.Glob(filepath.Join(options.Dir, "*.sst"))
			require.NoError(t, err)
			damaged := 0
			for _, file := range found {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				if len(data) > 500_000 {
					data[300_000] ^= 0xff
					damaged++
				}
				require.NoError(t, os.WriteFile(file, data, 0o600))
			}
			require.Positive(t, damaged, "files damaged")
			s, err = OpenPebble(t.Context(), options)
			require.NoError(t, err)
			_, err = s.Scan(t.Context(), family, []byte("p"), nil, nil, Ascending, 1000)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, options.Dir)
			rows, err := s.Scan(t.Context(), family, []byte("p"), nil, nil, Ascending, 10)
			require.NoError(t, err, "rows that are not damaged")
			require.Len(t, rows, 10)
			require.NoError(t, s.Close())
			require.Contains(t, log.String(), "embedded store is damaged")
		})
	}
}

// TestPebbleComesAndGoes: rows that a batch adds and deletes take no space, and other rows take the
// same as before.
func TestPebbleComesAndGoes(t *testing.T) {
	s, err := OpenPebble(t.Context(), small(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var pk PK // of each test another
	before, after := PK{P: []byte("p")}, PK{P: []byte("p"), K: []byte("z")}
	add := func(b *Batch) { b.Add(FamilyMessage, pk, []byte("added")) }
	put := func(b *Batch) { b.Put(FamilyMessage, pk, []byte("put")) }
	remove := func(b *Batch) { b.Delete(FamilyMessage, pk) }
	for name, test := range map[string]struct {
		steps []func(*Batch)
		rows  uint32 // written
		want  []byte
	}{
		"added and deleted":                   {[]func(*Batch){add, remove}, 0, nil},
		"added, changed and deleted":          {[]func(*Batch){add, put, remove}, 0, nil},
		"added and deleted, twice":            {[]func(*Batch){add, remove, add, remove}, 0, nil},
		"added, deleted and there after all":  {[]func(*Batch){add, remove, put}, 1, []byte("put")},
		"put and deleted":                     {[]func(*Batch){put, remove}, 1, nil},
		"deleted, added and deleted":          {[]func(*Batch){remove, add, remove}, 1, nil},
		"deleted":                             {[]func(*Batch){remove}, 1, nil},
		"put, and what is after it, deleted":  {[]func(*Batch){put, func(b *Batch) { b.Delete(FamilyMessage, after) }}, 2, []byte("put")},
		"deleted, and what is before it, put": {[]func(*Batch){remove, func(b *Batch) { b.Add(FamilyMessage, before, nil) }}, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var b Batch
			pk = PK{P: []byte("p"), K: []byte(name)}
			for i, step := range test.steps {
				step(&b)
				// So that the next one does not take its place.
				b.Put(FamilySignature, PK{K: []byte{byte(i)}}, nil)
				b.last = [256]int{}
			}
			b.order()
			written := s.db.NewBatch()
			require.NoError(t, s.fill(written, &b))
			require.Equal(t, test.rows, written.Count()-uint32(len(test.steps)), "rows written, but for the others")
			require.NoError(t, written.SyncWait())
			require.NoError(t, written.Close())
			got, err := s.Get(t.Context(), FamilyMessage, []PK{pk})
			require.NoError(t, err)
			require.Equal(t, test.want, got[0], "the row then")
		})
	}
}

// TestPebbleSeparatedValues opens and extends a store of an earlier version, which kept
// large values of containers in files of their own.
func TestPebbleSeparatedValues(t *testing.T) {
	const batches, rows = 12, 200
	dir := t.TempDir()
	pk := func(n int) PK { return PK{P: []byte("p"), K: binary.BigEndian.AppendUint64(nil, uint64(n))} }
	value := func(n int) []byte { return bytes.Repeat(fmt.Append(nil, n, " "), 20+n%200) }
	fill := func(s *Pebble, from int) {
		for n := from; n < from+batches; n++ {
			var b Batch
			for i := n * rows; i < (n+1)*rows; i++ {
				b.Add(FamilyContainer, pk(i), value(i))
				// The same on both sides of it.
				b.Add(FamilyMessage, pk(i), value(i))
				b.Add(FamilyTxPlace, pk(i), value(i))
			}
			require.NoError(t, s.Commit(t.Context(), &b))
			require.NoError(t, s.db.Flush())
		}
	}
	check := func(s *Pebble, n int) {
		require.NoError(t, s.db.Compact(t.Context(), []byte{0}, []byte{255}, false))
		for _, family := range []Family{FamilyMessage, FamilyContainer, FamilyTxPlace} {
			got, err := s.Scan(t.Context(), family, []byte("p"), nil, nil, Ascending, 1<<20)
			require.NoError(t, err)
			require.Len(t, got, n*rows)
			for i, row := range got {
				if want := value(i); !bytes.Equal(want, row.V) {
					t.Fatalf("row %d of %s: got %q, want %q", i, family, row.V, want)
				}
			}
			one, err := s.Get(t.Context(), family, []PK{pk(0), pk(n*rows - 1)})
			require.NoError(t, err)
			require.Equal(t, [][]byte{value(0), value(n*rows - 1)}, one)
		}
	}
	options := small(dir).withDefaults().pebble(nil, newOpening())
	options.Experimental.SpanPolicyFunc = func(from []byte) (policy pebble.SpanPolicy, until []byte, err error) {
		first, end := []byte{byte(FamilyContainer)}, []byte{byte(FamilyContainer) + 1}
		switch {
		case bytes.Compare(from, first) < 0:
			until = first
		case bytes.Compare(from, end) < 0:
			return policy, end, nil
		}
		policy.ValueStoragePolicy = pebble.ValueStorageLowReadLatency
		return policy, until, nil
	}
	options.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: 256, MaxBlobReferenceDepth: 1 << 10, TargetGarbageRatio: 0.5}
	}
	db, err := pebble.Open(dir, options)
	require.NoError(t, err)
	earlier := &Pebble{db: db, lock: new(pebble.Lock), dir: dir}
	var format Batch
	format.Put(FamilyMeta, formatKey, []byte(strconv.Itoa(Format)))
	require.NoError(t, earlier.Commit(t.Context(), &format))
	fill(earlier, 0)
	require.Positive(t, db.Metrics().Levels[0].BlobBytesFlushed, "bytes of separated values")
	require.NoError(t, db.Close())

	s, err := OpenPebble(t.Context(), small(dir))
	require.NoError(t, err)
	check(s, batches)
	fill(s, batches)
	check(s, 2*batches)
	require.Zero(t, s.db.Metrics().Levels[0].BlobBytesFlushed, "bytes of separated values")
	require.NoError(t, s.Close())
}

// TestPebbleKeepsValuesWithKeys: the rows of a partition are not versions of one row, of which only the first matters.
func TestPebbleKeepsValuesWithKeys(t *testing.T) {
	s, err := OpenPebble(t.Context(), small(t.TempDir()))
	require.NoError(t, err)
	var b Batch
	for i := range 1000 {
		b.Put(FamilyContainer, PK{P: []byte("partition"), K: binary.BigEndian.AppendUint32(nil, uint32(i))}, []byte("value"))
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	require.NoError(t, s.db.Flush())
	levels := s.db.Metrics().Levels
	require.Positive(t, levels[0].TableBytesFlushed, "bytes of tables")
	require.Zero(t, levels[0].Additional.BytesWrittenValueBlocks, "bytes of values apart from their keys")
	require.NoError(t, s.Close())
}

func TestPebbleStatsAndLog(t *testing.T) {
	options := small(t.TempDir())
	var log bytes.Buffer
	var mu sync.Mutex
	options.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := OpenPebble(t.Context(), options)
	require.NoError(t, err)
	before := s.Stats()
	var b Batch
	for i := range 100 {
		b.Put(FamilyMessage, PK{P: []byte{byte(i)}}, make([]byte, 1000))
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	require.NoError(t, s.db.Flush())
	for i := range 100 {
		_, err := s.Get(t.Context(), FamilyMessage, []PK{{P: []byte{byte(i)}}})
		require.NoError(t, err)
	}
	stats := s.Stats()
	require.Equal(t, []uint64{1, 100}, []uint64{stats.Commits - before.Commits, stats.Rows - before.Rows})
	require.Positive(t, stats.DiskBytes)
	require.Positive(t, stats.MemoryBytes)
	require.Positive(t, stats.ReadAmplification)
	require.NoError(t, s.Close())
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("log of a store without trouble: got\n%s\nwant no warnings", &log)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

func TestFamilies(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Families() {
		require.NoError(t, f.check())
		named, ok := FamilyNamed(f.String())
		require.True(t, ok)
		require.Equal(t, f, named)
		require.False(t, seen[f.String()], "family name %s is given twice", f)
		require.Regexp(t, "^[a-z][a-z0-9_]*$", f.String())
		seen[f.String()] = true
	}
	_, ok := FamilyNamed("")
	require.False(t, ok)
	require.Equal(t, "family(250)", Family(250).String())
	require.ErrorIs(t, Family(250).check(), ErrInvalid)
}

// TestDumpGolden pins the dump's form: hashes are compared between versions.
func TestDumpGolden(t *testing.T) {
	s := NewMemory()
	var b Batch
	b.Put(FamilyMessage, PK{P: []byte("p"), K: []byte("k")}, []byte("value"))
	b.Move("c", Cursor{}, Cursor{Next: 1, Epoch: 2})
	require.NoError(t, s.Commit(t.Context(), &b))
	var got bytes.Buffer
	require.NoError(t, Dump(t.Context(), s, &got))
	want := "quorate store 1\n" +
		"\x01\x06format\x00\x011" +
		"\x02\x01c\x00\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02" +
		"\x04\x01p\x01k\x05value" +
		"\x00"
	require.Equal(t, want, got.String())
	require.Error(t, Dump(t.Context(), s, failing{}))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
