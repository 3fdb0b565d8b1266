package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// batchTimeout bounds one attempt at a batch. Tracing a full block takes a node seconds.
const batchTimeout = 30 * time.Second

// invocation is one call of a batch.
type invocation struct {
	method string
	params []any
}

// outcome is a node's reply to one call of a batch: the result as unparsed JSON, nil for
// null, or a refusal.
type outcome struct {
	result  []byte
	refused *RPCError
}

// batch makes several calls in one request to one node. Check, unless nil, inspects the
// replies: if it returns an *RPCError that is NotOffered, batch asks the next node. Errors
// are those of Call.
func (c *Client) batch(ctx context.Context, path string, calls []invocation, check func([]outcome) error) ([]outcome, error) {
	return c.batchWithin(ctx, path, max(c.timeout, batchTimeout), c.limit, calls, check)
}

// batchWithin is batch with a timeout for one attempt and a limit of the response in bytes.
func (c *Client) batchWithin(ctx context.Context, path string, timeout time.Duration, limit int64, calls []invocation, check func([]outcome) error) ([]outcome, error) {
	method := calls[0].method
	requests := make([]request, len(calls))
	for i, call := range calls {
		requests[i] = request{JSONRPC: "2.0", ID: uint64(i), Method: call.method, Params: call.params}
	}
	body, err := json.Marshal(requests)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", method, err)
	}
	var answers []outcome
	err = c.try(ctx, path, method, func(ctx context.Context, e *endpoint) error {
		return c.exchange(ctx, e, exchange{path: path, method: method, body: body, calls: len(calls), timeout: timeout, limit: limit, read: func(status int, content []byte) error {
			var err error
			if answers, err = readBatch(status, content, path, calls); err != nil {
				return err
			}
			for _, a := range answers {
				if a.refused == nil {
					continue
				}
				a.refused.Message = e.secrets.hide(a.refused.Message)
				if busyStatus(a.refused.Code) { // some providers count the calls of a batch
					return a.refused
				}
			}
			if check != nil {
				err = check(answers)
			}
			return err
		}})
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// readBatch parses the replies to calls. A single reply for the whole batch is a refusal.
func readBatch(status int, content []byte, path string, calls []invocation) ([]outcome, error) {
	content = bytes.TrimLeft(content, " \t\r\n")
	if len(content) == 0 || content[0] != '[' || status != http.StatusOK {
		var nothing json.RawMessage
		err := readAnswer(status, content, path, calls[0].method, &nothing)
		if err == nil {
			err = malformedError{errors.New("a single reply for a batch")}
		}
		return nil, err
	}
	answers := make([]outcome, len(calls))
	seen := make([]bool, len(calls))
	rest, err := elements(content, func(element []byte) error {
		id := -1
		var a outcome
		if _, err := members(element, func(name string, value []byte) error {
			switch name {
			case "id":
				return json.Unmarshal(value, &id)
			case "result":
				if string(value) != "null" {
					a.result = value
				}
			case "error":
				if string(value) != "null" {
					a.refused = new(RPCError)
					return json.Unmarshal(value, a.refused)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if id < 0 || id >= len(calls) || seen[id] {
			return fmt.Errorf("a reply with ID %d to calls 0 to %d", id, len(calls)-1)
		}
		if a.refused != nil {
			a.refused.Method = calls[id].method
		}
		answers[id], seen[id] = a, true
		return nil
	})
	if err == nil && len(bytes.TrimSpace(rest)) > 0 {
		err = errors.New("data after the end")
	}
	for id := range seen {
		if err == nil && !seen[id] {
			err = fmt.Errorf("%d of %d calls have no reply", len(calls)-id, len(calls))
		}
	}
	if err != nil {
		return nil, malformedError{err}
	}
	return answers, nil
}

var errNoValue = errors.New("truncated or invalid JSON")

// elements calls f for each element of the array at the start of b and returns the rest of
// b. It reads each byte once and does not parse elements; encoding/json reads nested values
// several times.
func elements(b []byte, f func(element []byte) error) ([]byte, error) {
	b = b[1:]
	for first := true; ; first = false {
		b = blank(b)
		if len(b) > 0 && b[0] == ']' && first {
			return b[1:], nil
		}
		value, rest, err := value(b)
		if err == nil {
			err = f(value)
		}
		if err != nil {
			return nil, err
		}
		if b = blank(rest); len(b) == 0 {
			return nil, errNoValue
		}
		switch b[0] {
		case ',':
			b = b[1:]
		case ']':
			return b[1:], nil
		default:
			return nil, errNoValue
		}
	}
}

// members is like elements for the members of an object.
func members(b []byte, f func(name string, value []byte) error) ([]byte, error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, errNoValue
	}
	b = b[1:]
	for {
		b = blank(b)
		name, rest, err := value(b)
		if err != nil || name[0] != '"' {
			return nil, errNoValue
		}
		if b = blank(rest); len(b) == 0 || b[0] != ':' {
			return nil, errNoValue
		}
		content, rest, err := value(blank(b[1:]))
		if err == nil {
			err = f(string(name[1:len(name)-1]), content)
		}
		if err != nil {
			return nil, err
		}
		if b = blank(rest); len(b) == 0 {
			return nil, errNoValue
		}
		switch b[0] {
		case ',':
			b = b[1:]
		case '}':
			return b[1:], nil
		default:
			return nil, errNoValue
		}
	}
}

func blank(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// value splits b after its first JSON value, by brackets and quotes alone.
func value(b []byte) (v, rest []byte, err error) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := closing(b[i+1:])
			if end < 0 {
				return nil, nil, errNoValue
			}
			i += 1 + end
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return nil, nil, errNoValue
			}
		case ',', ':':
			if depth == 0 {
				return nil, nil, errNoValue
			}
			continue
		default:
			if depth > 0 {
				continue
			}
			// A number or a literal.
			n := bytes.IndexAny(b, ",]} \t\r\n")
			if n < 0 {
				n = len(b)
			}
			return b[:n], b[n:], nil
		}
		if depth == 0 {
			return b[:i+1], b[i+1:], nil
		}
	}
	return nil, nil, errNoValue
}

// closing returns the index of the quote that ends a string, or a negative number.
func closing(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		at += n
		slashes := 0
		for at-slashes > 0 && b[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
		at++
	}
}
