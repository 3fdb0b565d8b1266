// Package linear reads the output of avalanchego's linear codec (codec/linearcodec) field by field and without
// reflection. It reads only the forms that callers expect. It refuses anything unknown or unusual; the caller must then
// use the library's codec, which decides.
package linear

import (
	"encoding/binary"

	"github.com/ava-labs/avalanchego/ids"
)

// VersionLen is the size of the codec version at the beginning of every encoding. The only version is 0.
const VersionLen = 2

// Reader reads encoded bytes from beginning to end. After a refusal every read returns zero values. Results refer to
// the bytes unless a method states otherwise. A Reader is not safe for concurrent use.
type Reader struct {
	bytes   []byte
	at      int
	refused bool

	// Shared backing memory for short lists.
	addresses []ids.ShortID
	indices   []uint32
}

// NewReader returns a reader of bytes that begin with the codec version.
func NewReader(b []byte) Reader {
	r := Reader{bytes: b}
	if r.Uint16() != 0 {
		r.Refuse()
	}
	return r
}

// Refuse marks the input as unknown and ends reading.
func (r *Reader) Refuse() { r.refused, r.at = true, len(r.bytes) }

// Refused reports whether the input was refused.
func (r *Reader) Refused() bool { return r.refused }

// Complete reports whether all bytes were read without a refusal.
func (r *Reader) Complete() bool { return !r.refused && r.at == len(r.bytes) }

// Offset returns the number of bytes read.
func (r *Reader) Offset() int { return r.at }

// Take reads n bytes. It refuses and returns nil if fewer remain.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.bytes)-r.at {
		r.Refuse()
		return nil
	}
	b := r.bytes[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	b := r.Take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// Uint16 reads two bytes.
func (r *Reader) Uint16() uint16 {
	b := r.Take(2)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

// Uint32 reads four bytes: a number, a list length or a type ID.
func (r *Reader) Uint32() uint32 {
	b := r.Take(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Uint64 reads eight bytes.
func (r *Reader) Uint64() uint64 {
	b := r.Take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// ID reads a 32-byte ID.
func (r *Reader) ID() (id ids.ID) {
	copy(id[:], r.Take(ids.IDLen))
	return id
}

// NodeID reads a node ID.
func (r *Reader) NodeID() (id ids.NodeID) {
	copy(id[:], r.Take(ids.NodeIDLen))
	return id
}

// Fill reads len(to) bytes into to.
func (r *Reader) Fill(to []byte) { copy(to, r.Take(len(to))) }

// Bytes reads a byte slice with its length prefix.
func (r *Reader) Bytes() []byte { return r.Take(int(r.Uint32())) }

// String reads a string with its length prefix. The result does not refer to the bytes.
func (r *Reader) String() string { return string(r.Take(int(r.Uint16()))) }

// Expect refuses any type ID other than typeID.
func (r *Reader) Expect(typeID uint32) {
	if r.Uint32() != typeID {
		r.Refuse()
	}
}

// Count reads a list length and refuses it unless the remaining bytes can hold that many elements of at least the given
// size. The remaining bytes thus bound the memory of the list.
func (r *Reader) Count(least int) int {
	n := int64(r.Uint32())
	if n*int64(least) > int64(len(r.bytes)-r.at) {
		r.Refuse()
		return 0
	}
	return int(n)
}

// grab returns n elements of shared memory.
func grab[T any](shared *[]T, n, chunk int) []T {
	if n == 0 {
		return []T{} // like the codec
	}
	free := *shared
	if n > len(free) {
		free = make([]T, max(n, chunk))
	}
	*shared = free[n:]
	return free[:n:n]
}

// Addresses reads a list of addresses. The result does not refer to the bytes.
func (r *Reader) Addresses() []ids.ShortID {
	all := grab(&r.addresses, r.Count(ids.ShortIDLen), 4)
	for i := range all {
		copy(all[i][:], r.Take(ids.ShortIDLen))
	}
	return all
}

// IDs reads a list of IDs. The result does not refer to the bytes.
func (r *Reader) IDs() []ids.ID {
	all := make([]ids.ID, r.Count(ids.IDLen))
	for i := range all {
		all[i] = r.ID()
	}
	return all
}
