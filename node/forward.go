package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Forwarded is the answer of a node as it came.
type Forwarded struct {
	Status int
	// Header has what of the answer's header is about its body.
	Header http.Header
	Body   []byte
}

// hedgeAfter is how long a node may take before the next one is asked beside it.
const hedgeAfter = 300 * time.Millisecond

// Forward posts body, which is JSON, to path of a node and returns what it answers,
// whatever that says. The endpoint that answered last is asked first; one that fails
// makes room for the next, and so does one that takes long if hedged, which suits
// calls that change nothing. The answer counts for ctx's Budget. Errors: ErrUnavailable,
// ErrMalformed if an answer is too long, ErrNoRoom, or ctx's own.
func (c *Client) Forward(ctx context.Context, path string, body []byte, hedged bool) (*Forwarded, error) {
	type result struct {
		endpoint int
		answer   *Forwarded
		err      error
	}
	attempts, cancel := context.WithCancel(ctx)
	defer cancel()
	order := c.order()
	results := make(chan result, len(order)) // room for all: nobody waits for those that lost
	asked := 0
	ask := func() {
		i := order[asked]
		asked++
		go func() {
			answer, err := c.forward(attempts, c.endpoints[i], path, body)
			results <- result{i, answer, err}
		}()
	}
	ask()
	var failures []string
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
				c.last.Store(int64(r.endpoint))
				return r.answer, nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("forwarding to %s: %w", path, ctx.Err())
			}
			if errors.Is(r.err, errOversized) || errors.Is(r.err, ErrNoRoom) {
				return nil, fmt.Errorf("forwarding to %s: %w", path, r.err) // another's is as long
			}
			if failures = append(failures, r.err.Error()); len(failures) == len(order) {
				return nil, fmt.Errorf("forwarding to %s: %w: %s", path, ErrUnavailable, strings.Join(failures, "; "))
			}
			if asked == len(failures) {
				ask()
			}
		}
	}
}

// errBusy says that an endpoint is asked as much at a time as it may be.
var errBusy = errors.New("too many calls in flight")

// enter waits for its turn at e, as long as a call may take.
func (c *Client) enter(ctx context.Context, e *endpoint) error {
	select {
	case e.calls <- struct{}{}:
		return nil
	default:
	}
	defer e.waiting.Add(-1)
	if e.waiting.Add(1) > int64(waitingPerCall*cap(e.calls)) {
		return errBusy
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case e.calls <- struct{}{}:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitingPerCall is how many calls may wait for each that is in flight.
const waitingPerCall = 8

// Load is how busy a client's endpoints are.
type Load struct {
	Endpoints int
	// Failing is how many of them failed when they were asked last.
	Failing int
	// InFlight is how many calls are being forwarded.
	InFlight int
}

// Load tells how busy the endpoints are.
func (c *Client) Load() Load {
	l := Load{Endpoints: len(c.endpoints)}
	for _, e := range c.endpoints {
		e.mu.Lock()
		if !e.failedAt.IsZero() {
			l.Failing++
		}
		e.mu.Unlock()
		l.InFlight += len(e.calls)
	}
	return l
}

// forward asks one endpoint and notes whether it works.
func (c *Client) forward(ctx context.Context, e *endpoint, path string, body []byte) (*Forwarded, error) {
	if err := c.enter(ctx, e); err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	defer func() { <-e.calls }()
	answer, err := c.raw(ctx, e, path, body)
	if err != nil {
		return nil, c.settle(ctx, e, path, c.timeout, err)
	}
	e.works(c.log)
	return answer, nil
}

// raw is what an endpoint answers, whatever that says.
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
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	// What stands before a node says so when the node is away or overloaded.
	switch answer.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return nil, errors.New("HTTP status " + answer.Status)
	}
	header := make(http.Header)
	for _, name := range []string{"Content-Type", "X-Content-Type-Options", "Allow"} {
		if values := answer.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	return &Forwarded{Status: answer.StatusCode, Header: header, Body: content}, nil
}
