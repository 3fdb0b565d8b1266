package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Forwarded is a node's unchanged response.
type Forwarded struct {
	Status int
	// Header has the header fields that describe the body.
	Header http.Header
	Body   []byte
}

// hedgeAfter is how long a node may take before the next one is asked in parallel.
const hedgeAfter = 300 * time.Millisecond

// ErrSlow reports that a node did not answer a call in time while it answered others: the call
// takes long, and another node would take as long.
var ErrSlow = errors.New("the call takes longer than the service waits")

// ErrUnsure reports that a node received a transaction and did not answer. The node may
// have issued it.
var ErrUnsure = errors.New("the transaction may have been issued: the node that received it did not answer")

// Forward posts body, which is JSON, to path of a node and returns the response, whatever
// its content. It asks the endpoint that answered latest first, and the next one if that
// fails. If hedged, it also asks the next one if a response takes long. A call that may do
// more than read goes to one node only, unless that node cannot be reached or refuses all
// calls: a second node would reject a transaction that the first one accepted. While all
// nodes are overloaded, it repeats the call until ctx's deadline. The calls that one endpoint
// handles at a time are divided among clients, and the response counts against ctx's Budget.
// Errors: ErrUnavailable, an *RPCError that is NotOffered if the nodes do not allow the call,
// ErrUnsure, ErrSlow, ErrBusy, ErrMalformed if a response is too long, ErrNoRoom, or ctx's
// own.
func (c *Client) Forward(ctx context.Context, path string, body []byte, hedged bool) (*Forwarded, error) {
	var answer *Forwarded
	err := c.repeat(ctx, func() (final bool, err error) {
		answer, err = c.forwardOnce(ctx, path, body, hedged)
		var busy *busyError
		return !errors.Is(err, ErrUnavailable) || !errors.As(err, &busy), err
	})
	return answer, err
}

// forwardOnce is Forward with one attempt at each node. An ErrUnavailable wraps a busyError
// if another attempt may succeed.
func (c *Client) forwardOnce(ctx context.Context, path string, body []byte, hedged bool) (*Forwarded, error) {
	type result struct {
		endpoint int
		answer   *Forwarded
		taken    bool
		err      error
	}
	once := !repeatable(body) // by two nodes
	hedged = hedged && !once
	attempts, cancel := context.WithCancel(ctx)
	defer cancel()
	var methods []string
	if c.peersAt >= 0 { // otherwise they do not matter
		methods = methodsOf(body)
	}
	order := c.order(path, methods...)
	results := make(chan result, len(order)) // buffered, so that slower attempts never block
	asked := 0
	ask := func() {
		i := order[asked]
		asked++
		go func() {
			answer, taken, err := c.forward(attempts, c.endpoints[i], path, body)
			results <- result{i, answer, taken, err}
		}()
	}
	ask()
	var failures []error
	stay := false // whether the preferred endpoint remains so for other calls
	hedge := time.NewTimer(hedgeAfter)
	defer hedge.Stop()
	for {
		late := hedge.C
		if !hedged || asked == len(order) {
			late = nil
		}
		select {
		case <-late:
			ask()
			hedge.Reset(hedgeAfter)
		case r := <-results:
			if r.err == nil {
				if !stay && asked == len(failures)+1 { // otherwise an earlier endpoint is slow with this call alone
					c.last.Store(int64(r.endpoint))
				}
				return r.answer, nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("forwarding to %s: %w", path, ctx.Err())
			}
			if errors.Is(r.err, ErrTooLong) || errors.Is(r.err, ErrNoRoom) {
				return nil, fmt.Errorf("forwarding to %s: %w", path, r.err) // another node's response is as long
			}
			if once && r.taken {
				if issues(body) {
					r.err = fmt.Errorf("%w: %w", ErrUnsure, r.err)
				}
				return nil, fmt.Errorf("forwarding to %s: %w", path, r.err)
			}
			failures = append(failures, r.err)
			stay = stay || errors.Is(r.err, ErrBusy) || errors.As(r.err, new(*RPCError))
			if errors.Is(r.err, ErrSlow) {
				order = order[:asked]
			}
			switch {
			case asked > len(failures):
			case asked == len(order):
				if answer := missingAPI(failures); answer != nil {
					return answer, nil
				}
				return nil, fmt.Errorf("forwarding to %s: %w", path, unforwarded(failures))
			default:
				ask()
			}
		}
	}
}

// missingAPI returns the first response if no endpoint has the API, which clients get as it is; otherwise nil.
func missingAPI(failures []error) *Forwarded {
	var first *Forwarded
	for _, err := range failures {
		var refusal *RPCError
		if !errors.As(err, &refusal) || refusal.answer == nil {
			return nil
		}
		if first == nil {
			first = refusal.answer
		}
	}
	return first
}

// unforwarded returns the error of a call that no endpoint answered.
func unforwarded(failures []error) error {
	refusals := 0
	for _, err := range failures {
		if errors.Is(err, ErrSlow) {
			return err
		}
		if errors.As(err, new(*RPCError)) {
			refusals++
		}
	}
	if refusals == len(failures) {
		return failures[0]
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(failures...))
}

// Load is the load of a client's endpoints.
type Load struct {
	Endpoints int
	// Failing is the number of endpoints whose latest call failed.
	Failing int
	// InFlight is the number of calls being forwarded.
	InFlight int
}

// Load returns the current load of the endpoints.
func (c *Client) Load() Load {
	l := Load{Endpoints: len(c.endpoints)}
	for _, e := range c.endpoints {
		e.mu.Lock()
		if !e.failedAt.IsZero() {
			l.Failing++
		}
		e.mu.Unlock()
		l.InFlight += int(e.calls.Usage().Bytes)
	}
	return l
}

// methodsOf returns the methods of body, a call or a batch; nil if it is not JSON. Like a node (libevm, package rpc), it
// ignores what follows and reads the other fields and calls if one has the wrong type.
func methodsOf(body []byte) []string {
	var whole json.RawMessage
	if json.NewDecoder(bytes.NewReader(body)).Decode(&whole) != nil {
		return nil
	}
	calls := []json.RawMessage{whole}
	if whole[0] == '[' {
		calls = nil
		_ = json.Unmarshal(whole, &calls) // never fails: whole is valid
	}
	methods := make([]string, len(calls))
	for i, raw := range calls {
		var call struct {
			Method string `json:"method"`
		}
		_ = json.Unmarshal(raw, &call)
		methods[i] = call.Method
	}
	return methods
}

// issues reports whether body, a call or a batch, issues a transaction.
func issues(body []byte) bool {
	return slices.ContainsFunc(methodsOf(body), func(name string) bool {
		_, method, _ := strings.Cut(name, ".")
		return strings.HasPrefix(method, "issue") || strings.HasPrefix(name, "eth_send")
	})
}

// repeatable reports whether body, a call or a batch, only reads, so that a second node may
// get it too. It is also true if body is neither: nodes refuse it.
func repeatable(body []byte) bool {
	return !slices.ContainsFunc(methodsOf(body), func(name string) bool { return !reads(name) })
}

// readPrefixes are the beginnings of methods that only read, without their service or
// namespace (avalanchego, libevm).
var readPrefixes = []string{
	"acps", "accounts", "baseFee", "blockNumber", "call", "chainId", "clientVersion", "content", "createAccessList",
	"estimate", "fee", "gasPrice", "get", "health", "inspect", "isAccepted", "isBootstrapped", "listening", "maxPriorityFeePerGas", "modules",
	"peers", "sampleValidators", "sha3", "simulate", "status", "suggest", "syncing", "trace", "upgrades", "uptime",
	"validatedBy", "validates", "version",
}

// reads reports whether a method is known to change nothing at the node.
func reads(name string) bool {
	i := strings.IndexAny(name, "._")
	method := name[i+1:]
	if i < 0 || strings.HasSuffix(method, "FilterChanges") { // which takes them from the node's filter
		return i < 0
	}
	return slices.ContainsFunc(readPrefixes, func(prefix string) bool { return strings.HasPrefix(method, prefix) })
}

// forward asks one endpoint and notes whether it works. If it fails, taken reports whether
// the node may have received the call.
func (c *Client) forward(ctx context.Context, e *endpoint, path string, body []byte) (answer *Forwarded, taken bool, err error) {
	id := clientOf(ctx)
	if err = c.mayAsk(e); err == nil {
		if err = e.calls.acquire(ctx, id, 1); errors.Is(err, ErrNoRoom) {
			err = ErrBusy
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", e.name, err)
	}
	defer e.calls.release(id, 1)
	if c.rate != nil {
		if err := c.await(ctx, len(methodsOf(body))); err != nil {
			return nil, false, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	// A call that waits for a connection has not been sent. A transport without trace
	// events leaves this unknown.
	var wanted, connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	began := time.Now()
	answer, err = c.raw(traced, e, path, body)
	if err != nil {
		var busy *busyError
		var refusal *RPCError
		switch {
		case errors.As(err, &refusal):
			e.works(c.log)
			refusal.Message = e.secrets.hide(refusal.Message)
			return nil, false, refusal
		case errors.As(err, &busy):
			taken = !busy.refused
		default:
			taken = !wanted.Load() || connected.Load()
		}
		slow := ctx.Err() == nil && e.slow(began, err)
		if err = c.settle(ctx, e, path, c.timeout, began, err); slow {
			err = fmt.Errorf("%w: %w", ErrSlow, err)
		}
		return nil, taken, err
	}
	e.works(c.log)
	return answer, true, nil
}

// raw returns an endpoint's response if it is JSON, whatever its content.
func (c *Client) raw(ctx context.Context, e *endpoint, path string, body []byte) (*Forwarded, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.post(ctx, e, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := ReadAll(ctx, answer.Body, answer.ContentLength, c.limit)
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	// Clients get the other statuses as they are.
	if code := answer.StatusCode; busyStatus(code) || notOfferedStatus(code) || code >= 300 && code < 400 {
		return nil, e.checkStatus(path, answer, content)
	}
	// Clients get only JSON. The response to a notification is empty.
	if answer.StatusCode == http.StatusOK && len(content) > 0 && !json.Valid(content) {
		return nil, fmt.Errorf("%w: the response is not JSON", ErrMalformed)
	}
	header := make(http.Header)
	for _, name := range []string{"Content-Type", "X-Content-Type-Options", "Allow"} {
		if values := answer.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	forwarded := &Forwarded{Status: answer.StatusCode, Header: header, Body: e.secrets.hideInBody(answer.StatusCode, content)}
	if answer.StatusCode == http.StatusNotFound { // gateways may also answer calls with it
		var decoded response
		if json.Unmarshal(content, &decoded) != nil || decoded.Error == nil {
			refusal := noAPI(path, path)
			refusal.answer = forwarded
			return nil, refusal
		}
	}
	return forwarded, nil
}
