// Package linear reads, field by field and without reflection, what avalanchego's linear
// codec wrote (codec/linearcodec): for whoever knows what comes next, and for what nearly
// all blocks are made of. It is a shortcut and no judge: whatever it does not know or
// finds odd it refuses, and then the library's own codec has to be asked.
package linear

import (
	"encoding/binary"

	"github.com/ava-labs/avalanchego/ids"
)

// VersionLen is the size of the codec's version, which begins whatever was encoded by
// itself. The only version is 0.
const VersionLen = 2

// Reader reads from the beginning of some bytes to their end. Once something was
// refused, all that is read is zero. What it returns refers to the bytes, unless it says
// otherwise. It belongs to one goroutine.
type Reader struct {
	bytes   []byte
	at      int
	refused bool

	// Lists of unknown but small length share their memory.
	addresses []ids.ShortID
	indices   []uint32
}

// NewReader makes a reader of what begins with the codec's version.
func NewReader(b []byte) Reader {
	r := Reader{bytes: b}
	if r.Uint16() != 0 {
		r.Refuse()
	}
	return r
}

// Refuse says that what was read is not known.
func (r *Reader) Refuse() { r.refused, r.at = true, len(r.bytes) }

// Refused tells whether something was.
func (r *Reader) Refused() bool { return r.refused }

// Complete tells whether everything was read, and nothing refused.
func (r *Reader) Complete() bool { return !r.refused && r.at == len(r.bytes) }

// Offset is how many bytes were read.
func (r *Reader) Offset() int { return r.at }

// Take reads n bytes; nil if there are fewer.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.bytes)-r.at {
		r.Refuse()
		return nil
	}
	b := r.bytes[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

// Byte reads one.
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

// Uint32 reads four bytes: a number, the length of a list or the ID of a type.
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

// ID reads one.
func (r *Reader) ID() (id ids.ID) {
	copy(id[:], r.Take(ids.IDLen))
	return id
}

// NodeID reads one.
func (r *Reader) NodeID() (id ids.NodeID) {
	copy(id[:], r.Take(ids.NodeIDLen))
	return id
}

// Fill reads as many bytes as there is room for.
func (r *Reader) Fill(to []byte) { copy(to, r.Take(len(to))) }

// Bytes reads some with their length before them.
func (r *Reader) Bytes() []byte { return r.Take(int(r.Uint32())) }

// String reads one with its length before it. It does not refer to the bytes.
func (r *Reader) String() string { return string(r.Take(int(r.Uint16()))) }

// Expect refuses any type but one.
func (r *Reader) Expect(typeID uint32) {
	if r.Uint32() != typeID {
		r.Refuse()
	}
}

// Count reads the length of a list whose elements have some bytes each at least, which
// must be there: what is made for them is bounded by the bytes.
func (r *Reader) Count(least int) int {
	n := int64(r.Uint32())
	if n*int64(least) > int64(len(r.bytes)-r.at) {
		r.Refuse()
		return 0
	}
	return int(n)
}

// grab takes n elements of memory that is shared with others.
func grab[T any](shared *[]T, n, chunk int) []T {
	if n == 0 {
		return []T{} // as the codec does
	}
	free := *shared
	if n > len(free) {
		free = make([]T, max(n, chunk))
	}
	*shared = free[n:]
	return free[:n:n]
}

// Addresses reads a list of them, which does not refer to the bytes.
func (r *Reader) Addresses() []ids.ShortID {
	all := grab(&r.addresses, r.Count(ids.ShortIDLen), 4)
	for i := range all {
		copy(all[i][:], r.Take(ids.ShortIDLen))
	}
	return all
}

// IDs reads a list of them, which does not refer to the bytes.
func (r *Reader) IDs() []ids.ID {
	all := make([]ids.ID, r.Count(ids.IDLen))
	for i := range all {
		all[i] = r.ID()
	}
	return all
}
