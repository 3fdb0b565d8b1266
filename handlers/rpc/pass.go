package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/internal/node"
)

// Node connects to the upstream nodes.
type Node interface {
	Upstream
	// Connect opens the WebSocket of the API at path.
	Connect(ctx context.Context, path string) (*websocket.Conn, error)
	// Await waits until the calls of body may be sent over a WebSocket. The error is node.ErrBusy if ctx ends before.
	Await(ctx context.Context, body []byte) error
}

// callTypes are the content types of calls of the Ethereum API.
var callTypes = []string{"application/json", "application/json-rpc", "application/jsonrequest"}

// passable returns the error that a node (libevm, package rpc) returns for the form of r, and its status; 0 if the
// form is valid.
func passable(r *http.Request) (status int, text string) {
	switch r.Method {
	case http.MethodPut, http.MethodDelete:
		return http.StatusMethodNotAllowed, "method not allowed"
	case http.MethodOptions:
		return 0, ""
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || !slices.Contains(callTypes, kind) {
		return http.StatusUnsupportedMediaType, "invalid content type, only application/json is supported"
	}
	return 0, ""
}

// Ethereum forwards calls and batches of the Ethereum API to upstream nodes unchanged, and returns their answers.
type Ethereum struct {
	Node Node
	// Path is the path on the upstream nodes, for example /ext/bc/C/rpc.
	Path string
	// BodyLimit is the maximum size of a request body, in bytes.
	BodyLimit int64
	// Namespaces lists the namespaces whose methods are forwarded, for example eth; nil means all.
	Namespaces []string
	// Sockets limits connections.
	Sockets SocketLimits
	Log     *slog.Logger
}

// Error codes of JSON-RPC 2.0, and of EIP-1474 for too many requests.
const (
	codeParse     = -32700
	codeInvalid   = -32600
	codeNoMethod  = -32601
	codeServer    = -32000
	codeExhausted = -32005
)

// mostCalls is the maximum number of calls in a batch, which is a node's default (avalanchego, batch-request-limit).
const mostCalls = 1000

// Calls returns a handler of calls over HTTP. Each call of a batch is charged to the client.
func (e Ethereum) Calls() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.ContentLength == 0 && r.URL.RawQuery == "" {
			return // a health check
		}
		if status, text := passable(r); status != 0 {
			http.Error(w, text, status)
			return
		}
		ctx := r.Context()
		body, err := node.ReadAll(ctx, r.Body, min(r.ContentLength, mostAhead), e.BodyLimit)
		switch {
		case errors.Is(err, node.ErrNoRoom):
			http.Error(w, ErrBusy.Error(), http.StatusServiceUnavailable)
			return
		case err != nil:
			http.Error(w, "content length too large", http.StatusRequestEntityTooLarge)
			return
		}
		calls, refusal, ok := e.read(body)
		if !ok {
			sayJSON(w, refusal)
			return
		}
		if client := access.ClientOf(ctx); client != nil {
			switch refused := client.TakeBatch(ctx, w.Header(), len(calls.all)); {
			case refused == nil:
			case refused.Status == http.StatusBadRequest:
				sayJSON(w, calls.refuse(refused.Message))
				return
			default:
				refuse(w, refused)
				return
			}
		}
		answer, err := e.Node.Forward(ctx, e.Path, calls.body, false)
		if err != nil {
			code := codeServer
			if errors.Is(err, node.ErrBusy) {
				code = codeExhausted
			}
			sayJSON(w, calls.fail(code, e.excuse(err)))
			return
		}
		relay(w, answer)
	})
}

// excuse returns the text that clients get for err.
func (e Ethereum) excuse(err error) string {
	if text, ok := limited(err); ok {
		return text
	}
	if notOffered(err) {
		e.Log.Debug("a call could not be forwarded", slog.String("path", e.Path), slog.Any("error", err))
		return "the upstream node does not offer this call"
	}
	e.Log.Warn("a call could not be forwarded", slog.String("path", e.Path), slog.Any("error", err))
	if errors.Is(err, node.ErrUnsure) {
		return Unsure
	}
	return "the upstream node does not answer"
}

// refuse answers as to a single request that exceeds the allowance.
func refuse(w http.ResponseWriter, e *apierr.Error) {
	content, _ := json.Marshal(apierr.Body(e)) // never fails: texts and numbers
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(e.Status)
	_, _ = w.Write(content)
}

func sayJSON(w http.ResponseWriter, content []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write(content)
}

// read parses the body of a request. If ok is false, refusal is the answer, empty for a notification.
func (e Ethereum) read(body []byte) (c calls, refusal []byte, ok bool) {
	if len(bytes.TrimSpace(body)) == 0 { // answered by the upstream node
		return calls{body: body}, nil, true
	}
	c, ok = readCalls(body)
	if !ok {
		return c, c.fail(codeParse, "parse error"), false
	}
	if len(c.all) > mostCalls {
		return c, c.refuse("batch too large"), false
	}
	first := slices.IndexFunc(c.all, func(one ethCall) bool { code, _ := e.refuses(one); return code != 0 })
	if first < 0 {
		return c, nil, true
	}
	_, why := e.refuses(c.all[first])
	return c, c.failEach(func(one ethCall) (code int, message string) {
		if code, message = e.refuses(one); code == 0 {
			return codeInvalid, "the batch is not forwarded: " + why
		}
		return code, message
	}), false
}

// refuses returns the error of a call that is not forwarded; the code is 0 if it is. The error for a method of a disabled
// namespace is a node's. A method without a namespace is invalid; the upstream node refuses it.
func (e Ethereum) refuses(one ethCall) (code int, message string) {
	if one.ambiguous {
		return codeInvalid, "a call has more than one method; send one"
	}
	namespace, _, found := strings.Cut(one.Method, "_")
	if e.Namespaces == nil || !found || slices.Contains(e.Namespaces, namespace) {
		return 0, ""
	}
	const most = 128
	return codeNoMethod, "the method " + strings.ToValidUTF8(one.Method[:min(len(one.Method), most)], "") + " does not exist/is not available"
}

// ethCall has the fields of a call that the service reads.
type ethCall struct {
	Method string
	ID     json.RawMessage
	// ambiguous is set if several fields can be taken for the method: nodes differ in which one they use.
	ambiguous bool
}

// readCall parses a call. Like a node, it ignores the case of names and uses the last field with a name.
func readCall(raw json.RawMessage) (call ethCall) {
	fields := json.NewDecoder(bytes.NewReader(raw))
	if start, err := fields.Token(); err != nil || start != json.Delim('{') {
		return call
	}
	methods := 0
	for fields.More() {
		token, err := fields.Token()
		var value json.RawMessage
		if err != nil || fields.Decode(&value) != nil {
			return call // not reached: raw is valid
		}
		switch name, _ := token.(string); {
		case strings.EqualFold(name, "method"):
			_ = json.Unmarshal(value, &call.Method)
			methods++
		case strings.EqualFold(name, "id"):
			call.ID = value
		}
	}
	call.ambiguous = methods > 1
	return call
}

// calls is a call or a batch.
type calls struct {
	// body holds the JSON value that was parsed, without trailing data.
	body []byte
	// all holds the first mostCalls+1 calls of a batch.
	all   []ethCall
	batch bool
}

// readCalls parses calls as a node does (libevm, package rpc): it ignores a field of the wrong type and reads the
// others, so that both recognise the same calls.
func readCalls(body []byte) (c calls, ok bool) {
	var whole json.RawMessage
	if json.NewDecoder(bytes.NewReader(body)).Decode(&whole) != nil {
		return c, false
	}
	c.body = whole
	if whole[0] != '[' {
		c.all = []ethCall{readCall(whole)}
		return c, true
	}
	c.batch = true
	each := json.NewDecoder(bytes.NewReader(whole))
	if _, err := each.Token(); err != nil {
		return c, false
	}
	for each.More() && len(c.all) <= mostCalls {
		var one json.RawMessage
		if each.Decode(&one) != nil {
			return c, false
		}
		c.all = append(c.all, readCall(one))
	}
	return c, true
}

// refuse returns the answer to a batch as a whole, as nodes do: with the ID of the first call that has one.
func (c calls) refuse(message string) []byte {
	first := calls{batch: true} // has a null ID
	if i := slices.IndexFunc(c.all, func(one ethCall) bool { return one.ID != nil && one.Method != "" }); i >= 0 {
		first.all = c.all[i : i+1]
	}
	return first.fail(codeInvalid, message)
}

// fail returns the same error for each call that expects an answer, empty if none does.
func (c calls) fail(code int, message string) []byte {
	return c.failEach(func(ethCall) (int, string) { return code, message })
}

// failEach returns an error for each call that expects an answer, empty if none does. why is called with an empty call if
// there are no calls.
func (c calls) failEach(why func(one ethCall) (code int, message string)) []byte {
	type failure struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	answers := make([]failure, 0, max(len(c.all), 1))
	add := func(one ethCall) {
		answer := failure{Version: "2.0", ID: one.ID}
		answer.Error.Code, answer.Error.Message = why(one)
		answers = append(answers, answer)
	}
	for _, one := range c.all {
		if one.ID != nil || one.Method == "" { // otherwise it is a notification
			add(one)
		}
	}
	if len(c.all) == 0 {
		add(ethCall{})
	}
	var b []byte
	switch {
	case len(answers) == 0:
		return nil
	case c.batch:
		b, _ = json.Marshal(answers) // never fails: texts, numbers and parsed JSON
	default:
		b, _ = json.Marshal(answers[0])
	}
	return b
}
