// Package store holds the persistent rows of quorate behind one small interface. A row of a family has a partition key p, a
// clustering key k and a value. The clustering keys order the rows of a partition bytewise. Every read stays within one
// partition, so an embedded engine reads one place on disk and a distributed one asks one shard. The package does not
// interpret rows. It has no joins and no secondary indexes: an index is a family of its own, written in the same batch.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

var (
	// ErrFenced means that a cursor did not have the value that a batch expects: another writer took over. Nothing of the
	// batch was written. Read the cursor again, or stop.
	ErrFenced = errors.New("cursor was moved by another writer")
	// ErrClosed means that the store or view was closed before the call.
	ErrClosed = errors.New("store is closed")
	// ErrCorrupt means that the engine or a row failed a check. Index the network
	// again in a fresh store.
	ErrCorrupt = errors.New("store is damaged")
	// ErrFormat means that the store was written by an incompatible version.
	ErrFormat = errors.New("store has another format")
	// ErrInUse means that another process uses the store.
	ErrInUse = errors.New("store is in use")
	// ErrUnavailable means that the server does not respond, or refuses temporarily; retrying may help. After a Commit it is
	// unknown whether the batch was written: commit it again if its cursors have not moved.
	ErrUnavailable = errors.New("the store's server does not answer")
	// ErrInvalid means that an argument exceeds a limit of this package. Retrying does not help.
	ErrInvalid = errors.New("invalid use of the store")
)

const (
	// MaxKey is the maximum length of p and k together, in bytes. It fits a B-tree page of PostgreSQL with its headers.
	MaxKey = 2048
	// MaxValue is the maximum length of a value, in bytes.
	MaxValue = 64 << 20
)

// PK identifies a row of a family. Both parts may be empty and contain any byte.
type PK struct {
	// P is the partition key.
	P []byte
	// K is the clustering key.
	K []byte
}

// Row is a row of a known partition. V is never nil in a row that exists.
type Row struct {
	K, V []byte
}

// Entry is a row of a family together with its partition.
type Entry struct {
	PK
	V []byte
}

// Range bounds a lookup by Reader.Floor: Lo <= k <= Hi. A nil Hi means no upper bound. An empty Hi allows only the empty
// key.
type Range struct {
	Lo, Hi []byte
}

// Direction is the order in which a scan returns rows.
type Direction int8

const (
	// Ascending returns the smallest key first.
	Ascending Direction = iota
	// Descending returns the greatest key first.
	Descending
)

// Reader reads rows from a store or from a view of it.
//
// It is safe for concurrent use. Each call sees one consistent state and blocks while the engine reads. The caller owns the
// returned slices; rows of Scan and Floor may share 4 KiB of memory. Arguments are not retained. Errors are ErrClosed,
// ErrInvalid, ErrCorrupt, the context's, or those of the engine, wrapped.
type Reader interface {
	// Get returns the values of keys, in their order. A missing row is nil, an
	// empty value is empty and not nil.
	Get(ctx context.Context, family Family, keys []PK) ([][]byte, error)
	// Scan returns at most limit rows of partition p with lo <= k < hi. A nil hi
	// means no upper bound. A limit of 0 or less returns no row. The next page begins
	// at After(last key) when ascending, and ends before the last key when descending.
	Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error)
	// Floor returns, for each range in its order, the row of partition p with
	// the greatest key in the range, or a Row whose V is nil.
	Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error)
	// Walk returns at most limit rows of the whole family in ascending order of
	// (p, k), beginning after the given one, or with the first if after is nil. It is
	// for copies and dumps; on a distributed engine it visits every shard.
	Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error)
}

// Store is an engine. It is safe for concurrent use.
type Store interface {
	Reader
	// Commit writes a batch atomically, also if the process or the machine fails. Unless
	// the batch is NoSync, it blocks until the batch would survive a loss of power. Readers
	// may see a batch a moment earlier. Batches of one goroutine become durable in order.
	//
	// The caller must not change the batch and its slices until Commit returns. The context
	// can cancel Commit until writing begins. After a later error other than ErrFenced it is
	// unknown whether the batch was written.
	Commit(ctx context.Context, b *Batch) error
	// View returns the current state, which later commits do not change. The engine cannot
	// reclaim memory and disk space of overwritten rows while a view is open: close it within
	// seconds.
	View(ctx context.Context) (View, error)
	// Stats returns figures about the engine, cheap enough for every scrape.
	Stats() Stats
	// Close waits for calls in progress, closes open views, and releases the engine. A second
	// call returns ErrClosed.
	Close() error
}

// View is a consistent state of a store. The caller of Store.View must close it.
type View interface {
	Reader
	// Close releases the view. A second call does nothing.
	Close() error
}

// Stats are statistics of an engine. Unknown ones are 0.
type Stats struct {
	// Engine is the adapter's name.
	Engine string
	// Commits and Rows count the batches committed and the puts and deletes in
	// them since the store was opened.
	Commits, Rows uint64
	// Replaced counts rows that were added as new but existed, or, depending on the engine, the
	// families of batches with such rows. Each costs time and is a bug of the writer.
	Replaced uint64
	// Exchanges counts the round trips of reads to a remote engine.
	Exchanges uint64
	// DiskBytes is what the engine occupies on disk, logs included.
	DiskBytes uint64
	// MemoryBytes is what write buffers and block cache hold.
	MemoryBytes uint64
	// ReadAmplification is the number of places a lookup may have to visit.
	ReadAmplification int
	// CompactionDebtBytes is the number of bytes that the engine has yet to rewrite.
	CompactionDebtBytes uint64
	// FlushedBytes is what was written out of write buffers since the store was opened.
	FlushedBytes uint64
}

// After returns the smallest key greater than k, at which the next page of an ascending scan begins.
func After(k []byte) []byte {
	next := make([]byte, len(k)+1)
	copy(next, k)
	return next
}

// compare is the order of the rows of a family.
func (a PK) compare(b PK) int {
	if c := bytes.Compare(a.P, b.P); c != 0 {
		return c
	}
	return bytes.Compare(a.K, b.K)
}

func (a PK) clone() PK {
	buf := make([]byte, len(a.P)+len(a.K))
	n := copy(buf, a.P)
	copy(buf[n:], a.K)
	return PK{P: buf[:n:n], K: buf[n:]}
}

func (a PK) check() error {
	if n := len(a.P) + len(a.K); n > MaxKey {
		return fmt.Errorf("%w: key of %d bytes exceeds the limit of %d", ErrInvalid, n, MaxKey)
	}
	return nil
}

// present returns a copy of an existing value, which is never nil.
func present(v []byte) []byte {
	return append(make([]byte, 0, len(v)), v...)
}

// copied returns a copy of a row in one allocation.
func copied(k, v []byte) Row {
	buf := make([]byte, len(k)+len(v))
	n := copy(buf, k)
	copy(buf[n:], v)
	return Row{K: buf[:n:n], V: buf[n:]}
}

// empty reports whether no key satisfies lo <= k < hi.
func empty(lo, hi []byte) bool { return hi != nil && bytes.Compare(lo, hi) >= 0 }
