package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
)

// A row's key in Pebble is the family's number, p escaped, a zero byte, and k as
// it is. Escaping rids p of zero bytes and keeps its order: 00 becomes 01 01, and
// 01 becomes 01 02. So plain byte order is the order of (family, p, k), and the
// first zero byte of any key ends the prefix of its partition, which is what
// bloom filters are made of.
const (
	end    = 0x00
	escape = 0x01
)

// prefixLen returns the length of the encoded family and p.
func prefixLen(p []byte) int {
	return 1 + len(p) + bytes.Count(p, []byte{end}) + bytes.Count(p, []byte{escape}) + 1
}

// appendPrefix appends the prefix that all keys of a partition share.
func appendPrefix(dst []byte, family Family, p []byte) []byte {
	dst = append(dst, byte(family))
	for _, b := range p {
		if b <= escape {
			dst = append(dst, escape)
			b++
		}
		dst = append(dst, b)
	}
	return append(dst, end)
}

func encodeKey(family Family, p, k []byte) []byte {
	key := make([]byte, 0, prefixLen(p)+len(k))
	return append(appendPrefix(key, family, p), k...)
}

// endOf changes the prefix of a partition in place to the smallest key after all keys of the partition.
func endOf(prefix []byte) []byte {
	prefix[len(prefix)-1] = end + 1
	return prefix
}

// splitKey returns the length of the prefix of an encoded key. A key without a complete prefix, such as a shortened separator
// between blocks, counts as a whole.
func splitKey(key []byte) int {
	if i := bytes.IndexByte(key, end); i >= 0 {
		return i + 1
	}
	return len(key)
}

// decodeKey is the inverse of encodeKey; p and k are fresh slices.
func decodeKey(key []byte) (pk PK, ok bool) {
	n := bytes.IndexByte(key, end)
	if n < 1 {
		return PK{}, false
	}
	p := make([]byte, 0, n-1)
	for rest := key[1:n]; ; {
		i := bytes.IndexByte(rest, escape)
		if i < 0 {
			return PK{P: append(p, rest...), K: present(key[n+1:])}, true
		}
		if i+1 == len(rest) || rest[i+1] > escape+1 {
			return PK{}, false
		}
		p = append(append(p, rest[:i]...), rest[i+1]-1)
		rest = rest[i+2:]
	}
}

// ParseKey decodes a row's key as the embedded engine stores it. It returns false for other keys and unknown families. The
// result does not share memory with key.
func ParseKey(key []byte) (family Family, pk PK, ok bool) {
	if len(key) == 0 || Family(key[0]).check() != nil {
		return 0, PK{}, false
	}
	pk, ok = decodeKey(key)
	return Family(key[0]), pk, ok && pk.check() == nil
}

// comparer orders keys bytewise and tells Pebble where the partition ends. Its
// name is on disk: another order or split needs another name.
func comparer() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "quorate.family-partition-key.1"
	c.Split = splitKey
	c.ImmediateSuccessor = func(dst, prefix []byte) []byte {
		dst = append(dst, prefix...)
		endOf(dst)
		return dst
	}
	return &c
}
