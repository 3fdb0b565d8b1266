package metrics

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// lifetime is how long a page token is valid.
const lifetime = 24 * time.Hour

// tokens creates page tokens. They are UUIDs of version 8 (RFC 9562) and contain the whole position, so that the
// service stores none:
//
//	octets 0-3   expiry, in Unix seconds
//	octets 4-5   the last day of the previous page, in days since 1970
//	octets 6-15  a seal of these and the chain, without the bits of version
//	             and variant: 74 bits of HMAC-SHA-256
type tokens struct{ key []byte }

const (
	sealedSize  = 6
	versionBits = 8 << 4
	variantBits = 2 << 6
)

var (
	errMalformed = errors.New("is no token of this series; send one as it was received, or none for the first page")
	errExpired   = errors.New("has expired, as tokens do after 24 hours; begin with the first page again")
)

// seal returns the token of the page after a day, which is identified by its first second.
func (t tokens) seal(day int64, chain ids.ID, now time.Time) (string, error) {
	number := day / secondsPerDay
	if number < 0 || number > 1<<16-1 {
		return "", fmt.Errorf("day %d has no token", day)
	}
	var id uuid
	binary.BigEndian.PutUint32(id[:], uint32(now.Add(lifetime).Unix()))
	binary.BigEndian.PutUint16(id[4:], uint16(number))
	t.sign(&id, chain)
	return id.String(), nil
}

// open returns the day of a token. Its error continues a sentence that begins with the token.
func (t tokens) open(token string, chain ids.ID, now time.Time) (day int64, err error) {
	id, ok := parse(token)
	if !ok {
		return 0, errMalformed
	}
	signed := id
	t.sign(&signed, chain)
	if !hmac.Equal(id[:], signed[:]) {
		return 0, errMalformed
	}
	if now.Unix() >= int64(binary.BigEndian.Uint32(id[:])) {
		return 0, errExpired
	}
	return int64(binary.BigEndian.Uint16(id[4:])) * secondsPerDay, nil
}

// sign sets all bits after the sealed octets.
func (t tokens) sign(id *uuid, chain ids.ID) {
	mac := hmac.New(sha256.New, t.key)
	mac.Write(chain[:])
	mac.Write(id[:sealedSize])
	copy(id[sealedSize:], mac.Sum(nil))
	id[6] = versionBits | id[6]&0x0f
	id[8] = variantBits | id[8]&0x3f
}

// uuid holds the octets of a UUID.
type uuid [16]byte

func (u uuid) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// parse parses a UUID in the usual form, in either case.
func parse(text string) (u uuid, ok bool) {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(form) {
		return u, false
	}
	digits := make([]byte, 0, 2*len(u))
	for i := range form {
		switch {
		case form[i] == 'x':
			digits = append(digits, text[i])
		case text[i] != '-':
			return u, false
		}
	}
	_, err := hex.Decode(u[:], digits)
	return u, err == nil
}
