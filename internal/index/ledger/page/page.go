// Package page makes the tokens by which clients ask for the next page of a list:
// where the page before ended and what the list was of. A token says everything
// itself, so that nothing is kept for it and any replica may answer.
package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	// ErrToken says that a token is none of ours, or damaged.
	ErrToken = errors.New("not a page token")
	// ErrOtherList says that a token belongs to another operation, or to the same
	// with other parameters.
	ErrOtherList = errors.New("page token of another request")
)

const (
	// version is that of the tokens' form.
	version = 1
	// maxToken is the greatest length of a token's text: of longer ones nothing is
	// decoded.
	maxToken = 8192

	digestSize = 12
	sumSize    = 4
)

// List names what is paged through: the same names and filters give tokens that fit
// one another.
type List struct {
	// Operation is the name of the operation.
	Operation string
	// Filters are all parameters that the list depends on, path included, in a fixed
	// order; page size is none.
	Filters []string
}

// digest is of fixed size whatever the filters are.
func (l List) digest() []byte {
	h := sha256.New()
	for _, part := range append([]string{l.Operation}, l.Filters...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)[:digestSize]
}

// Token is the text by which the list goes on at a position, whose form is its
// list's own: URL-safe, and opaque to clients.
func (l List) Token(position []byte) string {
	b := append([]byte{version}, l.digest()...)
	b = append(b, position...)
	return base64.RawURLEncoding.EncodeToString(append(b, checksum(b)...))
}

// Position is what Token was given. Errors are ErrToken and ErrOtherList.
func (l List) Position(token string) ([]byte, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("%w: it has %d characters", ErrToken, len(token))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if len(b) < 1+digestSize+sumSize {
		return nil, fmt.Errorf("%w: it is too short", ErrToken)
	}
	body, sum := b[:len(b)-sumSize], b[len(b)-sumSize:]
	switch {
	case string(checksum(body)) != string(sum):
		return nil, fmt.Errorf("%w: it is damaged", ErrToken)
	case body[0] != version:
		return nil, fmt.Errorf("%w: it is of version %d", ErrToken, body[0])
	case string(body[1:1+digestSize]) != string(l.digest()):
		return nil, ErrOtherList
	}
	return body[1+digestSize:], nil
}

// checksum tells damage; it is no seal, as a position is nothing that a client could
// not have asked for otherwise.
func checksum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:sumSize]
}
