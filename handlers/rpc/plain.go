package rpc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
)

// method is one of a service, as gorilla's server calls it.
type method struct {
	name        string // gorilla's
	receiver    reflect.Value
	function    reflect.Value
	args, reply reflect.Type
}

// addMethods notes the methods of a service that the server has taken on under a name.
func (e *endpoint) addMethods(name string, methods any) {
	receiver := reflect.ValueOf(methods)
	for i := range receiver.NumMethod() {
		m := receiver.Type().Method(i)
		full := name + "." + m.Name
		if !e.server.HasMethod(full) {
			continue
		}
		asked := name + "." + strings.ToLower(m.Name[:1]) + m.Name[1:]
		e.methods[asked] = method{full, receiver, m.Func, m.Type.In(2).Elem(), m.Type.In(3).Elem()}
	}
}

const (
	// mostPlain is how long a body may be that is read at once, in bytes.
	mostPlain = 16 << 10
	// mostAsked is how long params may be whose answer is remembered, in bytes.
	mostAsked = 1 << 10
)

// plain answers a call of the form that nearly all clients send, which takes a fraction
// of the time, as the server would. For all else it is false, and nothing is done but
// to read the body, which the request then has anew.
func (e *endpoint) plain(w http.ResponseWriter, r *http.Request) bool {
	n := r.ContentLength
	if r.Method != http.MethodPost || n <= 0 || n > min(mostPlain, e.BodyLimit) || !plainType(r.Header["Content-Type"]) {
		return false
	}
	b := e.buffers.get(int(n))
	body := (*b)[:n]
	if got, err := io.ReadFull(r.Body, body); err != nil {
		r.Body = replaced{io.MultiReader(bytes.NewReader(bytes.Clone(body[:got])), failing{err}), r.Body}
		e.buffers.put(b)
		return false
	}
	if e.call(w, r, body) {
		e.buffers.put(b)
		return true
	}
	r.Body = replaced{bytes.NewReader(body), r.Body} // and the buffer is not used again
	return false
}

// plainType says whether a content type is the one of calls, in its usual forms.
func plainType(values []string) bool {
	return len(values) > 0 && (values[0] == "application/json" || strings.HasPrefix(values[0], "application/json;"))
}

// call answers a call if it has a plain form, of a method of this endpoint, and
// arguments that fit.
func (e *endpoint) call(w http.ResponseWriter, r *http.Request, body []byte) bool {
	c, ok := readCall(body)
	if !ok {
		return false
	}
	m, ok := e.methods[string(c.method)]
	if !ok {
		return false
	}
	// No method's name has a slash.
	var room [256]byte
	asked := append(append(append(room[:0], c.method...), '/'), c.params...)
	if answer := e.answers.get(asked); answer != nil {
		w.Header()["X-Content-Type-Options"] = noSniff
		e.write(w, answer, c.id)
		return true
	}
	args := reflect.New(m.args)
	if c.params != nil && json.Unmarshal(c.params, args.Interface()) != nil {
		return false
	}
	reply := reflect.New(m.reply)
	failed := m.function.Call([]reflect.Value{m.receiver, reflect.ValueOf(r), args, reply})[0]
	w.Header()["X-Content-Type-Options"] = noSniff
	id := json.RawMessage(c.id)
	q := &request{codec: e.codec.Codec, http: r, endpoint: e, ctx: r.Context(), body: body, call: incoming{ID: &id}, method: m.name}
	if err, ok := failed.Interface().(error); ok {
		q.WriteError(w, http.StatusBadRequest, err)
		return true
	}
	if raw, ok := reply.Interface().(*Raw); ok {
		if raw.Lasts != nil && len(c.params) <= mostAsked {
			e.answers.put(asked, raw.JSON, raw.Lasts)
		}
		e.write(w, raw.JSON, c.id)
		return true
	}
	q.WriteResponse(w, reply.Interface())
	return true
}

// replaced is a body of which another reader has what it reads.
type replaced struct {
	io.Reader
	io.Closer
}

// failing fails when it is read.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// buffers are what bodies are read into and answers put together in.
type buffers struct{ pool sync.Pool }

// mostPooled is how large a buffer is kept, in bytes.
const mostPooled = 256 << 10

// get returns a buffer with room for n bytes.
func (p *buffers) get(n int) *[]byte {
	b, ok := p.pool.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	if cap(*b) < n {
		*b = make([]byte, 0, max(n, 4<<10))
	}
	return b
}

// put takes back a buffer that nobody uses any more.
func (p *buffers) put(b *[]byte) {
	if cap(*b) <= mostPooled {
		p.pool.Put(b)
	}
}
