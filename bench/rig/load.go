package rig

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Load makes requests over HTTP from a number of clients, each with a connection of its own
// and one request at a time.
type Load struct {
	Clients int
	// Requests ends the load after so many, For after that time. Without both the load ends
	// with the context, and that is not an error.
	Requests int
	For      time.Duration
	// Every is the time between two requests. They fall due whether or not a client is free,
	// and the wait for one counts. With 0 each client makes the next request at once.
	Every time.Duration
	// Tolerate counts responses other than 200 as failed, instead of ending with the first.
	Tolerate bool
	// Took, if set, is called after each response with status 200, by the client.
	Took func(number int, took time.Duration)
}

// Request is a GET request, or a POST request if it has a body.
type Request struct {
	Address, Path string
	Body          []byte
	// Kind is the caller's: an index into Outcome.ByKind.
	Kind int
}

// Sign returns a request for a signed message.
func Sign(address string, unsigned []byte) Request {
	return Request{
		Address: address, Path: "/v1/signatureAggregator/" + NetworkName + "/aggregateSignatures",
		Body: fmt.Appendf(nil, `{"message":"%x"}`, unsigned),
	}
}

// Outcome is what a Load measured.
type Outcome struct {
	Summary

	Times  []time.Duration
	ByKind map[int][]time.Duration
	Clock  time.Duration
	Failed int
}

// Rate returns requests per second.
func (o *Outcome) Rate() float64 { return float64(len(o.Times)) / o.Clock.Seconds() }

// Add adds another outcome.
func (o *Outcome) Add(other *Outcome) {
	o.Times = append(o.Times, other.Times...)
	if o.ByKind == nil {
		o.ByKind = make(map[int][]time.Duration)
	}
	for kind, times := range other.ByKind {
		o.ByKind[kind] = append(o.ByKind[kind], times...)
	}
	o.Clock += other.Clock
	o.Failed += other.Failed
	o.Summary = Summarize(o.Times)
}

// Run makes the requests that request returns for each client and each number.
func (l Load) Run(ctx context.Context, request func(client, number int) Request) (*Outcome, error) {
	var next atomic.Int64
	var mu sync.Mutex
	total := &Outcome{}
	begun := time.Now()
	clients, ctx := errgroup.WithContext(ctx)
	for clientNumber := range l.Clients {
		clients.Go(func() error {
			own := &Outcome{ByKind: make(map[int][]time.Duration)}
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				total.Add(own)
			}()
			connection := &client{timeout: requestTimeout}
			defer connection.close()
			for {
				number := int(next.Add(1)) - 1
				due := time.Now()
				if l.Every > 0 {
					due = begun.Add(time.Duration(number) * l.Every)
				}
				if l.Requests > 0 && number >= l.Requests || l.For > 0 && due.Sub(begun) >= l.For {
					return nil
				}
				if !Pause(ctx, time.Until(due)) {
					return ctx.Err()
				}
				one := request(clientNumber, number)
				err := connection.do(ctx, one)
				var unexpected *statusError
				switch {
				case err == nil:
				case ctx.Err() != nil:
					return ctx.Err() // which closed the connection
				case l.Tolerate && errors.As(err, &unexpected):
					own.Failed++
					continue
				default:
					return fmt.Errorf("%s: %w", one.Path, err)
				}
				took := time.Since(due)
				own.Times = append(own.Times, took)
				own.ByKind[one.Kind] = append(own.ByKind[one.Kind], took)
				if l.Took != nil {
					l.Took(number, took)
				}
			}
		})
	}
	err := clients.Wait()
	if l.Requests == 0 && l.For == 0 && errors.Is(err, context.Canceled) {
		err = nil
	}
	total.Clock = time.Since(begun)
	return total, err
}

// statusError is a response other than 200.
type statusError struct{ text string }

func (e *statusError) Error() string { return e.text }

// client is an HTTP client that costs next to nothing, so that the processors are left to
// what is measured. One goroutine uses it.
type client struct {
	timeout    time.Duration // of a request
	connection net.Conn      // nil before the first request
	address    string
	in         *bufio.Reader
	out        []byte
	stop       func() bool // ends the watch for the end of the context
}

func (c *client) close() {
	if c.connection != nil {
		c.stop()
		_ = c.connection.Close()
	}
}

// requestTimeout is the timeout of a request.
const requestTimeout = 30 * time.Second

// do makes a request, drops the response, and returns a *statusError if it is not 200. The end of ctx closes the connection.
func (c *client) do(ctx context.Context, r Request) error {
	deadline := time.Now().Add(c.timeout)
	if c.address != r.Address {
		c.close()
		dialer := net.Dialer{Deadline: deadline}
		connection, err := dialer.DialContext(ctx, "tcp", r.Address)
		if err != nil {
			c.connection, c.address = nil, ""
			return err
		}
		c.connection, c.address, c.in = connection, r.Address, bufio.NewReaderSize(connection, 64<<10)
		c.stop = context.AfterFunc(ctx, func() { _ = connection.Close() })
	}
	if err := c.connection.SetDeadline(deadline); err != nil {
		return err
	}
	if r.Body == nil {
		c.out = fmt.Appendf(c.out[:0], "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", r.Path, r.Address)
	} else {
		c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", r.Path, r.Address, len(r.Body))
		c.out = append(c.out, r.Body...)
	}
	if _, err := c.connection.Write(c.out); err != nil {
		return err
	}
	return c.receive()
}

// receive reads a response to its end.
func (c *client) receive() error {
	status, err := c.line()
	if err != nil {
		return err
	}
	length, chunked := 0, false
	for {
		header, err := c.line()
		if err != nil {
			return err
		}
		if header == "" {
			break
		}
		if size, found := strings.CutPrefix(header, "Content-Length: "); found {
			if length, err = strconv.Atoi(size); err != nil {
				return err
			}
		}
		chunked = chunked || header == "Transfer-Encoding: chunked"
	}
	var failure error
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		beginning, _ := c.in.Peek(min(length, 300))
		failure = &statusError{fmt.Sprintf("%s: %s", status, beginning)}
	}
	if !chunked {
		_, err := c.in.Discard(length)
		return cmp.Or(err, failure)
	}
	for {
		text, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(text, 16, 31)
		if err != nil {
			return err
		}
		if _, err := c.in.Discard(int(size) + len("\r\n")); err != nil || size == 0 {
			return cmp.Or(err, failure)
		}
	}
}

// line reads a line and returns it without its end.
func (c *client) line() (string, error) {
	text, err := c.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", err
	}
	return string(text[:max(len(text)-2, 0)]), nil
}

// Meanwhile makes 100 requests of /health a second, which need nothing but a processor, until the function that it
// returns is called. A page would show less: while a chain is being indexed most of its pages are refused.
func (s *Service) Meanwhile(ctx context.Context) (end func() (*Outcome, error)) {
	ctx, stop := context.WithCancel(ctx)
	var outcome *Outcome
	var requests errgroup.Group
	requests.Go(func() (err error) {
		outcome, err = Load{Clients: 16, Every: 10 * time.Millisecond, Tolerate: true}.Run(ctx, func(int, int) Request {
			return Request{Address: s.Public, Path: "/health"}
		})
		return err
	})
	return func() (*Outcome, error) {
		stop()
		err := requests.Wait()
		return outcome, err
	}
}
