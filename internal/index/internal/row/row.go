// Package row writes and reads the values and keys of rows of records: numbers are
// uvarints, IDs 32 bytes, byte strings come after their length, and a value begins
// with a version.
package row

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/store"
)

// Version is the first byte of every value.
const Version = 1

// Writer appends to a value. Begin one with New.
type Writer struct{ B []byte }

// New begins a value, with room for size bytes.
func New(size int) Writer { return Writer{B: append(make([]byte, 0, size), Version)} }

// Byte appends one byte.
func (w *Writer) Byte(b byte) { w.B = append(w.B, b) }

// Number appends a number.
func (w *Writer) Number(n uint64) { w.B = binary.AppendUvarint(w.B, n) }

// Bytes appends a byte string.
func (w *Writer) Bytes(b []byte) {
	w.Number(uint64(len(b)))
	w.B = append(w.B, b...)
}

// ID appends an ID.
func (w *Writer) ID(id ids.ID) { w.B = append(w.B, id[:]...) }

// ChainID appends an ID that often is the P-Chain's, which is all zeros.
func (w *Writer) ChainID(id ids.ID) {
	if id == ids.Empty {
		w.Byte(0)
		return
	}
	w.Byte(1)
	w.ID(id)
}

// IDs appends a list.
func (w *Writer) IDs(list []ids.ID) {
	w.Number(uint64(len(list)))
	for _, id := range list {
		w.ID(id)
	}
}

// Addresses appends a list.
func (w *Writer) Addresses(list []ids.ShortID) {
	w.Number(uint64(len(list)))
	for _, a := range list {
		w.B = append(w.B, a[:]...)
	}
}

// Time appends a time, to the second; none is before 1970.
func (w *Writer) Time(t time.Time) { w.Number(Seconds(t)) }

// Bool appends a truth value.
func (w *Writer) Bool(v bool) {
	if v {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// shortIDLen is how much of an ID, which is a SHA-256, is part of a key, in bytes. No two
// existing IDs begin alike, but anyone can ask for an ID that begins like an existing one.
const shortIDLen = 20

// ShortID appends the beginning of an ID to a key. Whoever finds a row by it must compare
// the whole ID with that of what the row leads to.
func ShortID(key []byte, id ids.ID) []byte { return append(key, id[:shortIDLen]...) }

// Seconds is a time in Unix seconds, 0 for all before 1970 and the zero time.
func Seconds(t time.Time) uint64 { return uint64(max(0, t.Unix())) }

// Reader takes a value apart. After the first error it reads zeroes. What it
// returns refers to the value. Begin one with Read, or with Begin where it is part of
// another reader.
type Reader struct {
	rest []byte
	err  error
}

// Read begins with the version of a value.
func Read(v []byte) *Reader {
	r := new(Reader)
	r.Begin(v)
	return r
}

// Begin makes r read a value, whose version is the first that it reads.
func (r *Reader) Begin(v []byte) {
	r.rest, r.err = v, nil
	if got := r.Byte(); got != Version {
		r.Fail(fmt.Errorf("version %d", got))
	}
}

var errShort = errors.New("it ends early")

// Fail notes an error, which is store.ErrCorrupt from then on.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: row that cannot be read: %w", store.ErrCorrupt, err)
	}
	r.rest = nil
}

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// End is the first error, and one if anything is left.
func (r *Reader) End() error {
	if r.err == nil && len(r.rest) > 0 {
		r.Fail(fmt.Errorf("%d bytes too many", len(r.rest)))
	}
	return r.err
}

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.rest) }

// Take reads n bytes.
func (r *Reader) Take(n int) []byte {
	if n > len(r.rest) {
		r.Fail(errShort)
		return nil
	}
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if part := r.Take(1); part != nil {
		return part[0]
	}
	return 0
}

// Number reads a number.
func (r *Reader) Number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.Fail(errShort)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Uint32 reads a number below 2^32.
func (r *Reader) Uint32() uint32 {
	n := r.Number()
	if n > math.MaxUint32 {
		r.Fail(fmt.Errorf("number %d", n))
		return 0
	}
	return uint32(n)
}

// Bytes reads a byte string; an empty one is nil.
func (r *Reader) Bytes() []byte {
	n := r.Number()
	if n > uint64(len(r.rest)) {
		r.Fail(errShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	return r.Take(int(n))
}

// ID reads an ID.
func (r *Reader) ID() (id ids.ID) {
	copy(id[:], r.Take(len(id)))
	return id
}

// ChainID reads what Writer.ChainID wrote.
func (r *Reader) ChainID() ids.ID {
	switch b := r.Byte(); b {
	case 0:
		return ids.Empty
	case 1:
		return r.ID()
	default:
		r.Fail(fmt.Errorf("chain of form %d", b))
		return ids.Empty
	}
}

// IDs reads a list; an empty one is nil.
func (r *Reader) IDs() []ids.ID {
	n := r.count(ids.IDLen)
	if n == 0 {
		return nil
	}
	list := make([]ids.ID, n)
	for i := range list {
		list[i] = r.ID()
	}
	return list
}

// Addresses reads a list; an empty one is nil.
func (r *Reader) Addresses() []ids.ShortID {
	n := r.count(ids.ShortIDLen)
	if n == 0 {
		return nil
	}
	list := make([]ids.ShortID, n)
	for i := range list {
		copy(list[i][:], r.Take(ids.ShortIDLen))
	}
	return list
}

// count reads how many things of a size follow, and no more than there is room for.
func (r *Reader) count(size int) int {
	n := r.Number()
	if n > uint64(len(r.rest)/size) {
		r.Fail(errShort)
		return 0
	}
	return int(n)
}

// Time reads a time.
func (r *Reader) Time() time.Time { return Unix(r.Number()) }

// Unix is the time of Unix seconds, the zero time for 0.
func Unix(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(min(seconds, math.MaxInt64)), 0).UTC()
}

// Bool reads a truth value.
func (r *Reader) Bool() bool {
	switch b := r.Byte(); b {
	case 0:
		return false
	case 1:
		return true
	default:
		r.Fail(fmt.Errorf("truth value %d", b))
		return false
	}
}

// Network is the key of what belongs to a network, followed by more.
func Network(networkID uint32, parts ...[]byte) []byte {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], networkID)
	return join(head[:], parts)
}

// Uint64 is a number as a part of a key, and more after it.
func Uint64(n uint64, parts ...[]byte) []byte {
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], n)
	return join(head[:], parts)
}

// join allocates once.
func join(head []byte, parts [][]byte) []byte {
	n := len(head)
	for _, part := range parts {
		n += len(part)
	}
	b := append(make([]byte, 0, n), head...)
	for _, part := range parts {
		b = append(b, part...)
	}
	return b
}
