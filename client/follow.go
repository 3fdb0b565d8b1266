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
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Oldest is the cursor before the oldest event of a stream.
const Oldest = "oldest"

// MessageEvent is a message that the service signed, or a gap in their stream.
type MessageEvent struct {
	// Cursor resumes the stream after this event.
	Cursor string
	// Message is nil in a gap: the service signed Missed messages that it could not store. The other fields are then zero.
	Message                           *warp.Message
	Missed                            uint64
	SigningSubnetID                   ids.ID
	PChainHeight, Weight, TotalWeight uint64
	SignedAt                          time.Time
}

// SetEvent has the changes of a validator set at one P-Chain height. Without Validators and TotalWeight it only says that
// there is no further change up to the height.
type SetEvent struct {
	// Cursor resumes the stream after this event. It is the height.
	Cursor         string      `json:"-"`
	SubnetID       ids.ID      `json:"subnetId"`
	PChainHeight   uint64      `json:"pChainHeight,string"`
	TotalWeight    uint64      `json:"totalWeight,string"`
	InactiveWeight uint64      `json:"inactiveWeight,string"`
	Validators     []SetChange `json:"validators"`
}

// SetChange is the change of one validator: JOINED, LEFT or CHANGED. Public keys are compressed BLS keys in hex with 0x,
// empty without one. The fields of the time before are empty in a validator that joined, the others in one that left.
type SetChange struct {
	NodeID            ids.NodeID `json:"nodeId"`
	Change            string     `json:"change"`
	Weight            uint64     `json:"weight,string"`
	PublicKey         string     `json:"publicKey"`
	PreviousWeight    uint64     `json:"previousWeight,string"`
	PreviousPublicKey string     `json:"previousPublicKey"`
}

// ICMEvent is a step of an ICM message: SENT, DELIVERED, EXECUTION_FAILED, EXECUTED or RECEIPT_RETURNED.
type ICMEvent struct {
	// Cursor resumes the stream after this event.
	Cursor       string `json:"-"`
	Step         string `json:"step"`
	MessageID    string `json:"messageId"`
	BlockchainID ids.ID `json:"blockchainId"`
	TxHash       string `json:"txHash"`
	BlockNumber  uint64 `json:"blockNumber,string"`
	// Timestamp is the block's, in Unix seconds.
	Timestamp int64 `json:"timestamp"`
	// Message is the message as GET /v1/icm/messages/{messageId} returns it; nil if the blocks with its content are not
	// indexed.
	Message json.RawMessage `json:"message"`
	// Unconfirmed reports that the index of the source lacks the message: it lags, or the destination lies.
	Unconfirmed bool `json:"unconfirmed"`
}

// ICMFilter selects ICM messages. Empty fields select all. Blockchains are given by their blockchain ID or EVM chain ID.
type ICMFilter struct {
	Source, Destination, Either string
	From, To                    string // addresses
}

// FollowMessages calls f for each message that the service signs, in order, until ctx ends or f returns an error, which
// it returns. cursor is that of the last event that was processed; it is empty for new events, or Oldest. If the
// connection fails, or the service ends the stream or answers with status 429 or 5xx, FollowMessages connects again after
// the last event that f got, so that each event arrives once. Until the first stream opens, it makes as many attempts as a
// call. It returns an *Error if the service refuses the stream, for example with CodeEventsGone.
func (c *Client) FollowMessages(ctx context.Context, cursor string, f func(MessageEvent) error) error {
	return c.follow(ctx, c.base+"/messages:stream?", "from", cursor, func(name, cursor string, data []byte) error {
		var body struct {
			Missed          uint64    `json:"missed"`
			SignedMessage   string    `json:"signedMessage"`
			SigningSubnetID ids.ID    `json:"signingSubnetId"`
			PChainHeight    uint64    `json:"pChainHeight,string"`
			Weight          uint64    `json:"weight,string"`
			TotalWeight     uint64    `json:"totalWeight,string"`
			SignedAt        time.Time `json:"signedAt"`
		}
		if name != "message" && name != "gap" {
			return nil
		}
		if err := json.Unmarshal(data, &body); err != nil {
			return badAnswer("%s event: %v", name, err)
		}
		e := MessageEvent{
			Cursor: cursor, Missed: body.Missed, SigningSubnetID: body.SigningSubnetID, PChainHeight: body.PChainHeight,
			Weight: body.Weight, TotalWeight: body.TotalWeight, SignedAt: body.SignedAt,
		}
		if name == "message" {
			var err error
			if e.Message, err = parseSigned(body.SignedMessage); err != nil {
				return err
			}
		}
		return f(e)
	})
}

// FollowValidators is FollowMessages for the changes of a subnet's validator set. A cursor is a P-Chain height.
func (c *Client) FollowValidators(ctx context.Context, subnetID ids.ID, cursor string, f func(SetEvent) error) error {
	return c.follow(ctx, c.base+"/subnets/"+subnetID.String()+"/validators:stream?", "from", cursor, func(name, cursor string, data []byte) error {
		if name != "validators" && name != "height" {
			return nil
		}
		e := SetEvent{SubnetID: subnetID}
		if err := json.Unmarshal(data, &e); err != nil {
			return badAnswer("%s event: %v", name, err)
		}
		e.Cursor = cursor
		return f(e)
	})
}

// FollowICM is FollowMessages for the steps of ICM messages between chains of the client's network.
func (c *Client) FollowICM(ctx context.Context, filter ICMFilter, cursor string, f func(ICMEvent) error) error {
	q := url.Values{"network": {c.network}}
	for name, value := range map[string]string{
		"sourceBlockchainId": filter.Source, "destinationBlockchainId": filter.Destination, "blockchainId": filter.Either,
		"from": filter.From, "to": filter.To,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return c.follow(ctx, c.root+"/v1/icm/messages:stream?"+q.Encode()+"&", "cursor", cursor, func(name, cursor string, data []byte) error {
		if name != "step" {
			return nil
		}
		e := ICMEvent{}
		if err := json.Unmarshal(data, &e); err != nil {
			return badAnswer("%s event: %v", name, err)
		}
		e.Cursor = cursor
		return f(e)
	})
}

// idleStream is how long a stream may have nothing to read. The service sends a comment every 15 s.
const idleStream = time.Minute

var errIdle = fmt.Errorf("the server sent nothing for %s", idleStream)

// handlerError wraps an error of the caller's function.
type handlerError struct{ error }

// follow reads a stream until ctx ends, f fails, the service refuses the stream, or all attempts to open it first have failed.
func (c *Client) follow(ctx context.Context, address, parameter, cursor string, f func(name, cursor string, data []byte) error) error {
	unlimited := *c.http
	unlimited.Timeout = 0 // a stream lasts; idleStream ends a dead one
	pauses := &backoff.ExponentialBackOff{InitialInterval: 250 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: 5 * time.Second}
	opened := false
	for attempt := 1; ; attempt++ {
		progress := false
		one, cancel := context.WithCancelCause(ctx)
		idle := time.AfterFunc(idleStream, func() { cancel(errIdle) }) // also while the server does not answer
		err := c.send(one, &unlimited, address+parameter+"="+url.QueryEscape(cursor), nil, eventStream, func(response *http.Response) error {
			media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
			if err != nil || media != eventStream {
				return badAnswer("it has Content-Type %q, not %s", clip(response.Header.Get("Content-Type")), eventStream)
			}
			return readStream(&waking{response.Body, idle}, func(name, at string, data []byte) error {
				if err := f(name, at, data); err != nil {
					return handlerError{err}
				}
				if at != "" {
					cursor, opened, progress = at, true, progress || name != "open"
				}
				return nil
			})
		})
		idle.Stop()
		cancel(nil)
		if handler, ok := errors.AsType[handlerError](err); ok {
			return handler.error
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case opened && !resumable(err), !opened && err != nil && (attempt >= c.attempts || !repeatable(err)):
			return err
		case progress:
			pauses.Reset()
			continue
		}
		pause := pauses.NextBackOff()
		if failed, ok := errors.AsType[*Error](err); ok && failed.RetryAfter > 0 {
			pause = min(failed.RetryAfter, maxRetryAfter)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// resumable reports whether a stream that was open may continue after err, which is nil if the service ended it. While a
// service restarts, proxies answer with any 5xx.
func resumable(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return repeatable(err) || ok && failed.Status >= http.StatusInternalServerError
}

// readStream reads events until the stream ends. It returns nil if the service ended it.
func readStream(body io.Reader, f func(name, cursor string, data []byte) error) error {
	events := &eventReader{lines: bufio.NewScanner(body)}
	events.lines.Buffer(nil, maxEvent)
	for {
		name, data, err := events.next()
		if err != nil {
			return err
		}
		switch name {
		case "end":
			return nil
		case "error":
			var body failure
			if err := json.Unmarshal(data, &body); err != nil {
				return badAnswer("error event: %v", err)
			}
			return body.error()
		}
		if err := f(name, events.id, data); err != nil {
			return err
		}
	}
}

// waking postpones a timer with each read.
type waking struct {
	io.Reader
	idle *time.Timer
}

func (w *waking) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.idle.Reset(idleStream)
	return n, err
}
