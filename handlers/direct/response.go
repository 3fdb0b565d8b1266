package direct

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// together is how large an answer is sent with its head in one piece, in bytes.
	together = 64 << 10
	// mostKept is how large a buffer is kept for other answers, in bytes.
	mostKept = 256 << 10
)

// response is an http.ResponseWriter. The head goes before the body in out as soon as
// its length is known: at once if the handler tells it, at the end otherwise.
type response struct {
	session *session
	header  http.Header
	status  int  // 0 before it is known
	length  int  // of the body as the handler told it; negative if it did not
	typed   bool // there is a Content-Type, or there is to be none
	dated   bool // there is a Date
	last    bool // the connection ends with this answer
	headed  bool // the head is in out, or sent
	written int  // of the body, in bytes
	failed  error
	taken   bool // by Hijack
	context *requestContext

	*outgoing
}

// outgoing is what an answer is put together in.
type outgoing struct {
	fields []byte // the head but for what depends on the body
	body   []byte // while its length is not known
	out    []byte // to be sent
}

func newResponse(s *session, c *requestContext) *response {
	o, ok := s.listener.spare.Get().(*outgoing)
	if !ok {
		o = new(outgoing)
	}
	return &response{session: s, context: c, header: make(http.Header, 8), length: -1, outgoing: o}
}

// release gives up the buffers. The response is not used again.
func (w *response) release() {
	o := w.outgoing
	w.outgoing = nil
	if cap(o.body) <= mostKept && cap(o.out) <= mostKept {
		o.fields, o.body, o.out = o.fields[:0], o.body[:0], o.out[:0]
		w.session.listener.spare.Put(o)
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// bodyless are those statuses with which there is no body.
func bodyless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// WriteHeader implements http.ResponseWriter. What is informational is not sent.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http
	}
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status = status
	w.last = w.session.listener.stopping.Load()
	w.fields = append(strconv.AppendInt(append(w.fields[:0], "HTTP/1.1 "...), int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		w.fields = append(w.fields, text...)
	} else {
		w.fields = strconv.AppendInt(append(w.fields, "status code "...), int64(status), 10)
	}
	w.fields = append(w.fields, "\r\n"...)
	w.typed = bodyless(status)
	var some [16]string
	names := some[:0]
	for name := range w.header {
		names = append(names, name)
	}
	slices.Sort(names) // as net/http
	for _, name := range names {
		values := w.header[name]
		switch name {
		case "Content-Length":
			if len(values) > 0 {
				if n, err := strconv.ParseInt(values[0], 10, 0); err == nil && n >= 0 && !bodyless(status) {
					w.length = int(n)
				}
			}
			continue
		case "Transfer-Encoding", "Trailer":
			continue // they are this package's affair
		case "Connection":
			for _, value := range values {
				w.last = w.last || strings.EqualFold(strings.TrimSpace(value), "close")
			}
			continue
		case "Content-Type":
			w.typed = true
		case "Content-Encoding":
			w.typed = w.typed || len(values) > 0 && values[0] != ""
		case "Date":
			w.dated = true
		}
		if !made(name, isToken) || name == "" {
			continue
		}
		for _, value := range values {
			w.fields = append(append(w.fields, name...), ": "...)
			w.fields = appendValue(w.fields, value)
			w.fields = append(w.fields, "\r\n"...)
		}
	}
}

// isToken is what the name of a header may consist of (RFC 9110).
func isToken(b byte) bool { return isName(b) || strings.IndexByte("!#$%&'*+.^_`|~", b) >= 0 }

// appendValue writes a header's value such that it cannot be taken for more than that.
func appendValue(to []byte, value string) []byte {
	value = strings.Trim(value, " \t\r\n")
	for i := range len(value) {
		if value[i] == '\r' || value[i] == '\n' {
			to = append(to, ' ')
		} else {
			to = append(to, value[i])
		}
	}
	return to
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.taken:
		return 0, http.ErrHijacked
	case len(p) == 0:
		return 0, nil
	case bodyless(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+len(p) > w.length:
		return 0, http.ErrContentLength
	case w.failed != nil:
		return 0, w.failed
	}
	w.written += len(p)
	if w.length < 0 {
		w.body = append(w.body, p...)
		return len(p), nil
	}
	w.begin(w.length, p)
	if len(w.out)+len(p) > together {
		w.send(w.out)
		w.out = w.out[:0]
		w.send(p)
		return len(p), w.failed
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

// Hijack implements http.Hijacker.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.taken {
		return nil, nil, http.ErrHijacked
	}
	if w.status != 0 {
		return nil, nil, errors.New("direct: the answer has begun")
	}
	w.context.release()
	w.taken = true
	c := w.session.from(w.session.used)
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// SetReadDeadline is for bodies that do not arrive: this one has.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// begin writes the head, with which it is known how the body begins.
func (w *response) begin(length int, body []byte) {
	if w.headed {
		return
	}
	w.headed = true
	w.out = append(w.out[:0], w.fields...)
	if !bodyless(w.status) {
		w.out = append(strconv.AppendInt(append(w.out, "Content-Length: "...), int64(length), 10), "\r\n"...)
	}
	if !w.typed && len(body) > 0 {
		w.out = append(append(append(w.out, "Content-Type: "...), http.DetectContentType(body)...), "\r\n"...)
	}
	if !w.dated {
		w.out = append(w.session.appendDate(append(w.out, "Date: "...)), "\r\n"...)
	}
	if w.last {
		w.out = append(w.out, "Connection: close\r\n"...)
	}
	w.out = append(w.out, "\r\n"...)
}

// finish sends what has not been sent.
func (w *response) finish() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.length < 0 {
		w.begin(len(w.body), w.body)
		w.out = append(w.out, w.body...)
	} else {
		w.begin(w.length, nil)
		if w.written < w.length {
			w.last = true // the client waits for the rest, which it will not get
		}
	}
	w.send(w.out)
	return w.failed
}

func (w *response) send(b []byte) {
	if len(b) == 0 || w.failed != nil {
		return
	}
	s := w.session
	if now := time.Now(); len(b) > together || s.writeBy.Before(now.Add(s.listener.o.Answer)) {
		s.writeBy = now.Add(s.listener.o.Answer + slack)
		w.failed = s.conn.SetWriteDeadline(s.writeBy)
	}
	if w.failed == nil {
		_, w.failed = s.conn.Write(b)
	}
}

// appendDate writes the time as answers tell it.
func (s *session) appendDate(to []byte) []byte {
	if now := time.Now(); now.Unix() != s.dated || s.date == nil {
		s.dated, s.date = now.Unix(), now.UTC().AppendFormat(s.date[:0], http.TimeFormat)
	}
	return append(to, s.date...)
}

// WriteString implements io.StringWriter.
func (w *response) WriteString(text string) (int, error) { return w.Write([]byte(text)) }
