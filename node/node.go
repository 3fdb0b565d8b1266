// Package node is the client of one network's upstream avalanchego nodes: JSON-RPC
// over HTTP with failover between several endpoints. It says what a node says,
// in the library's terms, and draws no conclusions.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrUnavailable: no endpoint could be reached, or all are overloaded.
	ErrUnavailable = errors.New("no upstream node is reachable")
	// ErrMalformed: an endpoint answered with something that is no answer.
	ErrMalformed = errors.New("the upstream node's answer cannot be read")
)

// RPCError is a node's own refusal of a call. It is final: other endpoints are
// not asked.
type RPCError struct {
	Method  string
	Code    int
	Message string
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("%s: the node answers %d: %s", e.Method, e.Code, e.Message)
}

// Options of a Client. Endpoints is required.
type Options struct {
	// Endpoints are base URLs such as http://127.0.0.1:9650, best first. A query
	// is kept and sent with every call.
	Endpoints []string
	// Timeout bounds one attempt at one endpoint; 0 means 5 s.
	Timeout time.Duration
	// Headers are sent with every call.
	Headers map[string]string
	// Log gets a line when an endpoint fails or comes back; nil drops them.
	Log *slog.Logger
}

const (
	defaultTimeout = 5 * time.Second
	// coolDown is how long an endpoint that failed is asked last.
	coolDown = 5 * time.Second
	// maxResponse bounds an answer, in bytes: all validator sets of mainnet take
	// a few MB.
	maxResponse = 64 << 20
)

// Client calls the nodes of one network. Safe for concurrent use.
type Client struct {
	endpoints []*endpoint
	timeout   time.Duration
	headers   map[string]string
	log       *slog.Logger
	http      *http.Client
	next      atomic.Uint64 // request IDs
}

type endpoint struct {
	base *url.URL

	mu       sync.Mutex
	failedAt time.Time // guarded by mu; zero while it works
}

// New makes a Client. It makes no call.
func New(o Options) (*Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no node is given; name at least one, such as http://127.0.0.1:9650")
	}
	c := &Client{timeout: o.Timeout, headers: o.Headers, log: o.Log}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	for _, text := range o.Endpoints {
		base, err := ParseEndpoint(text)
		if err != nil {
			return nil, err
		}
		c.endpoints = append(c.endpoints, &endpoint{base: base})
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxIdleConnsPerHost: 32,
			IdleConnTimeout:     90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirects are not followed")
		},
	}
	return c, nil
}

// ParseEndpoint reads the base URL of a node.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("node %q is no URL such as http://127.0.0.1:9650", text)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.Fragment = ""
	return u, nil
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

// Call calls a method at path (such as /ext/info) of the first endpoint that
// works and decodes its result into reply. Errors: *RPCError, ErrMalformed,
// ErrUnavailable, or ctx's own.
func (c *Client) Call(ctx context.Context, path, method string, args, reply any) error {
	body, err := json.Marshal(request{JSONRPC: "2.0", ID: c.next.Add(1), Method: method, Params: args})
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	var failures []error
	for _, e := range c.order() {
		err := c.attempt(ctx, e, path, method, body, reply)
		var refused *RPCError
		if err == nil || errors.As(err, &refused) {
			e.works(c.log)
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", method, ctx.Err())
		}
		e.failed(c.log, err)
		failures = append(failures, fmt.Errorf("%s: %w", e.base.Redacted(), err))
	}
	cause := errors.Join(failures...)
	if errors.Is(cause, ErrMalformed) {
		return fmt.Errorf("%s: %w", method, cause)
	}
	return fmt.Errorf("%s: %w: %w", method, ErrUnavailable, cause)
}

// order lists the endpoints as configured, those in their cool-down last.
func (c *Client) order() []*endpoint {
	order := make([]*endpoint, 0, len(c.endpoints))
	var cooling []*endpoint
	for _, e := range c.endpoints {
		if e.cooling() {
			cooling = append(cooling, e)
		} else {
			order = append(order, e)
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
		log.Warn("upstream node fails", slog.String("node", e.base.Redacted()), slog.Any("error", err))
	}
}

func (e *endpoint) works(log *slog.Logger) {
	e.mu.Lock()
	back := !e.failedAt.IsZero()
	e.failedAt = time.Time{}
	e.mu.Unlock()
	if back {
		log.Info("upstream node works again", slog.String("node", e.base.Redacted()))
	}
}

func (c *Client) attempt(ctx context.Context, e *endpoint, path, method string, body []byte, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := *e.base
	u.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for k, v := range c.headers {
		r.Header.Set(k, v)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse+1))
	if err != nil {
		return err
	}
	if len(content) > maxResponse {
		return fmt.Errorf("%w: more than %d bytes", ErrMalformed, maxResponse)
	}
	var decoded response
	if err := json.Unmarshal(content, &decoded); err != nil {
		if answer.StatusCode == http.StatusNotFound {
			// The node's way to say that it runs no such blockchain or API.
			return &RPCError{Method: method, Code: http.StatusNotFound, Message: "no such API at " + path}
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP status %s", answer.Status)
		}
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if decoded.Error != nil && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests {
		return &RPCError{Method: method, Code: decoded.Error.Code, Message: decoded.Error.Message}
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %s", answer.Status)
	}
	if len(decoded.Result) == 0 || string(decoded.Result) == "null" {
		return fmt.Errorf("%w: neither result nor error", ErrMalformed)
	}
	if err := json.Unmarshal(decoded.Result, reply); err != nil {
		return fmt.Errorf("%w: result: %w", ErrMalformed, err)
	}
	return nil
}
