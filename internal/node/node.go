// Package node is the client of one network's upstream avalanchego nodes: JSON-RPC
// over HTTP with failover between several endpoints. It says what a node says,
// in the library's terms, and draws no conclusions.
package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

var (
	// ErrUnavailable says that no endpoint could be reached, or that all are
	// overloaded.
	ErrUnavailable = errors.New("no upstream node is reachable")
	// ErrMalformed says that an endpoint answered with something that is no
	// answer, and that no other one did better.
	ErrMalformed = errors.New("the upstream node's answer cannot be read")
)

// RPCError is a node's own refusal of a call. It is final: other endpoints are
// not asked, unless it says that the node does not offer the call at all.
type RPCError struct {
	Method  string
	Code    int
	Message string

	cause error // what the refusal means; nil if nothing else is known
}

func (e *RPCError) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return fmt.Sprintf("%s: the node answers %d: %s", e.Method, e.Code, e.Message)
}

// Unwrap returns what the refusal means, such as ErrPruned; nil if nothing is known.
func (e *RPCError) Unwrap() error { return e.cause }

// methodNotFound is JSON-RPC 2.0's.
const methodNotFound = -32601

// NotOffered reports whether the node lacks the method or the whole API, as
// opposed to having looked and found nothing.
func (e *RPCError) NotOffered() bool {
	// avalanchego has no code of its own for it (gorilla/rpc, v2/map.go).
	return e.Code == http.StatusNotFound || e.Code == methodNotFound || strings.HasPrefix(e.Message, "rpc: can't find ")
}

// Options of a Client. Endpoints is required.
type Options struct {
	// Endpoints are base URLs such as http://127.0.0.1:9650, best first. A query
	// is kept and sent with every call, and never logged.
	Endpoints []string
	// Timeout bounds one attempt at one endpoint, reading the answer included;
	// 0 means 5 s.
	Timeout time.Duration
	// ForwardLimit is how many calls are forwarded to one endpoint at a time; 0 means
	// 256. Some more wait for their turn.
	ForwardLimit int
	// Headers are sent with every call.
	Headers map[string]string
	// HTTP makes the calls; nil means a client of our own. Its CheckRedirect is
	// not used: redirects are never followed.
	HTTP *http.Client
	// Wrap, unless nil, is put around what makes the calls of a client of our own.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Log gets a line when an endpoint fails or comes back; nil drops them.
	Log *slog.Logger
}

const (
	defaultTimeout      = 5 * time.Second
	defaultForwardLimit = 256
	// coolDown is how long an endpoint that failed is asked last.
	coolDown = 5 * time.Second
	// maxResponse bounds an answer, in bytes: all validator sets of mainnet take
	// a few MB.
	maxResponse = 64 << 20
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
)

// Client calls the nodes of one network. Errors of its methods are those of Call where
// nothing else is said. Safe for concurrent use.
type Client struct {
	endpoints []*endpoint
	timeout   time.Duration
	limit     int64 // bytes of an answer
	headers   map[string]string
	log       *slog.Logger
	http      *http.Client
	buffers   sync.Pool     // of *bytes.Buffer, for answers
	requests  atomic.Uint64 // the last one's ID
	last      atomic.Int64  // index of the endpoint that answered last
}

type endpoint struct {
	base *url.URL
	name string // of base, without what may be a secret

	calls   chan struct{} // those that are being forwarded
	waiting atomic.Int64  // calls that wait for their turn

	mu       sync.Mutex
	failedAt time.Time // guarded by mu; zero while it works

	far progress
}

// New makes a Client. It makes no call.
func New(o Options) (*Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no node is given; name at least one, such as http://127.0.0.1:9650")
	}
	c := &Client{timeout: o.Timeout, limit: maxResponse, headers: maps.Clone(o.Headers), log: o.Log}
	c.buffers.New = func() any { return new(bytes.Buffer) }
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if o.ForwardLimit <= 0 {
		o.ForwardLimit = defaultForwardLimit
	}
	for _, text := range o.Endpoints {
		base, err := ParseEndpoint(text)
		if err != nil {
			return nil, err
		}
		c.endpoints = append(c.endpoints, &endpoint{base: base, name: base.Scheme + "://" + base.Host + MaskPath(base.Path), calls: make(chan struct{}, o.ForwardLimit)})
	}
	if o.HTTP != nil {
		own := *o.HTTP
		c.http = &own
	} else {
		var transport http.RoundTripper = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:    32,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
		}
		if o.Wrap != nil {
			transport = o.Wrap(transport)
		}
		c.http = &http.Client{Transport: transport}
	}
	// Whoever answers with a redirect could send our token and trust elsewhere.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// ParseEndpoint reads the base URL of a node. The error is for whoever configured it, and
// leaves out what may be a secret.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		shown, _, _ := strings.Cut(text, "?") // a token may follow
		if i := strings.LastIndex(shown, "@"); i >= 0 {
			shown = "***" + shown[i:] // a password may be before
		}
		return nil, fmt.Errorf("node %q is no URL such as http://127.0.0.1:9650", shown)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	u.Fragment = ""
	return u, nil
}

// MaskPath is the path of a URL as it may be shown: parts that are long enough for a
// token, and are no blockchain's ID, are left out.
func MaskPath(path string) string {
	const shortest = 16
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if _, err := ids.FromString(part); err != nil && len(part) >= shortest {
			parts[i] = "***"
		}
	}
	return strings.Join(parts, "/")
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

type request struct {
	JSONRPC string `json:"jsonrpc"`
	ID      uint64 `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type response struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Call calls a method at path (such as /ext/info) and decodes its result into
// reply. The endpoint that answered last is asked first, those that failed in the
// last seconds at the end; all are tried. Errors: *RPCError, ErrMalformed,
// ErrUnavailable, or ctx's own.
func (c *Client) Call(ctx context.Context, path, method string, args, reply any) error {
	return c.try(ctx, method, func(e *endpoint) error { return c.ask(ctx, e, path, method, args, reply) })
}

// try asks endpoints until one answers, be it with a refusal.
func (c *Client) try(ctx context.Context, method string, ask func(*endpoint) error) error {
	var failures []error
	for _, i := range c.order() {
		err := ask(c.endpoints[i])
		var refused *RPCError
		if err == nil || errors.As(err, &refused) && !refused.NotOffered() {
			c.last.Store(int64(i))
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", method, ctx.Err())
		}
		failures = append(failures, err)
	}
	return conclude(method, failures)
}

// malformedError makes ErrMalformed the conclusion of a call, if nobody does better.
type malformedError struct{ error }

func (e malformedError) Unwrap() error { return e.error }

// errOversized is the ErrMalformed of an answer that is longer than what is read: it
// may have been too much at once.
var errOversized = fmt.Errorf("%w: it is too long", ErrMalformed)

// conclude says what came of a call that no endpoint answered. Only the
// conclusion can be told from the error, what each endpoint did is text.
func conclude(method string, failures []error) error {
	var kind, absent error // absent is a block that those do not have who answer
	texts := make([]string, len(failures))
	for i, err := range failures {
		texts[i] = err.Error()
		var refused *RPCError
		var bad malformedError
		switch {
		case errors.As(err, &refused):
		case errors.Is(err, ErrPruned):
			absent = ErrPruned
		case errors.Is(err, ErrBeyondTip):
			absent = cmp.Or(absent, ErrBeyondTip)
		case errors.Is(err, errOversized):
			kind = errOversized
		case errors.As(err, &bad):
			kind = ErrMalformed
		case kind == nil:
			// Even if the others lack what is called, this one may offer it.
			kind = ErrUnavailable
		}
	}
	if kind = cmp.Or(kind, absent); kind == nil {
		return failures[0]
	}
	return fmt.Errorf("%s: %w: %s", method, kind, strings.Join(texts, "; "))
}

// order lists the indexes of the endpoints, the one that answered last first,
// the others as configured, those in their cool-down at the end.
func (c *Client) order() []int {
	order := make([]int, 0, len(c.endpoints))
	var cooling []int
	add := func(i int) {
		if c.endpoints[i].cooling() {
			cooling = append(cooling, i)
		} else {
			order = append(order, i)
		}
	}
	last := int(c.last.Load())
	add(last)
	for i := range c.endpoints {
		if i != last {
			add(i)
		}
	}
	return append(order, cooling...)
}

func (e *endpoint) cooling() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.failedAt.IsZero() && time.Since(e.failedAt) < coolDown
}

func (e *endpoint) failed(log *slog.Logger, err error) {
	e.mu.Lock()
	first := e.failedAt.IsZero()
	e.failedAt = time.Now()
	e.mu.Unlock()
	if first {
		log.Warn("upstream node fails", slog.String("node", e.name), slog.Any("error", err))
	}
}

func (e *endpoint) works(log *slog.Logger) {
	e.mu.Lock()
	back := !e.failedAt.IsZero()
	e.failedAt = time.Time{}
	e.mu.Unlock()
	if back {
		log.Info("upstream node works again", slog.String("node", e.name))
	}
}

// ask calls one endpoint and notes whether it works. A context error in the
// result is ctx's own, never that of the attempt's timeout.
func (c *Client) ask(ctx context.Context, e *endpoint, path, method string, args, reply any) error {
	body, err := json.Marshal(request{JSONRPC: "2.0", ID: c.requests.Add(1), Method: method, Params: args})
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	return c.exchange(ctx, e, exchange{path: path, method: method, body: body, timeout: c.timeout, read: func(status int, content []byte) error {
		return readAnswer(status, content, path, method, reply)
	}})
}

// exchange is a request to an endpoint.
type exchange struct {
	path string
	// method is for errors.
	method  string
	body    []byte
	timeout time.Duration
	// read reads an answer with one of the statuses 200, 400 and 404. Unless keeps, it
	// holds on to nothing of the content.
	read  func(status int, content []byte) error
	keeps bool
}

func (c *Client) exchange(ctx context.Context, e *endpoint, x exchange) error {
	err := c.attempt(ctx, e, x)
	var refused *RPCError
	if err == nil || errors.As(err, &refused) {
		e.works(c.log)
		return err
	}
	return c.settle(ctx, e, x.method, x.timeout, err)
}

// settle notes that an endpoint gave no answer to what, and says why.
func (c *Client) settle(ctx context.Context, e *endpoint, what string, timeout time.Duration, err error) error {
	switch {
	case errors.Is(err, errOversized), errors.Is(err, ErrNoRoom):
		e.works(c.log) // whoever asked for so much has to ask for less
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	default:
		err = c.withoutURL(err, timeout)
		e.failed(c.log, err)
	}
	return fmt.Errorf("%s: %w", e.name, err)
}

// withoutURL is the error of an attempt as it may be told: http's own errors repeat
// the URL, its query included.
func (c *Client) withoutURL(err error, timeout time.Duration) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("no answer within %s", timeout)
	}
	return err
}

// keptBuffer is the size of the largest buffer that is used again, in bytes.
const keptBuffer = 8 << 20

func (c *Client) release(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		c.buffers.Put(b)
	}
}

func (c *Client) attempt(ctx context.Context, e *endpoint, x exchange) error {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	answer, err := c.post(ctx, e, x.path, x.body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	buffer := new(bytes.Buffer)
	if !x.keeps {
		buffer = c.buffers.Get().(*bytes.Buffer)
		defer c.release(buffer)
		buffer.Reset()
	}
	// With room for what ReadFrom wants to be free at the end. What is larger has to
	// arrive before it takes room.
	buffer.Grow(int(min(max(answer.ContentLength, 0), c.limit, keptBuffer)) + bytes.MinRead)
	if _, err := buffer.ReadFrom(io.LimitReader(answer.Body, c.limit+1)); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	content := buffer.Bytes()
	if int64(len(content)) > c.limit {
		return malformedError{fmt.Errorf("%w: it has more than %d bytes", errOversized, c.limit)}
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusBadRequest, http.StatusNotFound:
		return x.read(answer.StatusCode, content)
	}
	return fmt.Errorf("HTTP status %s", answer.Status)
}

// post sends body, which is JSON, to path of an endpoint.
func (c *Client) post(ctx context.Context, e *endpoint, path string, body []byte) (*http.Response, error) {
	u := *e.base
	u.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for k, v := range c.headers {
		r.Header.Set(k, v)
	}
	return c.http.Do(r)
}

// nullable is a result that a node may give as null, which leaves it empty.
type nullable struct{ json.RawMessage }

func mayBeNull(reply any) bool {
	_, ok := reply.(*nullable)
	return ok
}

func readAnswer(status int, content []byte, path, method string, reply any) error {
	if quick, ok := reply.(shortcut); ok && status == http.StatusOK && quick.readUsual(content) {
		return nil
	}
	var decoded response
	err := json.Unmarshal(content, &decoded)
	if err == nil && decoded.Error != nil {
		return &RPCError{Method: method, Code: decoded.Error.Code, Message: decoded.Error.Message}
	}
	switch {
	case status == http.StatusNotFound:
		// The node's way to say that it runs no such blockchain or API.
		return &RPCError{Method: method, Code: http.StatusNotFound, Message: "no such API at " + path}
	case status != http.StatusOK:
		return fmt.Errorf("HTTP status %d", status)
	case err != nil:
		return malformedError{err}
	case string(decoded.Result) == "null" && mayBeNull(reply):
		return nil
	case len(decoded.Result) == 0 || string(decoded.Result) == "null":
		return malformedError{errors.New("neither result nor error")}
	}
	if err := json.Unmarshal(decoded.Result, reply); err != nil {
		return malformedError{fmt.Errorf("result: %w", err)}
	}
	return nil
}
