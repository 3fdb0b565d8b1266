// Package store keeps what quorate knows behind one narrow interface: families
// of rows (p, k) -> v, where the partition key p says which list a row belongs
// to and the clustering key k orders the rows of that list bytewise. Every read
// stays within one partition, so that an embedded engine answers it from one
// place on disk and a distributed one from one shard. The package knows neither
// what the rows mean nor who writes them; there are no queries, joins or
// secondary indexes: an index is a family of its own, written in the same batch.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

var (
	// ErrFenced means that a cursor of a batch was not where its writer expected it:
	// another writer took over. Nothing of the batch was written. Read the cursor
	// again, or stop.
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
	// ErrUnavailable means that the server does not answer, went away, or refuses for the
	// moment; trying again later may help. After a Commit it is unknown whether anything was written: commit
	// the batch again if its cursors have not moved.
	ErrUnavailable = errors.New("the store's server does not answer")
	// ErrInvalid means that an argument exceeds a limit of this package. Trying again
	// does not help.
	ErrInvalid = errors.New("invalid use of the store")
)

const (
	// MaxKey is the greatest length of p and k together, in bytes: what a B-tree
	// page of PostgreSQL takes, with room for its own headers.
	MaxKey = 2048
	// MaxValue is the greatest length of a value, in bytes.
	MaxValue = 64 << 20
)

// PK names a row of a family. Both parts may be empty and hold any byte.
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

// Range bounds a lookup by Reader.Floor: Lo <= k <= Hi. A nil Hi means no upper
// bound, an empty one admits the empty key only.
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

// Reader is what a store and a view of it have in common.
//
// Every method may be called from any number of goroutines, blocks for as long
// as the engine reads, sees one consistent state per call, and returns slices
// that belong to the caller. A row of Scan or Floor may share 4 KiB of memory with
// others. Arguments are not kept. Errors are ErrClosed, ErrInvalid, ErrCorrupt,
// the context's, or the engine's own, wrapped.
type Reader interface {
	// Get returns the values of keys, in their order. A missing row is nil, an
	// empty value is empty and not nil.
	Get(ctx context.Context, family Family, keys []PK) ([][]byte, error)
	// Scan returns at most limit rows of partition p with lo <= k < hi. A nil hi
	// means no upper bound. A limit of 0 or less returns no row. To read the next
	// page, go on from After(last key) when ascending, or up to the last key when
	// descending.
	Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error)
	// Floor returns, for each range in its order, the row of partition p with
	// the greatest key in the range, or a Row whose V is nil.
	Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error)
	// Walk returns at most limit rows of the whole family in ascending order of
	// (p, k), those after the given one, or from the first if after is nil. It is
	// there for copies and dumps; on a distributed engine it visits every shard.
	Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error)
}

// Store is an engine. It is safe for concurrent use.
type Store interface {
	Reader
	// Commit writes a batch in one step: all of it or nothing, whatever happens
	// to the process or the machine. Unless the batch is NoSync, it blocks until
	// the batch would survive a loss of power. Readers may see a batch a moment
	// before that. Batches that one goroutine commits become durable in order.
	//
	// The batch and the bytes put into it must not be changed until Commit has
	// returned and belong to the caller again afterwards. The context is heeded
	// until writing begins; an error that comes later says nothing about whether
	// the batch was written, except ErrFenced: then it was not.
	Commit(ctx context.Context, b *Batch) error
	// View returns the store as it is now, unmoved by later commits. An open view
	// keeps the engine from reclaiming what was overwritten since, or moved,
	// in memory and on disk: close it within seconds, not hours.
	View(ctx context.Context) (View, error)
	// Stats returns figures about the engine, cheap enough for every scrape.
	Stats() Stats
	// Close waits for calls under way, closes the views that are open, and
	// releases the engine. A second call returns ErrClosed.
	Close() error
}

// View is a consistent state of a store, to be closed by who asked for it.
type View interface {
	Reader
	// Close releases the view. A second call does nothing.
	Close() error
}

// Stats are figures about an engine. What an engine does not know is 0.
type Stats struct {
	// Engine is the adapter's name.
	Engine string
	// Commits and Rows count the batches committed and the puts and deletes in
	// them since the store was opened.
	Commits, Rows uint64
	// Replaced counts rows that were added as new and were there, or, if the engine
	// notices no more, the families of batches in which there were such rows. Each costs
	// time, and is a fault of the writer.
	Replaced uint64
	// Exchanges is how often a read has waited for an engine that is remote.
	Exchanges uint64
	// DiskBytes is what the engine occupies on disk, logs included.
	DiskBytes uint64
	// MemoryBytes is what write buffers and block cache hold.
	MemoryBytes uint64
	// CacheHits and CacheMisses count block lookups.
	CacheHits, CacheMisses uint64
	// ReadAmplification is the number of places a lookup may have to visit.
	ReadAmplification int
	// CompactionDebtBytes is the rewriting that still lies ahead of the engine, and
	// Compactions how much of it is under way.
	CompactionDebtBytes uint64
	Compactions         int
	// FlushedBytes and CompactedBytes were written since the store was opened: rows for
	// the first time, and again.
	FlushedBytes, CompactedBytes uint64
}

// After returns the smallest key greater than k: where an ascending scan goes on.
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

// present is a copy of a value as readers return it: never nil.
func present(v []byte) []byte {
	return append(make([]byte, 0, len(v)), v...)
}

// copied is a row of its own, in one allocation.
func copied(k, v []byte) Row {
	buf := make([]byte, len(k)+len(v))
	n := copy(buf, k)
	copy(buf[n:], v)
	return Row{K: buf[:n:n], V: buf[n:]}
}

// slab holds the rows of one read, so that small rows need no allocation each.
type slab []byte

const slabSize = 4 << 10

// row returns a copy of a row.
func (s *slab) row(k, v []byte) Row {
	n := len(k) + len(v)
	if *s == nil || n > cap(*s)-len(*s) {
		if n > slabSize/4 {
			return copied(k, v)
		}
		*s = make([]byte, 0, slabSize)
	}
	at, middle := len(*s), len(*s)+len(k)
	*s = append(append(*s, k...), v...)
	return Row{K: (*s)[at:middle:middle], V: (*s)[middle : at+n : at+n]}
}

// empty says whether no key can lie in lo <= k < hi.
func empty(lo, hi []byte) bool { return hi != nil && bytes.Compare(lo, hi) >= 0 }
