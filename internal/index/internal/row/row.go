// Package row encodes and decodes the keys and values of index rows. Numbers are uvarints, IDs are 32 bytes, byte
// strings are prefixed with their length, and a value begins with a version.
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

// Writer appends to a value. Create one with New.
type Writer struct{ B []byte }

// New returns a Writer with capacity for size bytes.
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

// ChainID appends an ID. It encodes the P-Chain's ID, which is all zeros, in one byte.
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

// Time appends a time in whole seconds. Times before 1970 become 0.
func (w *Writer) Time(t time.Time) { w.Number(Seconds(t)) }

// Bool appends a boolean.
func (w *Writer) Bool(v bool) {
	if v {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// shortIDLen is the number of bytes of an ID in a key. IDs are SHA-256 hashes. No two existing IDs share this prefix,
// but a client can request an ID that shares it.
const shortIDLen = 20

// ShortID appends the first bytes of an ID to a key. A reader must compare the whole ID with the ID in the row's
// target.
func ShortID(key []byte, id ids.ID) []byte { return append(key, id[:shortIDLen]...) }

// Seconds returns t in Unix seconds, or 0 for times before 1970 and the zero time.
func Seconds(t time.Time) uint64 { return uint64(max(0, t.Unix())) }

// Reader decodes a value. After the first error it returns zeros. Its results alias the value. Create one with Read, or
// call Begin on an embedded Reader.
type Reader struct {
	rest []byte
	err  error
}

// Read returns a Reader of v and reads its version.
func Read(v []byte) *Reader {
	r := new(Reader)
	r.Begin(v)
	return r
}

// Begin makes r read v, starting with its version.
func (r *Reader) Begin(v []byte) {
	r.rest, r.err = v, nil
	if got := r.Byte(); got != Version {
		r.Fail(fmt.Errorf("version %d", got))
	}
}

var errShort = errors.New("it ends early")

// Fail sets the error, wrapped in store.ErrCorrupt, unless one is set.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: row that cannot be read: %w", store.ErrCorrupt, err)
	}
	r.rest = nil
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// End returns the first error, or an error if bytes are left.
func (r *Reader) End() error {
	if r.err == nil && len(r.rest) > 0 {
		r.Fail(fmt.Errorf("%d bytes too many", len(r.rest)))
	}
	return r.err
}

// Len returns the number of bytes left.
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

// Bytes reads a byte string. It returns nil for an empty one.
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

// IDs reads a list. It returns nil for an empty one.
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

// Addresses reads a list. It returns nil for an empty one.
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

// count reads the number of elements that follow, and fails if the value is too short for them.
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

// Unix returns the time of Unix seconds, or the zero time for 0.
func Unix(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(min(seconds, math.MaxInt64)), 0).UTC()
}

// Bool reads a boolean.
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

// Network returns a key that consists of a network ID and parts.
func Network(networkID uint32, parts ...[]byte) []byte {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], networkID)
	return join(head[:], parts)
}

// Uint64 returns a key that consists of a number and parts.
func Uint64(n uint64, parts ...[]byte) []byte {
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], n)
	return join(head[:], parts)
}

// join concatenates head and parts in one allocation.
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
