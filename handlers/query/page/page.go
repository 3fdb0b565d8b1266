// Package page makes the tokens by which clients ask for the next page of a list. A token
// contains where the previous page ended, a digest of the list's parameters, and a message
// authentication code, so that any replica can answer without stored state and accepts only
// positions that a replica has given out.
package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrToken reports that a text is not a token or is damaged.
	ErrToken = errors.New("not a page token")
	// ErrOtherList reports that a token belongs to another operation, or to other parameters of the same operation.
	ErrOtherList = errors.New("page token of another request")
)

const (
	// version is the version of the token's format.
	version = 2
	// maxToken is the maximum length of a token's text.
	maxToken = 8192

	digestSize = 12
	macSize    = 16
)

// KeyRow is the partition of the row of a shared store that has the key of tokens.
const KeyRow = "page_key"

// List identifies a list. Tokens are valid for lists with the same operation and filters.
type List struct {
	// Key authenticates tokens. All replicas of a service need the same one.
	Key []byte
	// Operation is the name of the operation.
	Operation string
	// Filters are all parameters that determine the list, including those of the path but not the page size, in a
	// fixed order.
	Filters []string
}

// KeyOr returns key, or a random key if it is empty. Tokens of a random key are valid until the process ends.
func KeyOr(key []byte) []byte {
	if len(key) == 0 {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
	}
	return key
}

// digest returns a hash of the list's parameters.
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

// Token returns a URL-safe text for the position at which the list continues. Each list encodes positions in its own
// format.
func (l List) Token(position []byte) string {
	b := append([]byte{version}, l.digest()...)
	b = append(b, position...)
	return base64.RawURLEncoding.EncodeToString(append(b, l.mac(b)...))
}

// Position returns the position that Token was given. Its errors are ErrToken and
// ErrOtherList.
func (l List) Position(token string) ([]byte, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("%w: it has %d characters", ErrToken, len(token))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if strings.ContainsAny(token, "\r\n") { // which the decoder ignores
		return nil, fmt.Errorf("%w: it has line breaks", ErrToken)
	}
	if len(b) < 1+digestSize+macSize {
		return nil, fmt.Errorf("%w: it is too short", ErrToken)
	}
	body, mac := b[:len(b)-macSize], b[len(b)-macSize:]
	switch {
	case !hmac.Equal(l.mac(body), mac):
		return nil, fmt.Errorf("%w: it is damaged, or made elsewhere", ErrToken)
	case body[0] != version:
		return nil, fmt.Errorf("%w: it is of version %d", ErrToken, body[0])
	case string(body[1:1+digestSize]) != string(l.digest()):
		return nil, ErrOtherList
	}
	return body[1+digestSize:], nil
}

// mac returns the message authentication code of a token's other bytes.
func (l List) mac(b []byte) []byte {
	h := hmac.New(sha256.New, l.Key)
	h.Write([]byte("page token"))
	h.Write(b)
	return h.Sum(nil)[:macSize]
}
