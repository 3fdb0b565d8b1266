package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gorilla/rpc/v2"

	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/internal/node"
)

// ErrForward is what a native method returns when the nodes are to answer in its
// place.
var ErrForward = errors.New("answered by upstream")

// RefusalError is an error of an Upstream whose text is for the client.
type RefusalError string

// Error implements error.
func (r RefusalError) Error() string { return string(r) }

// ErrBusy is what clients are told if answers take as much memory as they may.
var ErrBusy = errors.New("the service has as many answers under way as it has room for; try again in a moment")

// Upstream are the nodes that answer what is not answered natively.
type Upstream interface {
	// Forward posts body to path of a node, and to others too if it is hedged and
	// takes long.
	Forward(ctx context.Context, path string, body []byte, hedged bool) (*node.Forwarded, error)
}

// Service is what an Endpoint answers natively: the exported methods of Methods that
// have the form of gorilla's RPC, under each of Names.
type Service struct {
	Names   []string
	Methods any
}

// Endpoint is one path at which a node answers JSON-RPC.
type Endpoint struct {
	// Services may be empty.
	Services []Service
	// Upstream answers what no service does; nil: nobody does.
	Upstream Upstream
	// Path is where the nodes have the endpoint.
	Path string
	// Rename are prefixes of methods that nodes know by another name.
	Rename map[string]string
	// Ready says whether the endpoint can answer; nil: always.
	Ready func() bool
	// BodyLimit is in bytes; 0 means 1 MiB.
	BodyLimit int64
	// AnswerBytes bounds the memory for answers that last; 0 means 8 MiB.
	AnswerBytes int
	Log         *slog.Logger
}

// NewHandler makes a handler of e, which answers as a node does: in its envelope,
// with its codes and texts.
func NewHandler(e Endpoint) (http.Handler, error) {
	if e.BodyLimit <= 0 {
		e.BodyLimit = 1 << 20
	}
	if e.AnswerBytes <= 0 {
		e.AnswerBytes = 8 << 20
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	h := &endpoint{Endpoint: e, server: rpc.NewServer(), methods: make(map[string]method), answers: newMemo(e.AnswerBytes)}
	h.codec = codec{Codec: avajson.NewCodec(), endpoint: h}
	h.server.RegisterCodec(h.codec, "application/json")
	// With one codec alone, gorilla takes a request without a content type.
	h.server.RegisterCodec(h.codec, "application/json;charset=utf-8")
	for _, s := range e.Services {
		for _, name := range s.Names {
			if err := h.server.RegisterService(s.Methods, name); err != nil {
				return nil, fmt.Errorf("service %q: %w", name, err)
			}
			h.addMethods(name, s.Methods)
		}
	}
	return h, nil
}

type endpoint struct {
	Endpoint
	server  *rpc.Server
	codec   codec
	methods map[string]method // of calls, by the names that clients know
	answers *memo
	buffers buffers
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.Ready != nil && !e.Ready() {
		http.Error(w, "API call rejected because chain is not done bootstrapping", http.StatusServiceUnavailable)
		return
	}
	if e.plain(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, e.BodyLimit)
	e.server.ServeHTTP(w, r)
}

// codec reads requests as the node's own does, and lets upstream answer what is not
// answered here.
type codec struct {
	rpc.Codec
	endpoint *endpoint
}

// NewRequest implements rpc.Codec.
func (c codec) NewRequest(r *http.Request) rpc.CodecRequest {
	// More than that has to arrive before it takes room.
	body, err := node.ReadAll(r.Context(), r.Body, min(r.ContentLength, mostAhead), c.endpoint.BodyLimit)
	_ = r.Body.Close()
	if err != nil {
		body = []byte{'{'} // of what is not complete, the client is told that it is no JSON
		c.endpoint.Log.Debug("a request's body is not complete", slog.Any("error", err))
	}
	q := &request{codec: c.Codec, http: r, endpoint: c.endpoint, ctx: r.Context(), body: body, busy: errors.Is(err, node.ErrNoRoom)}
	if json.Unmarshal(q.body, &q.call) != nil {
		q.call = incoming{}
		if json.NewDecoder(bytes.NewReader(q.body)).Decode(&q.call) != nil {
			q.bad = true
		}
	}
	q.bad = q.bad || q.call.Version != "2.0"
	return q
}

// mostAhead is how much room is made for a body that has not arrived, in bytes.
const mostAhead = 64 << 10

// incoming is a call as it comes.
type incoming struct {
	Version string           `json:"jsonrpc"`
	Method  string           `json:"method"`
	Params  *json.RawMessage `json:"params"`
	ID      *json.RawMessage `json:"id"`
}

// request is a call. What is wrong with one is for the node's own codec to say.
type request struct {
	codec    rpc.Codec
	http     *http.Request
	endpoint *endpoint
	ctx      context.Context //nolint:containedctx // a request's own, which gorilla does not hand on
	body     []byte
	call     incoming
	bad      bool             // call is not to be used
	busy     bool             // there was no room for body
	method   string           // once it is known
	own      rpc.CodecRequest // the node's, once it is needed
}

func (r *request) node() rpc.CodecRequest {
	if r.own == nil {
		r.http.Body = io.NopCloser(bytes.NewReader(r.body))
		r.own = r.codec.NewRequest(r.http)
	}
	return r.own
}

// Method implements rpc.CodecRequest.
func (r *request) Method() (method string, err error) {
	if r.busy {
		return "", ErrBusy
	}
	i := strings.IndexByte(r.call.Method, '.')
	if r.bad || i < 0 || i+1 == len(r.call.Method) || r.call.Method[i+1] < 'a' || r.call.Method[i+1] > 'z' {
		if method, err = r.node().Method(); err != nil {
			return method, err
		}
	} else {
		b := []byte(r.call.Method)
		b[i+1] -= 'a' - 'A'
		method = string(b)
	}
	r.method = method
	return method, nil
}

// ReadRequest implements rpc.CodecRequest.
func (r *request) ReadRequest(args any) error {
	if !r.bad && (r.call.Params == nil || json.Unmarshal(*r.call.Params, args) == nil) {
		return nil
	}
	return r.node().ReadRequest(args)
}

// Raw is a reply that is JSON already, as encoding/json would write it.
type Raw struct {
	// JSON is not changed, and may be shared.
	JSON []byte
	// Lasts says whether JSON still answers the call, of which nothing but its params
	// matters then. It is asked when there is another call of the same text, from any
	// goroutine, and does not block. Nil: it answers the one call alone.
	Lasts func() bool
}

// Always is for answers that last for ever.
func Always() bool { return true }

// WriteResponse implements rpc.CodecRequest.
func (r *request) WriteResponse(w http.ResponseWriter, reply any) {
	if r.call.ID == nil {
		return
	}
	raw, ok := reply.(*Raw)
	if !ok {
		result, err := json.Marshal(reply)
		if err != nil {
			rpc.WriteError(w, http.StatusInternalServerError, err.Error())
			return
		}
		raw = &Raw{JSON: result}
	}
	id := *r.call.ID
	if bytes.ContainsAny(id, "<>& \t\r\n\u2028\u2029") {
		id, _ = json.Marshal(r.call.ID) // it was read from JSON
	}
	r.endpoint.write(w, raw.JSON, id)
}

// write answers a call that has an ID, as encoding/json would write it.
func (e *endpoint) write(w http.ResponseWriter, result, id []byte) {
	const before, between, after = `{"jsonrpc":"2.0","result":`, `,"id":`, "}\n"
	n := len(before) + len(result) + len(between) + len(id) + len(after)
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(n)}
	if n > mostPooled {
		_, _ = io.WriteString(w, before)
		_, _ = w.Write(result)
		_, _ = w.Write(append(append([]byte(between), id...), after...))
		return
	}
	// What is written at once is sent with fewer calls of the system.
	b := e.buffers.get(n)
	defer e.buffers.put(b)
	*b = append(append(append(append(append((*b)[:0], before...), result...), between...), id...), after...)
	_, _ = w.Write(*b)
}

// jsonType is the node's. It is shared by all answers and never changed.
var jsonType = []string{"application/json; charset=utf-8"}

// noSniff is what a node sends with the answer of each method. It is never changed.
var noSniff = []string{"nosniff"}

// WriteError implements rpc.CodecRequest.
func (r *request) WriteError(w http.ResponseWriter, status int, err error) {
	if r.busy { // it is not known whether the call wants an answer
		http.Error(w, ErrBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	if r.endpoint.Upstream != nil && (errors.Is(err, ErrForward) || r.method != "" && !r.endpoint.server.HasMethod(r.method)) {
		answer, failed := r.forward()
		if failed == nil {
			relay(w, answer)
			return
		}
		err = failed
	}
	r.node().WriteError(w, status, err)
}

// Unsure is what clients are told whose transaction nobody knows the fate of.
const Unsure = "the transaction may have been issued: the upstream node that it was given to did not answer; ask for its status before issuing it again"

// call is a request as far as it is handed on: what is not looked at keeps its form.
type call struct {
	Version json.RawMessage `json:"jsonrpc,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
}

func (r *request) forward() (*node.Forwarded, error) {
	var c call
	if err := json.NewDecoder(bytes.NewReader(r.body)).Decode(&c); err != nil {
		return nil, err
	}
	prefix, method, _ := strings.Cut(c.Method, ".")
	if other, ok := r.endpoint.Rename[prefix]; ok {
		c.Method = other + "." + method
	}
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	hedged := !strings.HasPrefix(method, "issue")
	answer, err := r.endpoint.Upstream.Forward(r.ctx, r.endpoint.Path, body, hedged)
	if told := RefusalError(""); errors.As(err, &told) {
		return nil, told
	}
	if errors.Is(err, node.ErrNoRoom) {
		return nil, ErrBusy
	}
	if err != nil {
		r.endpoint.Log.Warn("a call could not be forwarded", slog.String("method", c.Method), slog.Any("error", err))
		if errors.Is(err, node.ErrUnsure) {
			return nil, errors.New(Unsure)
		}
		return nil, fmt.Errorf("the upstream node does not answer %s", c.Method)
	}
	return answer, nil
}

func relay(w http.ResponseWriter, answer *node.Forwarded) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// recovered answers for a handler that panics as a node answers for what fails.
func recovered(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // it is compared so in net/http
					panic(p)
				}
				log.Error("panic", slog.Any("panic", p), slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
				http.Error(w, "internal error", http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}
