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

// Node is a way to the nodes for what is passed through.
type Node interface {
	Upstream
	// Connect opens the WebSocket that goes with the API at path.
	Connect(ctx context.Context, path string) (*websocket.Conn, error)
}

// callTypes are the content types of calls of the Ethereum API.
var callTypes = []string{"application/json", "application/json-rpc", "application/jsonrequest"}

// passable says what is wrong with a request's form, as a node does (libevm, package
// rpc), with the status; 0 if nothing is.
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

// Ethereum passes on what is for the Ethereum API of a node's chain: calls and batches of
// them as they are, and the answers.
type Ethereum struct {
	Node Node
	// Path is where the nodes have it, such as /ext/bc/C/rpc.
	Path string
	// BodyLimit bounds what comes at a time, in bytes.
	BodyLimit int64
	// Namespaces are those of which methods are passed on, such as eth; nil are all.
	Namespaces []string
	// Sockets bounds connections.
	Sockets SocketLimits
	Log     *slog.Logger
}

// Codes of errors: JSON-RPC 2.0's, and EIP-1474's for too many requests.
const (
	codeParse     = -32700
	codeInvalid   = -32600
	codeNoMethod  = -32601
	codeServer    = -32000
	codeExhausted = -32005
)

// mostCalls is how many calls a batch may have, which is a node's own default (avalanchego,
// batch-request-limit). Each may take more room in an answer than in the batch.
const mostCalls = 1000

// Calls answers calls by HTTP. Each call of a batch counts for the allowance of its client.
func (e Ethereum) Calls() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.ContentLength == 0 && r.URL.RawQuery == "" {
			return // somebody looks whether anyone is there
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
			if refused := client.TakeBatch(ctx, w.Header(), len(calls.all)); refused != nil {
				refuse(w, refused)
				return
			}
		}
		answer, err := e.Node.Forward(ctx, e.Path, calls.body, false)
		if err != nil {
			sayJSON(w, calls.fail(codeServer, e.excuse(err)))
			return
		}
		relay(w, answer)
	})
}

// excuse is what clients are told of a failure.
func (e Ethereum) excuse(err error) string {
	e.Log.Warn("a call could not be forwarded", slog.String("path", e.Path), slog.Any("error", err))
	switch {
	case errors.Is(err, node.ErrNoRoom):
		return ErrBusy.Error()
	case errors.Is(err, node.ErrUnsure):
		return Unsure
	}
	return "the upstream node does not answer"
}

// refuse answers as to a request that exceeds the allowance by itself.
func refuse(w http.ResponseWriter, e *apierr.Error) {
	content, _ := json.Marshal(apierr.Body(e)) // of texts and numbers
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(e.Status)
	_, _ = w.Write(content)
}

func sayJSON(w http.ResponseWriter, content []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write(content)
}

// read takes in what a client asks. If it is not passed on, the refusal is the answer,
// which is empty to a notification.
func (e Ethereum) read(body []byte) (c calls, refusal []byte, ok bool) {
	if len(bytes.TrimSpace(body)) == 0 { // on which the node has a word
		return calls{body: body}, nil, true
	}
	c, ok = readCalls(body)
	if !ok {
		return c, c.fail(codeParse, "parse error"), false
	}
	if len(c.all) > mostCalls {
		return c, c.refuse("batch too large"), false
	}
	for _, one := range c.all {
		if e.passes(one.Method) {
			continue
		}
		if !c.batch {
			return c, c.fail(codeNoMethod, unknownMethod(one.Method)), false
		}
		return c, c.fail(codeInvalid, "the batch is not passed on: "+unknownMethod(one.Method)), false
	}
	return c, nil, true
}

// unknownMethod is a node's text for a method of a namespace that is switched off.
func unknownMethod(method string) string {
	const most = 128
	return "the method " + strings.ToValidUTF8(method[:min(len(method), most)], "") + " does not exist/is not available"
}

// passes reports whether a method is passed on. A text without a namespace is no method,
// and left to the node to refuse.
func (e Ethereum) passes(method string) bool {
	namespace, _, found := strings.Cut(method, "_")
	return e.Namespaces == nil || !found || slices.Contains(e.Namespaces, namespace)
}

// ethCall is what is looked at of a call.
type ethCall struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
}

// calls is a call or a batch.
type calls struct {
	// body has what was understood and nothing that follows it.
	body []byte
	// all has the first mostCalls+1 of a batch.
	all   []ethCall
	batch bool
}

// readCalls reads calls as a node does (libevm, package rpc): a member of the wrong type
// is ignored and the others count, so that nothing is a call to the node that is none
// here.
func readCalls(body []byte) (c calls, ok bool) {
	var whole json.RawMessage
	if json.NewDecoder(bytes.NewReader(body)).Decode(&whole) != nil {
		return c, false
	}
	c.body = whole
	if whole[0] != '[' {
		c.all = make([]ethCall, 1)
		_ = json.Unmarshal(whole, &c.all[0])
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
		var call ethCall
		_ = json.Unmarshal(one, &call)
		c.all = append(c.all, call)
	}
	return c, true
}

// refuse is the answer to a batch as a whole, as nodes have it: with the ID of the first
// call that has one.
func (c calls) refuse(message string) []byte {
	first := calls{batch: true} // with null
	if i := slices.IndexFunc(c.all, func(one ethCall) bool { return one.ID != nil && one.Method != "" }); i >= 0 {
		first.all = c.all[i : i+1]
	}
	return first.fail(codeInvalid, message)
}

// fail is the answer to all calls that want one, empty if none does.
func (c calls) fail(code int, message string) []byte {
	type failure struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	answers := make([]failure, 0, max(len(c.all), 1))
	for _, one := range c.all {
		if one.ID == nil && one.Method != "" {
			continue // a notification
		}
		answers = append(answers, failure{Version: "2.0", ID: one.ID})
	}
	if len(c.all) == 0 {
		answers = append(answers, failure{Version: "2.0"})
	}
	for i := range answers {
		answers[i].Error.Code, answers[i].Error.Message = code, message
	}
	var b []byte
	switch {
	case len(answers) == 0:
		return nil
	case c.batch:
		b, _ = json.Marshal(answers) // of texts, numbers, and what was read from JSON
	default:
		b, _ = json.Marshal(answers[0])
	}
	return b
}
