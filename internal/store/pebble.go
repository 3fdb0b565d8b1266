package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// PebbleOptions are the settings of the embedded store. Zero values mean the defaults.
type PebbleOptions struct {
	// Dir is the directory of the store, which holds nothing else. It is created if it
	// does not exist.
	Dir string
	// CacheBytes bounds the cache of blocks read from disk. Default 128 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one write buffer. There are up to three: one receives
	// writes, one is flushed, one is kept for reuse. Writers wait if flushing is slower.
	// Larger buffers make indexing cheaper and restarts after a kill slower, which replay
	// at most two. 1 MiB to 1 GiB, default 32 MiB.
	MemTableBytes int64
	// Unfinished opens a store even if a copy into it is not finished; see Copy.
	Unfinished bool
	// Log gets the engine's warnings and errors, and at debug level its steps.
	// Nil discards them.
	Log *slog.Logger

	// fs replaces the file system in tests.
	fs vfs.FS
}

// fullBuffers is the number of write buffers at which writers wait: the least that lets one
// be flushed during writes to another.
const fullBuffers = 2

// maxOpenFiles bounds the files kept open.
const maxOpenFiles = 1000

func (o PebbleOptions) withDefaults() PebbleOptions {
	if o.CacheBytes == 0 {
		o.CacheBytes = 128 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 32 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
	return o
}

func (o PebbleOptions) check() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no directory given", ErrInvalid)
	case o.CacheBytes < 0:
		return fmt.Errorf("%w: cache of %d bytes", ErrInvalid, o.CacheBytes)
	case o.MemTableBytes < 1<<20 || o.MemTableBytes > 1<<30:
		return fmt.Errorf("%w: write buffer of %d bytes, want 1 MiB to 1 GiB", ErrInvalid, o.MemTableBytes)
	}
	return nil
}

// Pebble is the embedded Store: a log-structured merge tree in a directory that
// one process uses at a time.
type Pebble struct {
	pebbleReader
	db   *pebble.DB
	lock *pebble.Lock
	dir  string
	log  pebbleLog

	// open is held for reading by every call under way, and for writing by Close,
	// because Pebble must not be used while it closes or afterwards.
	open   sync.RWMutex
	closed bool // guarded by open

	// cursors is held from reading the cursors of a batch until the batch is
	// visible, not until it is durable: syncs of several writers are shared.
	cursors sync.Mutex

	viewsMu sync.Mutex
	views   map[*pebbleView]struct{} // guarded by viewsMu

	commits, rows atomic.Uint64

	idle    sync.WaitGroup // compactWhenIdle, from OpenPebble to Close
	endIdle context.CancelFunc
}

var _ Store = (*Pebble)(nil)

// OpenPebble opens or makes the store in a directory. After a kill it first replays its
// log. It returns at the first write that fails, and after ctx ends as soon as the
// directory is unlocked, or soon if the disk does not answer. Errors are ErrInUse,
// ErrFormat, ErrCorrupt, ErrInvalid, or the file system's, and say what to do. After an
// error of the file system the directory may stay locked until the process ends.
func OpenPebble(ctx context.Context, options PebbleOptions) (*Pebble, error) {
	options = options.withDefaults()
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if err := options.fs.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the store's directory: %w", err)
	}
	lock, err := pebble.LockDirectory(options.Dir, options.fs)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			return nil, fmt.Errorf("locking the store in %s: %w", options.Dir, err)
		}
		return nil, fmt.Errorf("%w: another process uses %s: stop it, or choose another data directory (%w)",
			ErrInUse, options.Dir, err)
	}
	found, err := pebble.Peek(options.Dir, options.fs)
	if err != nil {
		_ = lock.Close()
		return nil, openError(options.Dir, err)
	}
	opening := newOpening()
	db, err := opening.run(ctx, func() (*pebble.DB, error) {
		db, err := options.open(lock, opening, found.Exists)
		if err != nil {
			_ = lock.Close()
		}
		return db, err
	}, func(late *pebble.DB) {
		_ = errors.Join(late.Close(), lock.Close()) // nothing waits for it any more
	})
	if err != nil {
		return nil, openError(options.Dir, err)
	}
	s := &Pebble{db: db, lock: lock, dir: options.Dir, log: pebbleLog{options.Log}, views: make(map[*pebbleView]struct{})}
	s.pebbleReader = pebbleReader{s, s}
	if err := checkFormat(ctx, s, options.Unfinished); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("opening the store in %s: %w", options.Dir, err)
	}
	idle, end := context.WithCancel(context.WithoutCancel(ctx))
	s.endIdle = end
	s.idle.Go(func() { s.compactWhenIdle(idle, options.Log) })
	return s, nil
}

// open opens the engine.
func (o PebbleOptions) open(lock *pebble.Lock, opening *opening, exists bool) (*pebble.DB, error) {
	db, err := pebble.Open(o.Dir, o.pebble(lock, opening))
	if err != nil || exists {
		return db, err
	}
	// The first log is begun in an older format, in which damage passes for the end of the log. The flush begins
	// another one.
	if err := db.Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the log: %w", err), db.Close())
	}
	return db, nil
}

func (o PebbleOptions) pebble(lock *pebble.Lock, opening *opening) *pebble.Options {
	events := pebbleEvents(o.Log, opening)
	p := &pebble.Options{
		FS:       tableFS{o.fs},
		Lock:     lock,
		Comparer: comparer(),
		// The library takes write buffers out of the cache: those that there may be, and one
		// that it keeps to be used again.
		CacheSize:    o.CacheBytes + (fullBuffers+1)*o.MemTableBytes,
		MemTableSize: uint64(o.MemTableBytes),
		// Writers wait beyond this many full write buffers: the memory's bound, and that of
		// what is replayed after a kill.
		MemTableStopWritesThreshold: fullBuffers,
		MaxOpenFiles:                maxOpenFiles,
		// More compactions at a time would compete with requests for the processors.
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
		// Pinned, so that an update of the library does not make directories unreadable for
		// the version before it. Stores of earlier versions have separated values.
		FormatMajorVersion: pebble.FormatValueSeparation,
		Logger:             pebbleLog{o.Log},
		EventListener:      &events,
	}
	// An index writes far more than it reads while it catches up. Fewer, larger merges of the
	// upper levels halve what is rewritten; bench/README.md has the figures.
	p.L0CompactionThreshold, p.L0StopWritesThreshold = 16, 24
	p.LBaseMaxBytes = 256 << 20
	// A third of the rows are deleted again. At Pebble's threshold of 0.1 most compactions
	// rewrite single tables because of their tombstones; ordinary ones drop these, too.
	p.Experimental.TombstoneDenseCompactionThreshold = 0.9
	p.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	// The library takes rows of one partition for versions of one row, and would store the values of all but the
	// first apart from their keys.
	rows := pebble.SpanPolicy{DisableValueSeparationBySuffix: true}
	p.Experimental.SpanPolicyFunc = func([]byte) (pebble.SpanPolicy, []byte, error) { return rows, nil, nil }
	return p
}

func openError(dir string, err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("opening %s: %w: move the directory away and restart; the index is rebuilt from the network (%w)", dir, ErrCorrupt, err)
	}
	return fmt.Errorf("opening the store in %s: %w", dir, err)
}

// Commit implements Store.
func (s *Pebble) Commit(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if len(b.ops) == 0 && len(b.moves) == 0 {
		return nil
	}
	b.order()
	// Beside keys and values, an entry has a tag, two lengths and the prefix.
	batch := s.db.NewBatchWithSize(b.bytes+16*(len(b.ops)+len(b.moves))+64, pebble.WithMaxRetainedSizeBytes(retainedBytes))
	if err := s.fill(batch, b); err != nil {
		_ = batch.Close()
		return err
	}
	if !b.NoSync {
		if err := batch.SyncWait(); err != nil {
			// Readers see the batch already, and the engine fails every later commit, also once there is room again
			// (pebble, record.LogWriter).
			s.log.Fatalf("syncing a batch: %v", err)
		}
	}
	if err := batch.Close(); err != nil {
		return fmt.Errorf("releasing a batch: %w", s.wrap(err))
	}
	s.commits.Add(1)
	s.rows.Add(uint64(len(b.ops)))
	return nil
}

// retainedBytes is how large the buffer of a batch may be to be used again: those of
// ingestion have somewhat more than 4 MiB.
const retainedBytes = 8 << 20

// fill copies b into batch and applies it, without waiting for the disk. It writes in
// the order of keys, which makes inserting into the write buffer cheap.
func (s *Pebble) fill(batch *pebble.Batch, b *Batch) error {
	first, isNew := true, false // of the operations on a row
	for at, place := range b.sorted {
		op := &b.ops[place.op]
		if first {
			isNew = op.fresh
		}
		if first = !b.replaced(at); !first {
			continue // only the last write to a row is seen
		}
		if op.delete && isNew {
			continue // a row that comes and goes
		}
		n := prefixLen(op.pk.P) + len(op.pk.K)
		var entry *pebble.DeferredBatchOp
		if op.delete {
			entry = batch.DeleteDeferred(n)
		} else {
			entry = batch.SetDeferred(n, len(op.v))
			copy(entry.Value, op.v)
		}
		copy(entry.Key[len(appendPrefix(entry.Key[:0], op.family, op.pk.P)):], op.pk.K)
		if err := entry.Finish(); err != nil {
			return fmt.Errorf("building a batch: %w", s.wrap(err))
		}
	}
	if b.touchesCursors() {
		s.cursors.Lock()
		defer s.cursors.Unlock()
		read := func(pk PK) ([]byte, error) { return s.get(encodeKey(FamilyCursor, pk.P, pk.K)) }
		for cursor, err := range b.cursorWrites(read) {
			if err != nil {
				return err
			}
			if err := batch.Set(encodeKey(FamilyCursor, cursor.P, cursor.K), cursor.V, nil); err != nil {
				return fmt.Errorf("building a batch: %w", s.wrap(err))
			}
		}
	}
	var err error
	if b.NoSync {
		err = s.db.Apply(batch, pebble.NoSync)
	} else {
		err = s.db.ApplyNoSyncWait(batch, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("writing a batch: %w", s.wrap(err))
	}
	return nil
}

// View implements Store.
func (s *Pebble) View(ctx context.Context) (View, error) {
	leave, err := s.begin(ctx, FamilyMeta)
	if err != nil {
		return nil, err
	}
	defer leave()
	state, err := s.db.NewIter(nil)
	if err != nil {
		return nil, fmt.Errorf("opening a view: %w", s.wrap(err))
	}
	v := &pebbleView{state: state}
	v.pebbleReader = pebbleReader{s, v}
	s.viewsMu.Lock()
	s.views[v] = struct{}{}
	s.viewsMu.Unlock()
	return v, nil
}

// Stats implements Store.
func (s *Pebble) Stats() Stats {
	stats := Stats{Engine: "pebble", Commits: s.commits.Load(), Rows: s.rows.Load()}
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return stats
	}
	m := s.db.Metrics()
	stats.DiskBytes = m.DiskSpaceUsage()
	stats.MemoryBytes = m.MemTable.Size + uint64(max(m.BlockCache.Size, 0))
	stats.ReadAmplification = m.ReadAmp()
	stats.CompactionDebtBytes = m.Compact.EstimatedDebt
	for level := range m.Levels {
		stats.FlushedBytes += m.Levels[level].TableBytesFlushed + m.Levels[level].BlobBytesFlushed
	}
	return stats
}

// Close implements Store. It makes everything durable, NoSync batches included.
func (s *Pebble) Close() error {
	if s.endIdle != nil {
		s.endIdle()
	}
	s.idle.Wait()
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	s.viewsMu.Lock()
	defer s.viewsMu.Unlock()
	var errs []error
	for v := range s.views {
		errs = append(errs, v.release())
	}
	errs = append(errs, s.db.Close(), s.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the store in %s: %w", s.dir, err)
	}
	return nil
}

// wrap maps an error of the engine to the errors of this package.
func (s *Pebble) wrap(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: stop the service, move %s away and restart; the index is rebuilt from the network (%w)",
			ErrCorrupt, s.dir, err)
	}
	return err
}
