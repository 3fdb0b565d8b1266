package rpc

import "bytes"

// plainCall is a call in the form that nearly all clients write it in. Its members are
// parts of the body, as they stand there.
type plainCall struct {
	method []byte
	params []byte // nil if there are none
	id     []byte
}

// readCall reads a call of the plainest form: an object with the members of a call, each
// at most once and named without escapes, with an ID that is a short integer or text.
// All else is false, valid or not, and for encoding/json to judge. Of params only the
// end is found, which is where encoding/json finds it if they are valid.
func readCall(body []byte) (c plainCall, ok bool) {
	s := scanner{rest: body}
	var version bool
	if !s.token('{') {
		return c, false
	}
	for first := true; ; first = false {
		if s.token('}') {
			break
		}
		if !first && !s.token(',') {
			return c, false
		}
		name, named := s.text()
		if !named || !s.token(':') {
			return c, false
		}
		s.space()
		switch string(name) {
		case "jsonrpc":
			value, ok := s.text()
			if !ok || version || string(value) != "2.0" {
				return c, false
			}
			version = true
		case "method":
			value, ok := s.text()
			if !ok || c.method != nil {
				return c, false
			}
			c.method = value
		case "id":
			value, ok := s.id()
			if !ok || c.id != nil {
				return c, false
			}
			c.id = value
		case "params":
			value, ok := s.structure()
			if !ok || c.params != nil {
				return c, false
			}
			c.params = value
		default:
			return c, false
		}
	}
	s.space()
	return c, version && c.method != nil && c.id != nil && len(s.rest) == 0
}

// scanner takes JSON apart from its beginning.
type scanner struct{ rest []byte }

func (s *scanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// token takes what comes next, if it is b.
func (s *scanner) token(b byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != b {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// text takes a string that means what it is written as, and is written back so.
func (s *scanner) text() ([]byte, bool) {
	if !s.token('"') {
		return nil, false
	}
	end := bytes.IndexByte(s.rest, '"')
	if end < 0 {
		return nil, false
	}
	text := s.rest[:end]
	for _, b := range text {
		if b < ' ' || b >= 0x7f || b == '\\' || b == '<' || b == '>' || b == '&' {
			return nil, false
		}
	}
	s.rest = s.rest[end+1:]
	return text, true
}

// id takes a text with its quotes, or an integer.
func (s *scanner) id() ([]byte, bool) {
	from := s.rest
	if len(from) > 0 && from[0] == '"' {
		_, ok := s.text()
		return from[:len(from)-len(s.rest)], ok
	}
	n := 0
	if n < len(from) && from[n] == '-' {
		n++
	}
	digits := n
	for n < len(from) && from[n] >= '0' && from[n] <= '9' {
		n++
	}
	if n == digits || n > digits+1 && from[digits] == '0' || n == len(from) || from[n] != ',' && from[n] != '}' {
		return nil, false
	}
	s.rest = from[n:]
	return from[:n], true
}

// mostNested is how deep params may be for structure to find their end.
const mostNested = 16

// structure takes an object or an array.
func (s *scanner) structure() ([]byte, bool) {
	depth, quoted := 0, false
	for i := 0; i < len(s.rest); i++ {
		b := s.rest[i]
		switch {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > mostNested {
				return nil, false
			}
		case b == '}' || b == ']':
			if depth--; depth == 0 {
				value := s.rest[:i+1]
				s.rest = s.rest[i+1:]
				return value, true
			}
		}
		if depth == 0 { // neither an object nor an array
			return nil, false
		}
	}
	return nil, false
}
