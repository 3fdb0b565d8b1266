package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	// headsPause is the time between two attempts to subscribe to new blocks. It doubles
	// after each failure, up to headsLongPause.
	headsPause     = time.Second
	headsLongPause = time.Minute
	// headLimit bounds a message about a new block, in bytes.
	headLimit = 1 << 20
	// headsIdle is how long a connection may be idle before it is pinged.
	headsIdle = time.Minute
)

// Heads calls wake whenever a node reports a new block over WebSocket, until ctx ends.
// Reports may be lost, so callers must also poll. Heads keeps retrying a node that offers
// no WebSocket.
func (e *EVM) Heads(ctx context.Context, wake func()) {
	pause := headsPause
	for logged := false; ctx.Err() == nil; {
		subscribed, err := e.listen(ctx, wake)
		if subscribed {
			pause, logged = headsPause, false
		}
		if err != nil && !logged && ctx.Err() == nil {
			logged = true
			e.client.log.Debug("no WebSocket reports new blocks; polling finds them", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, headsLongPause)
		}
	}
}

// listen calls wake for each new block that the node that answered latest reports, until the
// connection ends. It reports whether the node accepted the subscription.
func (e *EVM) listen(ctx context.Context, wake func()) (subscribed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialing, dialed := context.WithTimeout(ctx, e.client.timeout)
	defer dialed()
	connection, err := e.client.dial(dialing, e.client.endpoints[e.client.order(e.path)[0]], e.path)
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
		ping := time.AfterFunc(headsIdle, func() {
			// The Read below receives the pong.
			pinging, done := context.WithTimeout(ctx, e.client.timeout)
			defer done()
			if connection.Ping(pinging) != nil {
				cancel()
			}
		})
		_, message, err := connection.Read(ctx)
		ping.Stop()
		if err != nil {
			return subscribed, fmt.Errorf("reading: %w", err)
		}
		var notice struct {
			Method string          `json:"method"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(message, &notice); err != nil || len(notice.Error) > 0 {
			return subscribed, errors.New("the node refused the subscription")
		}
		subscribed = true
		if notice.Method == "eth_subscription" {
			wake()
		}
	}
}

// Connect opens the WebSocket for the API at path of a node: the one that answered latest
// or, if that offers none, another one. The connection stays with that node. Call Await
// before each message. The error is ErrUnavailable or ctx's own.
func (c *Client) Connect(ctx context.Context, path string) (*websocket.Conn, error) {
	var failures []string
	for _, i := range c.order(path) {
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

// dial opens a WebSocket. ctx bounds only the handshake.
func (c *Client) dial(ctx context.Context, e *endpoint, path string) (*websocket.Conn, error) {
	if err := c.mayAsk(e); err != nil {
		return nil, err
	}
	connection, response, err := websocket.Dial(ctx, webSocketURL(e.base, path), &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: e.headers.Clone()}) //nolint:bodyclose // Dial sees to it
	switch {
	case err == nil:
		return connection, nil
	case response != nil: // the error has the URL, which may contain a secret
		return nil, fmt.Errorf("HTTP status %s", response.Status)
	}
	return nil, errors.New("no connection")
}
