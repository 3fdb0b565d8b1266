package direct

import (
	"net/http"
	"net/textproto"
	"strings"
)

// form is what a request that has begun to arrive turns out to be.
type form int

const (
	unfinished form = iota // there is more to come
	foreign                // not for this package
	plain
)

// head is the head of a plain request.
type head struct {
	path, host string
	header     http.Header
	length     int // of the body, in bytes
}

// mostHeaders is how many a plain request may have.
const mostHeaders = 32

// readHead reads the head of a request: POST to a path without escapes or query, in
// HTTP/1.1, with a host and a length, no header twice and none that is about the
// connection. It returns how long it is.
func readHead(b []byte) (h head, size int, f form) {
	const method, version, end = "POST /", " HTTP/1.1\r\n", "\r\n\r\n"
	if n := min(len(b), len(method)); string(b[:n]) != method[:n] {
		return h, 0, foreign
	}
	size = strings.Index(string(b), end) // the conversion takes no room
	if size < 0 {
		return h, 0, unfinished
	}
	size += len(end)
	text := string(b[:size]) // which the request's texts are parts of
	line, rest, _ := strings.Cut(text[len(method)-1:], "\r\n")
	path, ok := strings.CutSuffix(line, version[:len(version)-2])
	if !ok || !made(path, isPath) {
		return h, 0, foreign
	}
	h.path, h.length, h.header = path, -1, make(http.Header, 8)
	values := make([]string, 0, 8) // one piece of room for all
	for n := 0; rest != "\r\n"; n++ {
		line, after, _ := strings.Cut(rest, "\r\n")
		rest = after
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || n == mostHeaders || !made(name, isName) || !made(value, isValue) {
			return h, 0, foreign
		}
		name, value = canonical(name), strings.Trim(value, " ")
		switch name {
		case "Host":
			if h.host != "" || value == "" || !made(value, isHost) {
				return h, 0, foreign
			}
			h.host = value
			continue
		case "Content-Length":
			if h.length = number(value); h.length < 0 {
				return h, 0, foreign
			}
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return h, 0, foreign
			}
		case "Expect", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Proxy-Connection", "Keep-Alive", "Pragma":
			return h, 0, foreign
		}
		if _, twice := h.header[name]; twice {
			return h, 0, foreign
		}
		values = append(values, value)
		h.header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if h.host == "" || h.length < 0 {
		return h, 0, foreign
	}
	return h, size, plain
}

// number reads a length of a few digits; negative if it is none.
func number(text string) int {
	if text == "" || len(text) > 6 || text[0] == '0' {
		return -1
	}
	n := 0
	for _, b := range []byte(text) {
		if b < '0' || b > '9' {
			return -1
		}
		n = 10*n + int(b-'0')
	}
	return n
}

// canonical is a header's name as net/http has it.
func canonical(name string) string {
	switch name { // as most clients send them
	case "Host", "User-Agent", "Content-Length", "Content-Type", "Accept-Encoding", "Accept", "Connection":
		return name
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// made says whether a text consists of some bytes alone.
func made(text string, of func(byte) bool) bool {
	for i := range len(text) {
		if !of(text[i]) {
			return false
		}
	}
	return true
}

func isName(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-'
}

func isPath(b byte) bool { return isName(b) || b == '/' || b == '_' || b == '.' }

func isHost(b byte) bool { return isName(b) || b == '.' || b == ':' || b == '[' || b == ']' }

func isValue(b byte) bool { return b >= ' ' && b < 0x7f }
