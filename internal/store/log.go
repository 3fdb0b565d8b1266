package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// ErrTruncated reports that a Log no longer has, or never had, the entries after a position.
var ErrTruncated = errors.New("the log does not have the entries after this position")

// Log is a log of entries that are numbered from 1 without gaps. Any number of processes may append to one log. A log
// is bounded in bytes: an append removes the oldest entries.
//
// An entry may have a key. An entry whose key is in the log is not appended again, so appending is idempotent while the
// log has the entry.
//
// The rows of an append, the account of the log and its cursor are written in one durable batch. The cursor fences: of
// two processes that append at the same time, the second reads the account again and repeats. Read returns an entry only
// after it is durable, so a number that a reader has seen never names another entry. If the store lost entries, because a
// server that was behind took over, the log continues with a new ID.
//
// Nothing else may write the rows of a log. A Log is safe for concurrent use.
type Log struct {
	store      Store
	rows, keys Family
	p          []byte
	maxBytes   uint64
	cursor     string
	account    PK

	mu    sync.Mutex // held by Append
	known bool       // whether at and state are the store's; guarded by mu
	at    Cursor     // Next is the number of the newest entry, Epoch the log's ID; guarded by mu
	state logState   // guarded by mu

	// newest is the furthest cursor that was read or written.
	newest atomic.Pointer[Cursor]

	// unsettled is the first number of an append that may not be durable yet, MaxUint64 without one.
	unsettled atomic.Uint64

	signal  sync.Mutex
	changed chan struct{} // guarded by signal
}

// logState is the account of a log.
type logState struct {
	first, bytes uint64 // first is the number of the oldest entry
}

// LogEntry is an entry to append. A nil Key makes no entry equal to it.
type LogEntry struct{ Key, V []byte }

// LogRow is an entry of a log.
type LogRow struct {
	Number uint64
	V      []byte
}

// LogEnds describes a log. Its ID is not 0, and differs from that of any other log, also of one that the same store had
// before it was deleted. Oldest is the number of the first entry and Newest that of the last one; an empty log has Newest
// 0 and Oldest 1.
type LogEnds struct{ ID, Oldest, Newest uint64 }

// NewLog returns the log in partition p of two families. It does not read the store.
func NewLog(s Store, rows, keys Family, p []byte, maxBytes uint64) *Log {
	name := fmt.Sprintf("log/%s/%x", rows, p)
	l := &Log{
		store: s, rows: rows, keys: keys, p: bytes.Clone(p), maxBytes: maxBytes,
		cursor: name, account: PK{P: []byte(name)}, changed: make(chan struct{}),
	}
	l.unsettled.Store(math.MaxUint64)
	return l
}

const (
	// logPage is the maximum number of entries of one commit, logEvictions how many it removes.
	logPage, logEvictions = 512, 2048
	// logBytes is the size of values after which a commit ends.
	logBytes = 4 << 20
)

// Append appends entries in their order, except those whose keys are in the log. On an error, the first of them may have
// been appended.
func (l *Log) Append(ctx context.Context, entries ...LogEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(entries) > 0 {
		n, size := 1, len(entries[0].V)
		for n < len(entries) && n < logPage && size+len(entries[n].V) <= logBytes {
			size += len(entries[n].V)
			n++
		}
		if err := l.commit(ctx, entries[:n]); err != nil {
			return fmt.Errorf("appending to %s: %w", l.cursor, err)
		}
		entries = entries[n:]
	}
	return nil
}

// commit appends entries in one batch, again after another process came between. It requires mu.
func (l *Log) commit(ctx context.Context, entries []LogEntry) error {
	for {
		if !l.known {
			at, state, err := l.load(ctx)
			if err != nil {
				return err
			}
			l.at, l.state, l.known = at, state, true
		}
		fresh, err := l.fresh(ctx, entries)
		if err != nil || len(fresh) == 0 {
			return err
		}
		l.known = false
		batch, next, state, err := l.prepare(ctx, fresh)
		if err != nil {
			return err
		}
		l.unsettled.Store(l.at.Next + 1)
		err = l.store.Commit(ctx, batch)
		l.unsettled.Store(math.MaxUint64)
		if errors.Is(err, ErrFenced) {
			continue
		}
		if err != nil {
			return err
		}
		l.at, l.state, l.known = next, state, true
		l.note(next)
		l.tell()
		return nil
	}
}

// load reads cursor and account. It gives a new log its ID, and another one to a log that lost entries.
func (l *Log) load(ctx context.Context) (Cursor, logState, error) {
	for {
		before := l.newest.Load()
		at, state, err := l.read(ctx)
		if err != nil {
			return at, state, err
		}
		if at.Epoch != 0 && (before == nil || at.Epoch != before.Epoch || at.Next >= before.Next) {
			l.note(at)
			return at, state, nil
		}
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails, as documented
		var b Batch
		b.Move(l.cursor, at, Cursor{Next: at.Next, Epoch: binary.BigEndian.Uint64(id[:])>>1 + 1})
		if err := l.store.Commit(ctx, &b); err != nil && !errors.Is(err, ErrFenced) {
			return at, state, err
		}
	}
}

// note remembers a cursor, unless a further one of the same log is known.
func (l *Log) note(at Cursor) {
	for {
		before := l.newest.Load()
		if before != nil && before.Epoch == at.Epoch && before.Next >= at.Next || l.newest.CompareAndSwap(before, &at) {
			return
		}
	}
}

// read reads cursor and account from one view.
func (l *Log) read(ctx context.Context) (Cursor, logState, error) {
	state := logState{first: 1}
	view, err := l.store.View(ctx)
	if err != nil {
		return Cursor{}, state, err
	}
	defer func() { _ = view.Close() }()
	at, err := ReadCursor(ctx, view, l.cursor)
	if err != nil {
		return at, state, err
	}
	values, err := view.Get(ctx, FamilyMeta, []PK{l.account})
	if err != nil || values[0] == nil {
		return at, state, err
	}
	if len(values[0]) != 16 {
		return at, state, fmt.Errorf("%w: account of %s has %d bytes, want 16", ErrCorrupt, l.cursor, len(values[0]))
	}
	state.first, state.bytes = binary.BigEndian.Uint64(values[0]), binary.BigEndian.Uint64(values[0][8:])
	return at, state, nil
}

// fresh returns the entries whose keys are not in the log.
func (l *Log) fresh(ctx context.Context, entries []LogEntry) ([]LogEntry, error) {
	keys := make([]PK, 0, len(entries))
	for _, e := range entries {
		if e.Key != nil {
			keys = append(keys, l.keyRow(e.Key))
		}
	}
	there, err := l.store.Get(ctx, l.keys, keys)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(keys))
	fresh := make([]LogEntry, 0, len(entries))
	for _, e := range entries {
		if e.Key != nil {
			known := there[0] != nil || seen[string(e.Key)]
			there, seen[string(e.Key)] = there[1:], true
			if known {
				continue
			}
		}
		fresh = append(fresh, e)
	}
	return fresh, nil
}

// prepare returns the batch that appends entries, with the cursor and the account after it. It requires mu.
func (l *Log) prepare(ctx context.Context, entries []LogEntry) (*Batch, Cursor, logState, error) {
	batch, next, state := &Batch{}, l.at, l.state
	for _, e := range entries {
		next.Next++
		v := binary.AppendUvarint(make([]byte, 0, len(e.Key)+len(e.V)+2), uint64(len(e.Key)))
		v = append(append(v, e.Key...), e.V...)
		batch.Add(l.rows, PK{P: l.p, K: numberKey(next.Next)}, v)
		if e.Key != nil {
			batch.Add(l.keys, l.keyRow(e.Key), numberKey(next.Next))
		}
		state.bytes += l.size(e.Key, e.V)
	}
	for left := logEvictions; state.bytes > l.maxBytes && left > 0; {
		rows, err := l.store.Scan(ctx, l.rows, l.p, numberKey(state.first), numberKey(l.at.Next+1), Ascending, min(left, 64))
		if err != nil {
			return nil, next, state, err
		}
		if len(rows) == 0 {
			break // only the new entries remain
		}
		for _, row := range rows {
			if state.bytes <= l.maxBytes {
				break
			}
			key, v, err := l.split(row.V)
			if err != nil {
				return nil, next, state, err
			}
			batch.Delete(l.rows, PK{P: l.p, K: row.K})
			if len(key) > 0 {
				batch.Delete(l.keys, l.keyRow(key))
			}
			state.first = binary.BigEndian.Uint64(row.K) + 1
			state.bytes -= min(state.bytes, l.size(key, v))
			left--
		}
	}
	batch.Put(FamilyMeta, l.account, append(numberKey(state.first), numberKey(state.bytes)...))
	batch.Move(l.cursor, l.at, next)
	return batch, next, state, nil
}

// Ends returns the ends of the log.
func (l *Log) Ends(ctx context.Context) (LogEnds, error) {
	at, state, err := l.load(ctx)
	if err != nil {
		return LogEnds{}, fmt.Errorf("reading %s: %w", l.cursor, err)
	}
	return LogEnds{ID: at.Epoch, Oldest: state.first, Newest: min(at.Next, l.unsettled.Load()-1)}, nil
}

// Has reports whether the log still has an ID and the entry with a number, or had it before it was removed as one of the
// oldest.
func (l *Log) Has(ctx context.Context, id, number uint64) (bool, error) {
	at, err := ReadCursor(ctx, l.store, l.cursor)
	return at.Epoch == id && at.Next >= number, err
}

// Read returns at most limit entries after a number, in order; none if there are none yet. It returns ErrTruncated if
// the next entry was removed.
func (l *Log) Read(ctx context.Context, after uint64, limit int) ([]LogRow, error) {
	rows, err := l.store.Scan(ctx, l.rows, l.p, numberKey(after+1), nil, Ascending, limit)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", l.cursor, err)
	}
	// Loaded after the scan: what the scan saw of an append that has ended since is durable.
	unsettled := l.unsettled.Load()
	all := make([]LogRow, 0, len(rows))
	for _, row := range rows {
		if len(row.K) != numberSize {
			return nil, fmt.Errorf("%w: row %x of %s", ErrCorrupt, row.K, l.cursor)
		}
		number := binary.BigEndian.Uint64(row.K)
		if number >= unsettled {
			break
		}
		if number != after+1 {
			return nil, fmt.Errorf("%s: %w: the entry after %d is %d", l.cursor, ErrTruncated, after, number)
		}
		_, v, err := l.split(row.V)
		if err != nil {
			return nil, err
		}
		all, after = append(all, LogRow{Number: number, V: v}), number
	}
	return all, nil
}

// Changed returns a channel that is closed when this process next appends entries. Other processes' appends are only
// found by Read.
func (l *Log) Changed() <-chan struct{} {
	l.signal.Lock()
	defer l.signal.Unlock()
	return l.changed
}

// tell closes the channel of Changed.
func (l *Log) tell() {
	l.signal.Lock()
	defer l.signal.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Log) keyRow(key []byte) PK {
	return PK{P: append(bytes.Clone(l.p), key...)}
}

// size returns what an entry counts for: its key is written twice.
func (l *Log) size(key, v []byte) uint64 {
	return uint64(2*len(l.p) + 2*len(key) + len(v) + 2*numberSize + BoundedRowBytes)
}

// split returns key and value of a row.
func (l *Log) split(row []byte) (key, v []byte, err error) {
	length, n := binary.Uvarint(row)
	if n <= 0 || length > uint64(len(row)-n) {
		return nil, nil, fmt.Errorf("%w: value of %d bytes in %s", ErrCorrupt, len(row), l.cursor)
	}
	row = row[n:]
	return row[:length:length], row[length:], nil
}

func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
