package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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
	dialing, dialed := context.WithTimeout(ctx, e.client.timeout)
	defer dialed()
	connection, err := e.client.dial(dialing, e.client.endpoints[e.client.order()[0]], e.path)
	if err != nil {
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

// Connect opens the WebSocket that goes with the API at path of a node: of the one that
// answered last or, if it offers none, of another. What comes over it stays with that
// node. The error is ErrUnavailable or ctx's own.
func (c *Client) Connect(ctx context.Context, path string) (*websocket.Conn, error) {
	var failures []string
	for _, i := range c.order() {
		connection, err := c.connect(ctx, c.endpoints[i], path)
		if err == nil {
			connection.SetReadLimit(c.limit)
			return connection, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connecting to %s: %w", path, ctx.Err())
		}
		failures = append(failures, c.endpoints[i].name+": "+err.Error())
	}
	return nil, fmt.Errorf("connecting to %s: %w: %s", path, ErrUnavailable, strings.Join(failures, "; "))
}

func (c *Client) connect(ctx context.Context, e *endpoint, path string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.dial(ctx, e, path)
}

// dial opens a WebSocket within ctx, which says nothing of what follows.
func (c *Client) dial(ctx context.Context, e *endpoint, path string) (*websocket.Conn, error) {
	headers := make(http.Header)
	for k, v := range c.headers {
		headers.Set(k, v)
	}
	connection, response, err := websocket.Dial(ctx, webSocketURL(e.base, path), &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: headers}) //nolint:bodyclose // Dial sees to it
	switch {
	case err == nil:
		return connection, nil
	case response != nil: // the error has the URL, and so what may be a secret
		return nil, fmt.Errorf("HTTP status %s", response.Status)
	}
	return nil, errors.New("no connection")
}
