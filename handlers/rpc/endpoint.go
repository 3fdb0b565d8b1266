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
	"strings"

	"github.com/gorilla/rpc/v2"

	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/internal/node"
)

// ErrForward is returned by a method whose call the upstream nodes must answer.
var ErrForward = errors.New("answered by upstream")

// ErrNotReady is returned by a method that would answer wrongly until more is indexed. Clients get what they get while
// Endpoint.Ready is false.
var ErrNotReady = errors.New("the index is not ready")

// RefusalError is an error of an Upstream whose text is returned to clients.
type RefusalError string

// Error implements error.
func (r RefusalError) Error() string { return string(r) }

// ErrBusy is returned to clients when the memory for answers is exhausted.
var ErrBusy = errors.New("the service has as many answers under way as it has room for; try again in a moment")

// Upstream forwards calls to the upstream nodes.
type Upstream interface {
	// Forward posts body to path of an upstream node. If hedged is set, the node is slow and the call only reads, it
	// also posts to others.
	Forward(ctx context.Context, path string, body []byte, hedged bool) (*node.Forwarded, error)
}

// Service is a set of methods that an Endpoint answers itself: the exported methods of Methods that have the signature
// of gorilla's RPC, under each of Names.
type Service struct {
	Names   []string
	Methods any
}

// Endpoint is one path at which a node answers JSON-RPC.
type Endpoint struct {
	// Services may be empty.
	Services []Service
	// Upstream answers the methods that no service has. If nil, they get an error.
	Upstream Upstream
	// Path is the path of the endpoint on upstream nodes.
	Path string
	// Rename maps prefixes of methods to the prefixes that upstream nodes use.
	Rename map[string]string
	// Ready reports whether the endpoint can answer; nil means always.
	Ready func() bool
	// BodyLimit is in bytes; 0 means 1 MiB.
	BodyLimit int64
	Log       *slog.Logger
}

// NewHandler returns a handler for e that answers as a node does: with the envelope, codes
// and texts of the node's own codec.
func NewHandler(e Endpoint) (http.Handler, error) {
	if e.BodyLimit <= 0 {
		e.BodyLimit = 1 << 20
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	h := &endpoint{Endpoint: e, server: rpc.NewServer()}
	c := codec{avajson.NewCodec(), h}
	h.server.RegisterCodec(c, "application/json")
	// With only one codec, gorilla accepts requests without a content type.
	h.server.RegisterCodec(c, "application/json;charset=utf-8")
	for _, s := range e.Services {
		for _, name := range s.Names {
			if err := h.server.RegisterService(s.Methods, name); err != nil {
				return nil, fmt.Errorf("service %q: %w", name, err)
			}
		}
	}
	return h, nil
}

type endpoint struct {
	Endpoint
	server *rpc.Server
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.Ready != nil && !e.Ready() {
		notReady(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, e.BodyLimit)
	e.server.ServeHTTP(w, r)
}

// notReady answers as a node does while a chain is bootstrapping.
func notReady(w http.ResponseWriter) {
	http.Error(w, "API call rejected because chain is not done bootstrapping", http.StatusServiceUnavailable)
}

// codec is the node's codec, except that it keeps the body of a request for forwarding.
type codec struct {
	rpc.Codec
	endpoint *endpoint
}

// NewRequest implements rpc.Codec.
func (c codec) NewRequest(r *http.Request) rpc.CodecRequest {
	// Memory beyond mostAhead is allocated when the bytes have arrived.
	body, err := node.ReadAll(r.Context(), r.Body, min(r.ContentLength, mostAhead), c.endpoint.BodyLimit)
	_ = r.Body.Close()
	if err != nil {
		body = []byte{'{'} // makes the codec report invalid JSON
		c.endpoint.Log.Debug("a request's body is not complete", slog.Any("error", err))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return &request{CodecRequest: c.Codec.NewRequest(r), endpoint: c.endpoint, ctx: r.Context(), body: body, busy: errors.Is(err, node.ErrNoRoom)}
}

// mostAhead is the largest buffer allocated before a body arrives, in bytes.
const mostAhead = 64 << 10

// request is a call as the node's codec reads it.
type request struct {
	rpc.CodecRequest
	endpoint *endpoint
	ctx      context.Context //nolint:containedctx // the HTTP request's, which gorilla does not pass to WriteError
	body     []byte
	busy     bool   // there was no memory for body
	method   string // empty before Method, and if the call is invalid
}

// Method implements rpc.CodecRequest.
func (r *request) Method() (string, error) {
	if r.busy {
		return "", ErrBusy
	}
	method, err := r.CodecRequest.Method()
	if err == nil {
		r.method = method
	}
	return method, err
}

// maxText is the maximum length of a text among the arguments of a method of this service, in bytes. It is more than that
// of a key, an alias or an address.
const maxText = 5000

var errLongText = fmt.Errorf("couldn't unmarshal an argument: a text has more than %d bytes", maxText)

// ReadRequest implements rpc.CodecRequest. It refuses long texts, because the decoder of IDs takes time quadratic in the
// length of its input.
func (r *request) ReadRequest(args any) error {
	if len(r.body) > maxText {
		for d := json.NewDecoder(bytes.NewReader(r.body)); ; {
			token, err := d.Token()
			if err != nil {
				break // the codec reports it
			}
			if text, ok := token.(string); ok && len(text) > maxText {
				return errLongText
			}
		}
	}
	return r.CodecRequest.ReadRequest(args)
}

// Raw is a reply that is JSON already.
type Raw struct{ JSON []byte }

// MarshalJSON implements json.Marshaler.
func (r *Raw) MarshalJSON() ([]byte, error) { return r.JSON, nil }

// WriteError implements rpc.CodecRequest.
func (r *request) WriteError(w http.ResponseWriter, status int, err error) {
	if r.busy { // the call may be a notification, which gets no JSON-RPC answer
		http.Error(w, ErrBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	if errors.Is(err, ErrNotReady) {
		notReady(w)
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
	r.CodecRequest.WriteError(w, status, err)
}

// Unsure is the error for a transaction that an upstream node may or may not have issued.
const Unsure = "the transaction may have been issued: the upstream node that it was given to did not answer; ask for its status before issuing it again"

// call is a call to forward. Fields that the service does not read are forwarded unchanged.
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
	answer, err := r.endpoint.Upstream.Forward(r.ctx, r.endpoint.Path, body, true)
	if err != nil {
		return nil, Unanswered(r.endpoint.Log, c.Method, err)
	}
	if len(c.ID) == 0 || string(c.ID) == "null" { // a notification, which gateways answer and nodes do not
		answer.Header.Del("Content-Type")
		answer.Status, answer.Body = http.StatusOK, nil
	}
	return answer, nil
}

// Ask asks upstream nodes for what only reads and decodes the result. A node's own error is a RefusalError.
func Ask(ctx context.Context, upstream Upstream, path, method string, params []byte, result any) error {
	if upstream == nil {
		return errors.New("no upstream node is configured")
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	got, err := upstream.Forward(ctx, path, body, true)
	if err != nil {
		return err
	}
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(got.Body, &reply); err != nil || got.Status != http.StatusOK {
		return fmt.Errorf("an answer of %d bytes with status %d", len(got.Body), got.Status)
	}
	if reply.Error != nil {
		return RefusalError(reply.Error.Message)
	}
	if reply.Result == nil {
		return errors.New("an answer without a result")
	}
	return json.Unmarshal(reply.Result, result)
}

// Unanswered returns the error for the client if an Upstream failed with err to answer a method. It logs err unless
// clients cause it.
func Unanswered(log *slog.Logger, method string, err error) error {
	if refused := RefusalError(""); errors.As(err, &refused) {
		return refused
	}
	if text, ok := limited(err); ok {
		return errors.New(text)
	}
	if notOffered(err) {
		log.Debug("a call could not be forwarded", slog.String("method", method), slog.Any("error", err))
		return fmt.Errorf("the upstream node does not offer %s", method)
	}
	log.Warn("a call could not be forwarded", slog.String("method", method), slog.Any("error", err))
	if errors.Is(err, node.ErrUnsure) {
		return errors.New(Unsure)
	}
	return fmt.Errorf("the upstream node does not answer %s", method)
}

// notOffered reports whether all upstream nodes lack the API of a call, or do not allow it.
func notOffered(err error) bool {
	return errors.As(err, new(*node.RPCError)) && !errors.Is(err, node.ErrUnavailable) && !errors.Is(err, node.ErrUnsure)
}

// limited returns the text that clients get for an error that their own calls cause: too many at a time, or one that
// takes too long or has too long an answer.
func limited(err error) (text string, ok bool) {
	switch {
	case errors.Is(err, node.ErrUnsure):
		return "", false
	case errors.Is(err, node.ErrNoRoom):
		return ErrBusy.Error(), true
	case errors.Is(err, node.ErrBusy):
		return "too many calls to the upstream node are in progress; try again in a moment", true
	case errors.Is(err, node.ErrSlow):
		return "the call takes longer than this service waits for it; ask for less", true
	case errors.Is(err, node.ErrTooLong):
		return "the answer is longer than this service passes on; ask for less", true
	}
	return "", false
}

func relay(w http.ResponseWriter, answer *node.Forwarded) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// recovered answers with an internal error when h panics.
func recovered(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it this way
					panic(p)
				}
				log.Error("panic", slog.Any("panic", p), slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
				http.Error(w, "internal error", http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}
