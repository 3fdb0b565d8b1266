package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"quorate/handlers/access"
	"quorate/handlers/socket"
	"quorate/internal/node"
)

// SocketLimits limits forwarded WebSockets; 0 means no limit.
type SocketLimits struct {
	// Most is the maximum number of open connections, PerClient that of one client (see access.Client).
	Most, PerClient int
	// Idle is the maximum time without a message in either direction, Life that of a connection.
	Idle, Life time.Duration
}

// openSockets counts connections.
type openSockets struct {
	limits SocketLimits

	mu  sync.Mutex
	all int            // guarded by mu
	by  map[string]int // by client; guarded by mu; has no zero values
}

// enter adds a connection and returns 0, or returns the status of the refusal.
func (o *openSockets) enter(client string) (refused int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.limits.Most > 0 && o.all >= o.limits.Most:
		return http.StatusServiceUnavailable
	case o.limits.PerClient > 0 && o.by[client] >= o.limits.PerClient:
		return http.StatusTooManyRequests
	}
	o.all++
	o.by[client]++
	return 0
}

func (o *openSockets) leave(client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all--
	if o.by[client]--; o.by[client] == 0 {
		delete(o.by, client)
	}
}

// Connections returns a handler that forwards WebSockets. Each call is charged to the client.
func (e Ethereum) Connections() http.Handler {
	open := &openSockets{limits: e.Sockets, by: make(map[string]int)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			w.Header().Set("Upgrade", "websocket")
			http.Error(w, "this endpoint takes only WebSockets", http.StatusUpgradeRequired)
			return
		}
		p := &session{Ethereum: e, client: access.ClientOf(r.Context())}
		id := access.OriginOf(r.RemoteAddr).String()
		if p.client != nil {
			id = p.client.ID()
		}
		if status := open.enter(id); status != 0 {
			http.Error(w, "too many connections", status)
			return
		}
		defer open.leave(id)
		var err error
		if p.far, err = e.Node.Connect(r.Context(), e.Path); err != nil {
			e.Log.Warn("a WebSocket could not be forwarded", slog.String("path", e.Path), slog.Any("error", err))
			http.Error(w, "the upstream node does not answer", http.StatusBadGateway)
			return
		}
		defer func() { _ = p.far.CloseNow() }()
		// Package middleware has checked the origin.
		taken := &socket.Taken{ResponseWriter: w}
		if p.near, err = websocket.Accept(taken, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err != nil {
			return // Accept has answered
		}
		p.below = taken.Conn
		defer func() { _ = p.near.CloseNow() }()
		p.run(r.Context())
	})
}

const (
	// arrivalTime is the maximum time for a client's message to arrive.
	arrivalTime = 10 * time.Second
	// sendTime is the timeout for sending a message to the upstream node, including the wait for its rate.
	sendTime = 10 * time.Second
	// farewellTime is the maximum time for a client to acknowledge the close.
	farewellTime = time.Second
	// longestPause is the maximum time for which a refused client's messages are not read.
	longestPause = time.Second
)

// session is a forwarded connection.
type session struct {
	Ethereum
	client *access.Client // nil if it is unknown
	// near is the client's connection, far the upstream node's.
	near, far *websocket.Conn
	below     net.Conn // the connection below near
	idle      *time.Timer
}

// ending is the reason for which the service closes a connection.
type ending struct {
	code   websocket.StatusCode
	reason string
}

func (e ending) Error() string { return e.reason }

// run forwards messages until either side closes, ctx ends, or a limit is reached.
func (p *session) run(ctx context.Context) {
	// The end of ctx must not break the connection off within a message.
	talking, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	p.idle = timer(p.Sockets.Idle)
	defer p.idle.Stop()
	life := timer(p.Sockets.Life)
	defer life.Stop()
	p.near.SetReadLimit(-1) // hear has its own limit

	ended := make(chan error, 2)
	var waiting sync.WaitGroup
	waiting.Go(func() { ended <- p.toNode(talking) })
	waiting.Go(func() { ended <- p.toClient(talking) })
	why := ending{websocket.StatusGoingAway, "the service is stopping"}
	select {
	case err := <-ended:
		if !errors.As(err, &why) {
			why = ending{websocket.StatusGoingAway, "the upstream node has disconnected"} // unless the client has disconnected
		}
	case <-p.idle.C:
		why.reason = "there was no message for too long"
	case <-life.C:
		why.reason = "connections do not last longer; open another one"
	case <-ctx.Done():
	}
	// Close reads until the client acknowledges, even an endless message, and CloseNow waits for Close.
	late := time.AfterFunc(farewellTime, func() { _ = p.below.Close() })
	_ = p.near.Close(why.code, why.reason)
	late.Stop()
	hangUp()
	waiting.Wait()
}

// timer returns a timer that never fires if d is 0.
func timer(d time.Duration) *time.Timer {
	t := time.NewTimer(max(d, 1))
	if d <= 0 {
		t.Stop()
	}
	return t
}

// alive resets the idle time.
func (p *session) alive() {
	if p.Sockets.Idle > 0 {
		p.idle.Reset(p.Sockets.Idle)
	}
}

// toNode forwards the client's messages that the allowance permits.
func (p *session) toNode(ctx context.Context) error {
	for {
		_, message, err := p.near.Reader(ctx)
		if err != nil {
			return err
		}
		p.alive()
		if err := p.hear(ctx, message); err != nil {
			return err
		}
	}
}

// hear reads one message of the client.
func (p *session) hear(ctx context.Context, message io.Reader) error {
	late := time.AfterFunc(arrivalTime, func() { _ = p.near.CloseNow() }) // an incomplete message takes memory
	body, err := node.ReadAll(ctx, message, -1, p.BodyLimit)
	late.Stop()
	switch {
	case errors.Is(err, node.ErrNoRoom):
		return ending{websocket.StatusTryAgainLater, ErrBusy.Error()}
	case errors.Is(err, node.ErrMalformed):
		return ending{websocket.StatusMessageTooBig, "the message is too large"}
	case err != nil:
		return err
	}
	defer node.Give(ctx, int64(cap(body)))
	calls, refusal, ok := p.read(body)
	if p.client != nil {
		wait, refused := p.client.Take(ctx, max(1, len(calls.all)))
		switch {
		case refused == nil:
		case refused.Status != http.StatusTooManyRequests && refused.Status != http.StatusBadRequest:
			return ending{websocket.StatusPolicyViolation, "the API key is not valid any more"}
		default:
			answer := calls.fail(codeExhausted, refused.Message)
			if refused.Status == http.StatusBadRequest {
				answer = calls.refuse(refused.Message)
			}
			if err := p.answer(ctx, answer); err != nil {
				return err
			}
			if wait <= 0 || wait > longestPause {
				wait = longestPause
			}
			return rest(ctx, wait) // refusing takes work, too
		}
	}
	if !ok {
		return p.answer(ctx, refusal)
	}
	sending, sent := context.WithTimeout(ctx, sendTime)
	defer sent()
	if err := p.Node.Await(sending, calls.body); err != nil {
		if err := p.answer(ctx, calls.fail(codeExhausted, p.excuse(err))); err != nil {
			return err
		}
		return rest(ctx, longestPause)
	}
	return p.far.Write(sending, websocket.MessageText, calls.body)
}

func (p *session) answer(ctx context.Context, message []byte) error {
	if len(message) == 0 {
		return nil
	}
	return p.near.Write(ctx, websocket.MessageText, message)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// toClient forwards the upstream node's messages, long ones in pieces. The limits of the connection bound how long the
// client may take.
func (p *session) toClient(ctx context.Context) error {
	piece := make([]byte, 8<<10)
	for {
		kind, message, err := p.far.Reader(ctx)
		if err != nil {
			return err
		}
		p.alive()
		n, err := io.ReadFull(message, piece)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = p.near.Write(ctx, kind, piece[:n])
		case err == nil:
			err = p.copy(ctx, kind, piece, message)
		}
		if err != nil {
			return err
		}
	}
}

// copy forwards a message that begins with a complete piece.
func (p *session) copy(ctx context.Context, kind websocket.MessageType, piece []byte, rest io.Reader) error {
	w, err := p.near.Writer(ctx, kind)
	if err != nil {
		return err
	}
	if _, err := w.Write(piece); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(w, rest, piece); err != nil {
		return err
	}
	return w.Close()
}
