package evm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
)

// jsonScanner reads JSON in one pass and allocates nothing for skipped values. Blocks are mostly long hex strings under
// known names. The first error stops the scan and is kept in err.
type jsonScanner struct {
	b   []byte
	at  int
	err error
}

// maxNesting bounds the nesting of skipped values.
const maxNesting = 64

var errCutShort = errors.New("unexpected end of JSON")

func (s *jsonScanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at byte %d: %w", s.at, fmt.Errorf(format, args...))
	}
}

// peek returns the next non-space byte, or 0 at the end and after an error.
func (s *jsonScanner) peek() byte {
	if s.err != nil {
		return 0
	}
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\n', '\r', '\t':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take consumes the byte want or fails.
func (s *jsonScanner) take(want byte) bool {
	switch got := s.peek(); {
	case s.err != nil:
	case got == 0 && s.at >= len(s.b):
		s.fail("%w", errCutShort)
	case got != want:
		s.fail("found %q, want %q", got, want)
	default:
		s.at++
		return true
	}
	return false
}

// end fails unless only space follows.
func (s *jsonScanner) end() {
	if s.peek(); s.err == nil && s.at < len(s.b) {
		s.fail("data after the end of the JSON value")
	}
}

// object calls field with the name of each field; field must consume the value. Names are passed without unescaping.
func (s *jsonScanner) object(field func(name []byte)) {
	if !s.take('{') {
		return
	}
	if s.peek() == '}' {
		s.at++
		return
	}
	for s.err == nil {
		name := s.text()
		if !s.take(':') {
			return
		}
		field(name)
		if s.peek() == ',' {
			s.at++
			continue
		}
		s.take('}')
		return
	}
}

// array calls element with the index of each element; element must consume the value.
func (s *jsonScanner) array(element func(i int)) {
	if !s.take('[') {
		return
	}
	if s.peek() == ']' {
		s.at++
		return
	}
	for i := 0; s.err == nil; i++ {
		element(i)
		if s.peek() == ',' {
			s.at++
			continue
		}
		s.take(']')
		return
	}
}

// text returns the raw content of a string, without unescaping.
func (s *jsonScanner) text() []byte {
	if !s.take('"') {
		return nil
	}
	for from := s.at; ; {
		n := bytes.IndexByte(s.b[s.at:], '"')
		if n < 0 {
			s.at = len(s.b)
			s.fail("%w", errCutShort)
			return nil
		}
		end := s.at + n
		s.at = end + 1
		slashes := 0
		for end-slashes > from && s.b[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return s.b[from:end]
		}
	}
}

// null consumes a null if it comes next and reports whether it did.
func (s *jsonScanner) null() bool {
	if s.peek() == 'n' && bytes.HasPrefix(s.b[s.at:], []byte("null")) {
		s.at += len("null")
		return true
	}
	return false
}

// skip consumes one value of any type.
func (s *jsonScanner) skip() { s.skipAt(0) }

func (s *jsonScanner) skipAt(depth int) {
	if depth > maxNesting {
		s.fail("nested more than %d deep", maxNesting)
		return
	}
	switch c := s.peek(); {
	case s.err != nil:
	case c == '"':
		s.text()
	case c == '{':
		s.object(func([]byte) { s.skipAt(depth + 1) })
	case c == '[':
		s.array(func(int) { s.skipAt(depth + 1) })
	case c == 't' || c == 'f' || c == 'n' || c == '-' || c >= '0' && c <= '9':
		for s.at < len(s.b) && bytes.IndexByte([]byte("truefalsn+-.0123456789E"), s.b[s.at]) >= 0 {
			s.at++
		}
	case s.at >= len(s.b):
		s.fail("%w", errCutShort)
	default:
		s.fail("unexpected %q at the beginning of a value", c)
	}
}

// digits returns the digits after 0x in a string.
func (s *jsonScanner) digits() []byte {
	text := s.text()
	if s.err == nil && (len(text) < 2 || text[0] != '0' || text[1] != 'x') {
		s.fail("%.40q is not of the form 0x...", text)
	}
	if s.err != nil {
		return nil
	}
	return text[2:]
}

// number reads a hex quantity of at most 64 bits.
func (s *jsonScanner) number() (n uint64) {
	digits := s.digits()
	if s.err != nil {
		return 0
	}
	if len(digits) == 0 || len(digits) > 16 {
		s.fail("number has %d digits, want 1 to 16", len(digits))
		return 0
	}
	for _, c := range digits {
		v := nibble(c)
		if v > 15 {
			s.fail("invalid hex digit %q", c)
			return 0
		}
		n = n<<4 | uint64(v)
	}
	return n
}

// small reads a hex quantity of at most limit.
func (s *jsonScanner) small(limit uint64) uint64 {
	n := s.number()
	if s.err == nil && n > limit {
		s.fail("%d exceeds the limit %d", n, limit)
		return 0
	}
	return n
}

// big reads a hex quantity of at most 256 bits.
func (s *jsonScanner) big() (n uint256.Int) {
	digits := s.digits()
	if s.err != nil {
		return n
	}
	if len(digits) == 0 || len(digits) > 64 {
		s.fail("number has %d digits, want 1 to 64", len(digits))
		return n
	}
	for i := range digits {
		c := digits[len(digits)-1-i]
		v := nibble(c)
		if v > 15 {
			s.fail("invalid hex digit %q", c)
			return uint256.Int{}
		}
		n[i/16] |= uint64(v) << (i % 16 * 4)
	}
	return n
}

// nibble returns the value of a hex digit, or 16 if c is not a hex digit.
func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// fixed reads exactly len(to) bytes of hex.
func (s *jsonScanner) fixed(to []byte) {
	digits := s.digits()
	if s.err != nil {
		return
	}
	if len(digits) != 2*len(to) {
		s.fail("found %d hex digits, want %d", len(digits), 2*len(to))
		return
	}
	if _, err := hex.Decode(to, digits); err != nil {
		s.fail("%w", err)
	}
}

func (s *jsonScanner) hash() (h common.Hash) {
	s.fixed(h[:])
	return h
}

func (s *jsonScanner) address() (a common.Address) {
	s.fixed(a[:])
	return a
}

// data reads hex bytes of any length, or nil if there are none.
func (s *jsonScanner) data() []byte {
	digits := s.digits()
	if s.err != nil || len(digits) == 0 {
		return nil
	}
	b := make([]byte, len(digits)/2)
	if _, err := hex.Decode(b, digits); err != nil {
		s.fail("%w", err)
		return nil
	}
	return b
}

// optional runs read unless the value is null. It reports whether read succeeded.
func (s *jsonScanner) optional(read func()) bool {
	if s.null() {
		return false
	}
	read()
	return s.err == nil
}
