// Package node is the client of one network's upstream avalanchego nodes: JSON-RPC over
// HTTP with failover between endpoints. It returns what a node reports, in avalanchego's
// types, and draws no conclusions.
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
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/database"
)

var (
	// ErrUnavailable reports that no endpoint could be reached, or that all are overloaded.
	ErrUnavailable = errors.New("no upstream node is reachable")
	// ErrMalformed reports that an endpoint sent a response that cannot be parsed, and that
	// no other endpoint sent a better one.
	ErrMalformed = errors.New("the upstream node's response cannot be parsed")
)

// RPCError is a node's refusal of a call. It is final: the Client asks no other endpoint,
// unless the node does not offer the call at all.
type RPCError struct {
	Method  string
	Code    int
	Message string

	cause error // the meaning of the refusal; nil if unknown
	// answer is the response to a forwarded call if the node has no API at its path, nil otherwise.
	answer *Forwarded
}

func (e *RPCError) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return fmt.Sprintf("%s: the node answers %d: %s", e.Method, e.Code, e.Message)
}

// Unwrap returns the meaning of the refusal, for example ErrPruned, or nil if it is
// unknown.
func (e *RPCError) Unwrap() error { return e.cause }

// methodNotFound is the code of JSON-RPC 2.0 for an unknown method.
const methodNotFound = -32601

// NotOffered reports whether the node lacks the method or the whole API, as opposed to not
// finding an object.
func (e *RPCError) NotOffered() bool {
	// avalanchego has no code for this (gorilla/rpc, v2/map.go).
	return e.Code == http.StatusNotFound || e.Code == methodNotFound || notOfferedStatus(e.Code) || strings.HasPrefix(e.Message, "rpc: can't find ")
}

// NotFound reports whether the node does not have the object that was asked for. avalanchego ends the text with that of
// package database.
func (e *RPCError) NotFound() bool { return strings.HasSuffix(e.Message, database.ErrNotFound.Error()) }

// Options of a Client. Endpoints is required.
type Options struct {
	// Endpoints are base URLs, best first, for example http://127.0.0.1:9650. The query of
	// a URL goes with every call and never into logs.
	Endpoints []string
	// Headers are sent with every call to the endpoint of the same index, and never
	// elsewhere or into logs. There may be fewer than endpoints.
	Headers []http.Header
	// Rate, unless nil, limits the calls to all endpoints together. Each call of a batch
	// counts. Clients may share one.
	Rate *Rate
	// Timeout bounds one attempt at one endpoint, including reading the response; 0 means 5
	// s.
	Timeout time.Duration
	// ForwardLimit is the number of calls forwarded to one endpoint at a time; 0 means 256. One
	// client alone gets about three quarters of them. Others wait, up to Timeout.
	ForwardLimit int
	// HTTP makes the calls; nil means a client that New creates. Its CheckRedirect is not
	// used: the Client never follows redirects.
	HTTP *http.Client
	// Wrap, unless nil, wraps the transport of the client that New creates.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Peers answers the calls to the endpoint PeersEndpoint; required if it is among Endpoints.
	Peers Peers
	// Log gets a line when an endpoint fails or recovers; nil means no log.
	Log *slog.Logger
}

// PeersEndpoint stands among endpoints for the peer-to-peer network; see Options.Peers. Wherever it is in
// the list, a Client asks it alone for the methods that it offers.
const PeersEndpoint = "p2p"

const (
	defaultTimeout      = 5 * time.Second
	defaultForwardLimit = 256
	// coolDown is how long an endpoint that failed is asked last.
	coolDown = 5 * time.Second
	// maxResponse bounds a response in bytes. All validator sets of mainnet take a few MB.
	maxResponse = 64 << 20
	// maxHeader bounds the header of a response in bytes.
	maxHeader = 64 << 10
)

// Client calls the nodes of one network. Its methods return the errors of Call unless they
// say otherwise. It is safe for concurrent use.
type Client struct {
	endpoints []*endpoint
	timeout   time.Duration
	limit     int64   // largest response
	gate      *Budget // of the calls for clients, except forwarded ones
	rate      *Rate   // nil means no limit
	log       *slog.Logger
	http      *http.Client
	requests  atomic.Uint64 // ID of the latest request
	last      atomic.Int64  // index of the endpoint that answered latest

	peers   Peers
	peersAt int  // index of PeersEndpoint; negative without it
	judges  bool // whether endpoints are asked whatever their standing is

	mu         sync.Mutex
	unverified bool   // guarded by mu; whether URLs answered for PeersEndpoint since source changed
	source     uint64 // guarded by mu
}

type endpoint struct {
	base    *url.URL
	name    string // base without parts that may be secret
	headers http.Header
	secrets secrets

	calls *Budget // of the calls that are forwarded at a time

	mu       sync.Mutex
	failedAt time.Time // guarded by mu; zero while it works
	workedAt time.Time // guarded by mu; when it answered last
	failing  time.Time // guarded by mu; when the first call after the last one that worked failed; zero while it works
	failures int       // guarded by mu; calls that failed since then
	logged   bool      // guarded by mu; whether this failure was logged
	loggedAt time.Time // guarded by mu; when a failure was logged last
	// heldUntil is when the endpoint may be asked again, as it said (Retry-After).
	heldUntil time.Time          // guarded by mu
	absent    map[string]absence // by path and method; guarded by mu
	standing  Standing           // guarded by mu
	reason    string             // guarded by mu; of standing

	far progress
}

// New returns a Client. It makes no call.
func New(o Options) (*Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no node is configured; name at least one, for example http://127.0.0.1:9650")
	}
	c := &Client{timeout: o.Timeout, limit: maxResponse, gate: NewBudget(gateSize, gateWait), rate: o.Rate, log: o.Log, peers: o.Peers, peersAt: slices.Index(o.Endpoints, PeersEndpoint)}
	if c.peersAt >= 0 && o.Peers == nil {
		return nil, errors.New("the endpoint " + PeersEndpoint + " needs what follows the P-Chain")
	}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if o.ForwardLimit <= 0 {
		o.ForwardLimit = defaultForwardLimit
	}
	for i, text := range o.Endpoints {
		base, name := &url.URL{Scheme: PeersEndpoint, Host: "network"}, text
		if text != PeersEndpoint {
			var err error
			if base, err = ParseEndpoint(text); err != nil {
				return nil, err
			}
			name = base.Scheme + "://" + base.Host + MaskPath(base.Path)
		}
		e := &endpoint{base: base, name: name, calls: NewBudget(int64(o.ForwardLimit)+1, c.timeout)} // which never gives its last unit
		if i < len(o.Headers) {
			e.headers = o.Headers[i].Clone()
		}
		e.secrets = secretsOf(base, e.headers)
		c.endpoints = append(c.endpoints, e)
	}
	if o.HTTP != nil {
		own := *o.HTTP
		c.http = &own
	} else {
		own := &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:    32,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
		}
		if o.Peers != nil {
			own.RegisterProtocol(PeersEndpoint, o.Peers)
		}
		var transport http.RoundTripper = own
		if o.Wrap != nil {
			transport = o.Wrap(transport)
		}
		c.http = &http.Client{Transport: transport}
	}
	// An endpoint must not redirect the token in the URL to another server.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// ParseEndpoint parses the base URL of a node. The error is for the operator and leaves out
// parts that may be secret.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("node %q is not a URL like http://127.0.0.1:9650", maskText(text))
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	u.Fragment = ""
	return u, nil
}

// maskText hides secrets in text that does not parse as a URL. A password may contain the characters that delimit it.
func maskText(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if ok {
		scheme += "://"
	} else {
		scheme, rest = "", text
	}
	end := strings.IndexAny(rest+"/", "/?#")
	host, path := rest[:end], rest[end:]
	if strings.Contains(path, "@") {
		return scheme + "***"
	}
	if i := strings.LastIndex(host, "@"); i >= 0 {
		host = "***" + host[i:]
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return scheme + host + MaskPath(path)
}

// Close closes idle connections.
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

// Call calls a method at path, for example /ext/info, and decodes its result into reply. It
// tries all endpoints that offer the method; see order. While all are overloaded, it repeats the call until
// ctx's deadline. A call for a client enters the gate first. Errors: *RPCError, ErrMalformed, ErrUnavailable, ErrBusy,
// or ctx's own.
func (c *Client) Call(ctx context.Context, path, method string, args, reply any) error {
	return c.try(ctx, path, method, func(ctx context.Context, e *endpoint) error { return c.ask(ctx, e, path, method, args, reply) })
}

// try asks the endpoints for a method at path until one answers. A refusal is an answer. ask must use the context that it
// gets.
func (c *Client) try(ctx context.Context, path, method string, ask func(context.Context, *endpoint) error) error {
	ctx, leave, err := c.Enter(ctx, 1)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer leave()
	return c.repeat(ctx, func() (final bool, err error) { return c.round(ctx, path, method, ask) })
}

// round asks each endpoint once. It is not final if another round may have a result.
func (c *Client) round(ctx context.Context, path, method string, ask func(context.Context, *endpoint) error) (final bool, err error) {
	var failures []error
	var busy *busyError
	var refused *RPCError
	final, stay := true, false
	for _, i := range c.order(path, method) {
		err := ask(ctx, c.endpoints[i])
		if err == nil || errors.As(err, &refused) && !refused.NotOffered() {
			// An endpoint that lacks one method remains the first one for the others.
			if !stay {
				c.last.Store(int64(i))
			}
			return true, err
		}
		if ctx.Err() != nil {
			return true, fmt.Errorf("%s: %w", method, ctx.Err())
		}
		stay = stay || errors.As(err, &refused)
		final = final && !errors.As(err, &busy)
		failures = append(failures, err)
	}
	return final, conclude(method, failures)
}

// malformedError makes ErrMalformed the result of a call if no endpoint does better.
type malformedError struct{ error }

func (e malformedError) Unwrap() error { return e.error }

// ErrTooLong is the ErrMalformed of a response that exceeds the limit. A smaller request
// may succeed.
var ErrTooLong = fmt.Errorf("%w: it is too long", ErrMalformed)

// conclude returns the error of a call that no endpoint answered. Only its kind can be
// tested with errors.Is; the failures of endpoints are text.
func conclude(method string, failures []error) error {
	var kind, absent error // absent is set if the endpoints that answered lack a block
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
		case errors.Is(err, ErrTooLong):
			kind = ErrTooLong
		case errors.As(err, &bad):
			kind = ErrMalformed
		case kind == nil:
			// This endpoint may offer the method even if the others do not.
			kind = ErrUnavailable
		}
	}
	if kind = cmp.Or(kind, absent); kind == nil {
		return failures[0]
	}
	return fmt.Errorf("%s: %w: %s", method, kind, strings.Join(texts, "; "))
}

func (e *endpoint) cooling() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.failedAt.IsZero() && time.Since(e.failedAt) < coolDown
}

const (
	// sporadicCalls are how many calls in a row an overloaded endpoint may fail without a log line, and sporadic is for
	// how long.
	sporadicCalls = 3
	sporadic      = time.Second
	// logAgain is the least time between two log lines about failures of an endpoint.
	logAgain = time.Minute
)

// failed notes that the endpoint did not answer. It logs the first failure, but not that of
// an endpoint that is overloaded for a moment, nor each one if they come and go.
func (e *endpoint) failed(log *slog.Logger, err error) {
	var busy *busyError
	now := time.Now()
	e.mu.Lock()
	e.failedAt = now
	if e.failing.IsZero() {
		e.failing = now
	}
	e.failures++
	show := !e.logged && (e.failures > sporadicCalls && now.Sub(e.failing) >= sporadic || !errors.As(err, &busy)) && (e.loggedAt.IsZero() || now.Sub(e.loggedAt) >= logAgain)
	if show {
		e.logged, e.loggedAt = true, now
	}
	e.mu.Unlock()
	if show {
		log.Warn("upstream node fails", slog.String("node", e.name), slog.Any("error", err))
	}
}

// works notes that the endpoint answered. It logs the end of a failure that was logged.
func (e *endpoint) works(log *slog.Logger) {
	e.mu.Lock()
	back := e.logged
	e.failedAt, e.failing, e.failures, e.logged = time.Time{}, time.Time{}, 0, false
	e.workedAt = time.Now()
	e.mu.Unlock()
	if back {
		log.Info("upstream node works again", slog.String("node", e.name))
	}
}

// slow reports whether a call that began at a time timed out although the endpoint has answered others since.
func (e *endpoint) slow(began time.Time, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Is(err, context.DeadlineExceeded) && !e.workedAt.IsZero() && !e.workedAt.Before(began)
}

// ask calls one endpoint and notes whether it works. A context error in the result is ctx's
// own, never that of the attempt's timeout.
func (c *Client) ask(ctx context.Context, e *endpoint, path, method string, args, reply any) error {
	body, err := json.Marshal(request{JSONRPC: "2.0", ID: c.requests.Add(1), Method: method, Params: args})
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	return c.exchange(ctx, e, exchange{path: path, method: method, body: body, timeout: c.timeout, limit: c.limit, read: func(status int, content []byte) error {
		return readAnswer(status, content, path, method, reply)
	}})
}

// exchange is a request to one endpoint.
type exchange struct {
	path string
	// method is for error texts.
	method  string
	body    []byte
	calls   int // in body if it is a batch, else 0
	timeout time.Duration
	limit   int64 // of the response in bytes
	// read parses a response with status 200, 400 or 404. It may retain content.
	read func(status int, content []byte) error
}

// exchange makes a request, unless the endpoint is known not to offer it or asked to be left
// alone.
func (c *Client) exchange(ctx context.Context, e *endpoint, x exchange) error {
	call := x.path + " " + x.method
	if x.calls > 0 {
		call += " in a batch"
	}
	if refusal := e.lacks(call); refusal != nil {
		return refusal
	}
	err := c.mayAsk(e)
	if err == nil {
		err = c.await(ctx, x.calls)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	began := time.Now()
	err = c.attempt(ctx, e, x)
	var refused *RPCError
	if errors.As(err, &refused) {
		refused.Message = e.secrets.hide(refused.Message)
		if busyStatus(refused.Code) { // as some providers say it with status 200
			err, refused = &busyError{refused.Error(), true}, nil
		}
	}
	if err == nil || refused != nil {
		e.works(c.log)
		e.noteOffer(c.log, call, err)
		return err
	}
	return c.settle(ctx, e, x.method, x.timeout, began, err)
}

// settle notes that an endpoint did not answer what, which began at a time, and returns the reason. A timeout is the
// endpoint's failure only if it has answered nothing else since: a client may choose a call that takes long.
func (c *Client) settle(ctx context.Context, e *endpoint, what string, timeout time.Duration, began time.Time, err error) error {
	switch {
	case errors.Is(err, ErrTooLong), errors.Is(err, ErrNoRoom):
		e.works(c.log) // the caller must ask for less
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	default:
		slow := e.slow(began, err)
		if err = e.secrets.hideIn(c.withoutURL(err, timeout)); !slow {
			e.failed(c.log, err)
		}
	}
	return fmt.Errorf("%s: %w", e.name, err)
}

// withoutURL returns the error of an attempt without the URL, which errors of net/http
// contain with its query.
func (c *Client) withoutURL(err error, timeout time.Duration) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("no response within %s", timeout)
	}
	return err
}

// mostAhead is how much memory is allocated before a response arrives, in bytes, if its length is announced.
const mostAhead = 8 << 20

func (c *Client) attempt(ctx context.Context, e *endpoint, x exchange) error {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	answer, err := c.post(ctx, e, x.path, x.body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	var buffer bytes.Buffer
	// ReadFrom wants bytes.MinRead free bytes at the end. A larger response allocates only
	// as it arrives.
	buffer.Grow(int(min(max(answer.ContentLength, 0), x.limit, mostAhead)) + bytes.MinRead)
	if _, err := buffer.ReadFrom(io.LimitReader(answer.Body, x.limit+1)); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	content := buffer.Bytes()
	if int64(len(content)) > x.limit {
		return malformedError{fmt.Errorf("%w: more than %d bytes", ErrTooLong, x.limit)}
	}
	if err := e.checkStatus(x.method, answer, content); err != nil {
		return err
	}
	return x.read(answer.StatusCode, content)
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
	maps.Copy(r.Header, e.headers)
	return c.http.Do(r)
}

// nullable is a result that a node may give as null, which leaves it empty.
type nullable struct{ json.RawMessage }

func mayBeNull(reply any) bool {
	_, ok := reply.(*nullable)
	return ok
}

// noAPI returns the error of an endpoint without an API at path. avalanchego answers 404 if it does not run the blockchain or
// API.
func noAPI(path, method string) *RPCError {
	return &RPCError{Method: method, Code: http.StatusNotFound, Message: "no such API at " + path}
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
		return noAPI(path, method)
	case status != http.StatusOK:
		return fmt.Errorf("HTTP status %d: %s", status, excerpt(content))
	case err != nil:
		return malformedError{fmt.Errorf("%w: %s", err, excerpt(content))}
	case string(decoded.Result) == "null" && mayBeNull(reply):
		return nil
	case len(decoded.Result) == 0 || string(decoded.Result) == "null":
		return malformedError{errors.New("neither result nor error")}
	}
	// A result that fails half way leaves nothing behind: the next endpoint's is decoded into the same reply.
	value := reflect.ValueOf(reply).Elem()
	before := reflect.New(value.Type()).Elem()
	before.Set(value)
	if err := json.Unmarshal(decoded.Result, reply); err != nil {
		value.Set(before)
		return malformedError{fmt.Errorf("result: %w", err)}
	}
	return nil
}
