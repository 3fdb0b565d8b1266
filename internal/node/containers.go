package node

import (
	"bytes"
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

// longestID bounds the text of a container's ID, which has at most 50 digits.
const longestID = 64

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
			if text := s.string(); len(text) <= longestID { // the library takes quadratic time
				c.ID, err = ids.FromString(string(text))
			} else {
				s.failed = true
			}
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
