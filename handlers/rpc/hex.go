package rpc

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
)

// AppendHex appends b in one of the forms of hex (avalanchego, package
// utils/formatting): all but formatting.HexNC end with the last 4 bytes of hash, the
// SHA-256 of b, which is not asked for otherwise.
func AppendHex(to []byte, e formatting.Encoding, b []byte, hash func() ids.ID) []byte {
	to = appendDigits(append(to, "0x"...), b)
	if e == formatting.HexNC {
		return to
	}
	digest := hash()
	return hex.AppendEncode(to, digest[len(digest)-4:])
}

// appendDigits does as hex.AppendEncode, four bytes at a time, in a fraction of the time.
func appendDigits(to, b []byte) []byte {
	to = slices.Grow(to, 2*len(b))
	n := len(to)
	to = to[:n+2*len(b)]
	for ; len(b) >= 4; b, n = b[4:], n+8 {
		binary.BigEndian.PutUint64(to[n:], digits(binary.BigEndian.Uint32(b)))
	}
	hex.Encode(to[n:], b)
	return to
}

// digits are the eight hexadecimal digits of a number as ASCII.
func digits(number uint32) uint64 {
	const each = 0x0101010101010101
	// Each of the eight half bytes gets a byte of its own.
	x := uint64(number)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	// Those above 9 carry into the upper half when 6 is added.
	letters := (x + 6*each) >> 4 & each
	return x + '0'*each + letters*('a'-'0'-10)
}
