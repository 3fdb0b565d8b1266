package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/ava-labs/avalanchego/ids"
)

// Lists are ordered by the cb58 text of IDs (avalanchego utils/cb58): base 58 of the ID and 4 bytes of its hash, with a
// leading 1 for each leading zero byte. The texts differ in length, so their order is not the byte order of the IDs.
// Keys contain packed texts: each character is its 1-based position in the alphabet in 6 bits. The alphabet is in ASCII
// order, so packed texts sort like the texts.

const (
	checkedLen = ids.IDLen + 4
	// Numbers are split into groups of digits that fit in 64 bits.
	groupDigits = 10
	groupValue  = 430804206899405824 // 58^10
	groupsOf    = 5                  // 58^50 is more than 2^288
	limbsOf     = 5                  // 64-bit limbs for 288 bits
)

// packID returns the packed text of an ID.
func packID(id ids.ID) []byte {
	var checked [8 * limbsOf]byte
	tail := checked[8*limbsOf-checkedLen:]
	hash := sha256.Sum256(id[:])
	copy(tail[copy(tail, id[:]):], hash[len(hash)-4:])
	zeros := 0
	for zeros < len(tail) && tail[zeros] == 0 {
		zeros++
	}
	var limbs [limbsOf]uint64
	for i := range limbs {
		limbs[i] = binary.BigEndian.Uint64(checked[8*i:])
	}
	var digits [groupsOf * groupDigits]byte
	for g := groupsOf - 1; g >= 0; g-- {
		var rest uint64
		for i := range limbs {
			limbs[i], rest = bits.Div64(rest, limbs[i], groupValue)
		}
		for d := groupDigits - 1; d >= 0; d-- {
			digits[g*groupDigits+d] = byte(rest % 58)
			rest /= 58
		}
	}
	text := digits[:]
	for len(text) > 0 && text[0] == 0 {
		text = text[1:]
	}
	packed := make([]byte, 0, ((zeros+len(text))*6+7)/8)
	var held uint32
	n := 0
	put := func(digit byte) {
		held, n = held<<6|uint32(digit+1), n+6
		if n >= 8 {
			n -= 8
			packed = append(packed, byte(held>>n))
		}
	}
	for range zeros {
		put(0)
	}
	for _, d := range text {
		put(d)
	}
	if n > 0 {
		packed = append(packed, byte(held<<(8-n)))
	}
	return packed
}

var errPacked = errors.New("invalid packed ID")

// unpackID returns the ID of a packed text.
func unpackID(packed []byte) (id ids.ID, err error) {
	var text [checkedLen + groupsOf*groupDigits]byte
	length, ended := 0, false
	var held uint32
	n := 0
	for _, b := range packed {
		held, n = held<<8|uint32(b), n+8
		for ; n >= 6; n -= 6 {
			digit := byte(held >> (n - 6) & 63)
			switch {
			case digit == 0:
				ended = true
				continue
			case ended || digit > 58 || length == len(text):
				return ids.Empty, errPacked
			}
			text[length] = digit - 1
			length++
		}
	}
	if held&(1<<n-1) != 0 || len(packed) != (length*6+7)/8 {
		return ids.Empty, errPacked
	}
	zeros := 0
	for zeros < length && text[zeros] == 0 {
		zeros++
	}
	var limbs [limbsOf]uint64
	for rest := text[zeros:length]; len(rest) > 0; {
		group := rest[:(len(rest)-1)%groupDigits+1]
		rest = rest[len(group):]
		var add uint64
		for _, d := range group {
			add = add*58 + uint64(d)
		}
		for i := limbsOf - 1; i >= 0; i-- {
			hi, lo := bits.Mul64(limbs[i], groupValue)
			var carry uint64
			limbs[i], carry = bits.Add64(lo, add, 0)
			add = hi + carry
		}
		if add != 0 {
			return ids.Empty, errPacked
		}
	}
	var checked [8 * limbsOf]byte
	for i, limb := range limbs {
		binary.BigEndian.PutUint64(checked[8*i:], limb)
	}
	lead, leading := len(checked)-checkedLen, 0
	for leading < len(checked) && checked[leading] == 0 {
		leading++
	}
	if leading != lead+zeros {
		return ids.Empty, errPacked
	}
	id = ids.ID(checked[lead:][:ids.IDLen])
	if hash := sha256.Sum256(id[:]); string(hash[len(hash)-4:]) != string(checked[lead+ids.IDLen:]) {
		return ids.Empty, errPacked
	}
	return id, nil
}
