package index

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/ava-labs/avalanchego/ids"
)

const (
	alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	// Numbers are taken apart into groups of digits that fit 64 bits.
	groupDigits = 10
	groupValue  = 430804206899405824 // 58^10
	groups      = 5                  // 58^50 is more than 2^288
	limbs       = 5                  // of 64 bits, for an ID and its checksum
)

// appendID writes an ID as ids.ID.String does (cb58: base 58 of the ID and the last 4
// bytes of its hash), in a fifth of the time.
func appendID(to []byte, id ids.ID) []byte {
	var checked [8 * limbs]byte
	tail := checked[len(checked)-ids.IDLen-4:]
	hash := sha256.Sum256(id[:])
	copy(tail[copy(tail, id[:]):], hash[len(hash)-4:])
	for _, b := range tail {
		if b != 0 {
			break
		}
		to = append(to, alphabet[0])
	}
	var number [limbs]uint64
	for i := range number {
		number[i] = binary.BigEndian.Uint64(checked[8*i:])
	}
	var digits [groups * groupDigits]byte
	for end := len(digits); end > 0; end -= groupDigits {
		var rest uint64
		for i := range number {
			number[i], rest = bits.Div64(rest, number[i], groupValue)
		}
		for d := end - 1; d >= end-groupDigits; d-- {
			digits[d] = alphabet[rest%58]
			rest /= 58
		}
	}
	text := digits[:]
	for len(text) > 0 && text[0] == alphabet[0] {
		text = text[1:]
	}
	return append(to, text...)
}
