package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

const (
	// headsPause is the time between two attempts to hear of new blocks; after
	// failures it doubles up to headsLongPause.
	headsPause     = time.Second
	headsLongPause = time.Minute
	// headLimit bounds a message about a new block, in bytes.
	headLimit = 1 << 20
	// headsSilence is how long a connection may say nothing before it is tested.
	headsSilence = time.Minute
)

// Heads calls wake whenever a node tells of a new block by WebSocket, until ctx ends.
// It is a hint and nothing more: what is missed must be found by asking. A node that
// offers no WebSocket is tried again now and then.
func (e *EVM) Heads(ctx context.Context, wake func()) {
	pause := headsPause
	for told := false; ctx.Err() == nil; {
		heard, err := e.hear(ctx, wake)
		if heard {
			pause, told = headsPause, false
		}
		if err != nil && !told && ctx.Err() == nil {
			told = true
			e.client.log.Debug("no WebSocket tells of new blocks; they are found by asking", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, headsLongPause)
		}
	}
}

// hear listens to the node that answered last, and reports whether there was a
// subscription.
func (e *EVM) hear(ctx context.Context, wake func()) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoint := e.client.endpoints[e.client.order()[0]]
	headers := make(http.Header)
	for k, v := range e.client.headers {
		headers.Set(k, v)
	}
	dialing, dialed := context.WithTimeout(ctx, e.client.timeout)
	defer dialed()
	connection, response, err := websocket.Dial(dialing, webSocketURL(endpoint.base, e.path), &websocket.DialOptions{HTTPClient: e.client.http, HTTPHeader: headers}) //nolint:bodyclose // Dial sees to it
	if err != nil {
		if response != nil { // the error has the URL, and so what may be a secret
			err = fmt.Errorf("HTTP status %s", response.Status)
		} else {
			err = errors.New("no connection")
		}
		return false, err
	}
	defer func() { _ = connection.CloseNow() }()
	connection.SetReadLimit(headLimit)
	body, err := json.Marshal(request{JSONRPC: "2.0", ID: 1, Method: "eth_subscribe", Params: []any{"newHeads"}})
	if err == nil {
		err = connection.Write(dialing, websocket.MessageText, body)
	}
	if err != nil {
		return false, err
	}
	for {
		silent := time.AfterFunc(headsSilence, func() {
			// The pong is read by the Read below.
			pinging, done := context.WithTimeout(ctx, e.client.timeout)
			defer done()
			if connection.Ping(pinging) != nil {
				cancel()
			}
		})
		_, message, err := connection.Read(ctx)
		silent.Stop()
		if err != nil {
			return heard, fmt.Errorf("reading: %w", err)
		}
		var said struct {
			Method string          `json:"method"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(message, &said); err != nil || len(said.Error) > 0 {
			return heard, errors.New("the subscription is refused")
		}
		heard = true
		if said.Method == "eth_subscription" {
			wake()
		}
	}
}
