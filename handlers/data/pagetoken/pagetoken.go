// Package pagetoken makes the tokens that carry a reader from one page of a list
// to the next. A token says which list it belongs to and where in it the next page
// begins; it needs no memory of the service and no secret, for it opens nothing
// that the same request without it would not.
package pagetoken

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

var (
	// ErrMalformed says that a token is none of this service's, or was changed on
	// its way.
	ErrMalformed = errors.New("not a page token of this service")
	// ErrOtherList says that a token belongs to another operation, or to other
	// parameters of this one.
	ErrOtherList = errors.New("page token of another list")
)

// List names a list: the operation and everything that decides which items it has
// and in which order.
type List [16]byte

// NewList is the list of an operation with parameters in a fixed order, each of
// them in one spelling only.
func NewList(operation string, parameters ...string) (l List) {
	h := sha256.New()
	for _, p := range append([]string{operation}, parameters...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	copy(l[:], h.Sum(nil))
	return l
}

// A token is base64url without padding of version, list, position and checksum.
const (
	version     = 1
	overhead    = 1 + len(List{}) + crc32.Size
	maxPosition = 1024 // bytes
)

// Encode makes the token of a position, which must not be longer than 1 KiB.
func (l List) Encode(position []byte) (string, error) {
	if len(position) > maxPosition {
		return "", errors.New("position is too long for a page token")
	}
	b := make([]byte, 0, overhead+len(position))
	b = append(b, version)
	b = append(b, l[:]...)
	b = append(b, position...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// Decode returns the position of a token of this list. A sound position may still
// be one that nobody handed out. Errors are ErrMalformed and ErrOtherList.
func (l List) Decode(token string) (position []byte, err error) {
	if len(token) > base64.RawURLEncoding.EncodedLen(overhead+maxPosition) || strings.ContainsAny(token, "\r\n") {
		return nil, ErrMalformed // the decoder would skip line ends
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < overhead || b[0] != version {
		return nil, ErrMalformed
	}
	content, sum := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	if crc32.ChecksumIEEE(content) != binary.BigEndian.Uint32(sum) {
		return nil, ErrMalformed
	}
	if List(content[1:][:len(l)]) != l {
		return nil, ErrOtherList
	}
	return content[1+len(l):], nil
}
