package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

const (
	eventStream = "text/event-stream"
	// maxEvent limits the size of one event, in bytes.
	maxEvent = 4 << 20
)

// Progress is the state of a round that has not ended.
type Progress struct {
	Account
	// Elapsed is the time since the service got the request.
	Elapsed time.Duration
}

// UnmarshalJSON decodes the data of a progress event, an account with one more field.
func (p *Progress) UnmarshalJSON(content []byte) error {
	var elapsed struct {
		Milliseconds uint32 `json:"elapsedMilliseconds"`
	}
	if err := json.Unmarshal(content, &elapsed); err != nil {
		return err
	}
	p.Elapsed = time.Duration(elapsed.Milliseconds) * time.Millisecond
	return json.Unmarshal(content, &p.Account)
}

// SignWithProgress is Sign that calls progress while the round runs, at most once in 20 ms and in
// the caller's goroutine. The service waits longer than in Sign for a message that validators have not seen: as long as a
// request may take. If the connection fails, the call repeats the request, and the service joins
// it to the round if that still runs.
func (c *Client) SignWithProgress(ctx context.Context, r Request, progress func(Progress)) (*warp.Message, error) {
	var signed *warp.Message
	err := c.exchange(ctx, signPath, r.body(), eventStream, func(response *http.Response) error {
		media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
		if err != nil || media != eventStream {
			return badAnswer("it has Content-Type %q, not %s", clip(response.Header.Get("Content-Type")), eventStream)
		}
		text, err := lastEvent(response.Body, progress)
		if err != nil {
			return err
		}
		signed, err = r.signed(text)
		return err
	})
	return signed, err
}

// lastEvent reads events until result, whose signed message it returns, or error.
func lastEvent(body io.Reader, progress func(Progress)) (signed string, err error) {
	events := &eventReader{lines: bufio.NewScanner(body)}
	events.lines.Buffer(nil, maxEvent)
	for {
		name, data, err := events.next()
		if err != nil {
			return "", err
		}
		switch name {
		case "progress":
			var p Progress
			if err := json.Unmarshal(data, &p); err != nil {
				return "", badAnswer("progress event: %v", err)
			}
			progress(p)
		case "result":
			var body signedBody
			if err := json.Unmarshal(data, &body); err != nil {
				return "", badAnswer("result event: %v", err)
			}
			return body.SignedMessage, nil
		case "error":
			var body failure
			if err := json.Unmarshal(data, &body); err != nil {
				return "", badAnswer("error event: %v", err)
			}
			return "", body.error()
		}
	}
}

// eventReader reads server-sent events (WHATWG HTML, 9.2).
type eventReader struct {
	lines *bufio.Scanner
	id    string // of the last event; empty if it has none
}

// next returns the next event that has data.
func (r *eventReader) next() (name string, data []byte, err error) {
	r.id = ""
	for r.lines.Scan() {
		line := r.lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			return name, data, nil
		case line == "":
			name, r.id = "", ""
		case field == "id":
			r.id = value
		case field == "event":
			name = value
		case field == "data" && len(data)+len(value) >= maxEvent:
			return "", nil, badAnswer("an event exceeds %d bytes", maxEvent)
		case field == "data" && data != nil:
			data = append(append(data, '\n'), value...)
		case field == "data":
			data = append([]byte{}, value...)
		}
	}
	if err = r.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return "", nil, badAnswer("an event exceeds %d bytes", maxEvent)
	}
	if err == nil {
		err = fmt.Errorf("the stream ended early: %w", io.ErrUnexpectedEOF)
	}
	return "", nil, fmt.Errorf("reading events: %w", err)
}
