package node

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

// shortcut is implemented by replies that parse a whole response in its usual form faster
// than encoding/json does. readUsual returns false, and leaves the reply unchanged, if the
// response has another form. It does not retain the response.
type shortcut interface{ readUsual(answer []byte) bool }

// containerRange is the result of index.getContainerRange, which makes up most of the bytes
// that the Client fetches.
type containerRange struct {
	indexer.GetContainerRangeResponse

	// usual is set by readUsual, instead of the other fields.
	usual []Container
}

// containers returns the containers, whichever way the reply was parsed.
func (r *containerRange) containers(method string) ([]Container, error) {
	if r.usual != nil {
		return r.usual, nil
	}
	containers := make([]Container, len(r.Containers))
	for i := range r.Containers {
		var err error
		if containers[i], err = decodeContainer(method, &r.Containers[i]); err != nil {
			return nil, err
		}
	}
	return containers, nil
}

var _ shortcut = (*containerRange)(nil)

// readUsual parses containers in the form that avalanchego produces: all fields, each once,
// strings without escapes, bytes in hexadecimal with a checksum.
func (r *containerRange) readUsual(answer []byte) bool {
	s := scanner{rest: answer}
	var containers []Container
	s.object(func(name string) {
		switch name {
		case "jsonrpc":
			s.plain()
		case "id":
			s.number()
		case "result":
			s.object(func(name string) {
				if name != "containers" || containers != nil {
					s.failed = true
					return
				}
				s.array(func() {
					if c := s.container(); !s.failed {
						containers = append(containers, c)
					}
				})
			})
		default:
			s.failed = true
		}
	})
	if s.space(); s.failed || len(s.rest) > 0 || len(containers) == 0 {
		return false
	}
	r.usual = containers
	return true
}

// scanner parses a subset of JSON. Anything else makes it fail.
type scanner struct {
	rest   []byte
	failed bool
}

func (s *scanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// next reports whether b is the next byte, and skips it.
func (s *scanner) next(b byte) bool {
	s.space()
	if s.failed || len(s.rest) == 0 || s.rest[0] != b {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) expect(b byte) {
	if !s.next(b) {
		s.failed = true
	}
}

// object calls member before each member's value. member must read the value.
func (s *scanner) object(member func(name string)) {
	s.expect('{')
	for more := !s.next('}'); more && !s.failed; {
		name := string(s.string())
		s.expect(':')
		if s.failed {
			return
		}
		member(name)
		if more = s.next(','); !more {
			s.expect('}')
		}
	}
}

// array calls element before each element. element must read it.
func (s *scanner) array(element func()) {
	s.expect('[')
	for more := !s.next(']'); more && !s.failed; {
		element()
		if more = s.next(','); !more {
			s.expect(']')
		}
	}
}

// string returns the bytes between two quotes. Callers must reject escapes.
func (s *scanner) string() []byte {
	s.expect('"')
	end := bytes.IndexByte(s.rest, '"')
	if s.failed || end < 0 {
		s.failed = true
		return nil
	}
	text := s.rest[:end]
	s.rest = s.rest[end+1:]
	return text
}

// plain returns a string of printable ASCII without escapes.
func (s *scanner) plain() string {
	text := s.string()
	for _, b := range text {
		if b < ' ' || b > '~' || b == '\\' {
			s.failed = true
		}
	}
	return string(text)
}

// number skips an integer.
func (s *scanner) number() {
	s.space()
	n := 0
	for n < len(s.rest) && '0' <= s.rest[n] && s.rest[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && s.rest[0] == '0' {
		s.failed = true
		return
	}
	s.rest = s.rest[n:]
}

// Fields of a container.
const (
	memberID = 1 << iota
	memberBytes
	memberTimestamp
	memberEncoding
	memberIndex
	allMembers = 1<<iota - 1
)

// container parses one container. Its bytes are of their own, so that a part that is retained does not retain the
// other containers of the response.
func (s *scanner) container() Container {
	var c Container
	seen := 0
	s.object(func(name string) {
		var member int
		var err error
		switch name {
		case "id":
			member = memberID
			c.ID, err = parseID(s.string())
		case "bytes":
			member = memberBytes
			c.Bytes, c.Digest, err = decodeHex(s.string())
		case "timestamp":
			member = memberTimestamp
			err = c.Accepted.UnmarshalText(s.string())
		case "encoding":
			member = memberEncoding
			s.failed = s.failed || s.plain() != "hex"
		case "index":
			member = memberIndex
			c.Index, err = strconv.ParseUint(s.plain(), 10, 64)
		}
		s.failed = s.failed || err != nil || member == 0 || seen&member != 0
		seen |= member
	})
	s.failed = s.failed || seen != allMembers
	c.Accepted = c.Accepted.UTC()
	return c
}

var errHex = errors.New("not bytes in hexadecimal with a checksum")

// decodeHex returns the bytes, at least one, that text encodes in avalanchego's "hex" encoding
// (utils/formatting), and their SHA-256.
func decodeHex(text []byte) (b []byte, digest ids.ID, err error) {
	const checksum = 4
	digits, ok := bytes.CutPrefix(text, []byte("0x"))
	if !ok {
		return nil, ids.Empty, errHex
	}
	b = make([]byte, hex.DecodedLen(len(digits)))
	if _, err = hex.Decode(b, digits); err != nil {
		return nil, ids.Empty, err
	}
	end := len(b) - checksum
	if end <= 0 {
		return nil, ids.Empty, errHex
	}
	digest = hashing.ComputeHash256Array(b[:end])
	if !bytes.Equal(b[end:], digest[len(digest)-checksum:]) {
		return nil, ids.Empty, errHex
	}
	return b[:end:end], digest, nil
}

// base58 lists the digits of avalanchego's encoding of IDs (utils/cb58).
const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// digit returns the value of a digit, or 58 and more for other bytes.
func digit(c byte) uint64 {
	switch {
	case '1' <= c && c <= '9':
		return uint64(c - '1')
	case 'A' <= c && c <= 'H':
		return uint64(c-'A') + 9
	case 'J' <= c && c <= 'N':
		return uint64(c-'J') + 17
	case 'P' <= c && c <= 'Z':
		return uint64(c-'P') + 22
	case 'a' <= c && c <= 'k':
		return uint64(c-'a') + 33
	case 'm' <= c && c <= 'z':
		return uint64(c-'m') + 44
	}
	return uint64(len(base58))
}

var errID = errors.New("not an ID in base 58 with a checksum")

// parseID is ids.FromString for whole IDs. It takes a tenth of the time because it reads
// five digits at a time and needs no big integers.
func parseID(text []byte) (id ids.ID, err error) {
	const (
		words    = ids.IDLen/4 + 1 // the last word is the checksum
		longest  = 50              // digits of that many words
		together = 5               // digits whose value fits in a word
	)
	if len(text) > longest {
		return ids.Empty, errID
	}
	zeros := 0 // each is a zero byte at the beginning
	for zeros < len(text) && text[zeros] == base58[0] {
		zeros++
	}
	var number [words]uint32
	for rest := text[zeros:]; len(rest) > 0; {
		n := min(together, len(rest))
		carry, scale := uint64(0), uint64(1)
		for _, c := range rest[:n] {
			d := digit(c)
			if d >= uint64(len(base58)) {
				return ids.Empty, errID
			}
			carry, scale = carry*uint64(len(base58))+d, scale*uint64(len(base58))
		}
		rest = rest[n:]
		for i := words - 1; i >= 0; i-- {
			carry += uint64(number[i]) * scale
			number[i], carry = uint32(carry), carry>>32
		}
		if carry > 0 {
			return ids.Empty, errID
		}
	}
	var b [4 * words]byte
	for i, word := range number {
		binary.BigEndian.PutUint32(b[4*i:], word)
	}
	copy(id[:], b[:])
	sum := hashing.ComputeHash256Array(id[:])
	leading := 0
	for leading < len(b) && b[leading] == 0 {
		leading++
	}
	if leading != zeros || !bytes.Equal(b[ids.IDLen:], sum[len(sum)-4:]) {
		return ids.Empty, errID
	}
	return id, nil
}
