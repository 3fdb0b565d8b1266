package rpc

import (
	"bufio"
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
	"quorate/internal/node"
)

// SocketLimits bound the WebSockets that are passed through; 0 is no bound.
type SocketLimits struct {
	// Most are open at a time, PerClient of one client (see access.Client).
	Most, PerClient int
	// Idle is how long there may be no message either way, Life how long a connection
	// lasts.
	Idle, Life time.Duration
}

// openSockets counts connections.
type openSockets struct {
	limits SocketLimits

	mu  sync.Mutex
	all int            // guarded by mu
	by  map[string]int // by client; guarded by mu; never has zeros
}

// enter is 0, or the status with which one more is refused.
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

// Connections passes on what comes over WebSockets. Each call counts for the allowance of
// its client.
func (e Ethereum) Connections() http.Handler {
	open := &openSockets{limits: e.Sockets, by: make(map[string]int)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			w.Header().Set("Upgrade", "websocket")
			http.Error(w, "a WebSocket is wanted here", http.StatusUpgradeRequired)
			return
		}
		p := &passage{Ethereum: e, client: access.ClientOf(r.Context())}
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
			e.Log.Warn("a connection could not be passed through", slog.String("path", e.Path), slog.Any("error", err))
			http.Error(w, "the upstream node does not answer", http.StatusBadGateway)
			return
		}
		defer func() { _ = p.far.CloseNow() }()
		// Pages of all origins may come, as with a node.
		taken := &taker{ResponseWriter: w}
		if p.near, err = websocket.Accept(taken, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err != nil {
			return // which was answered
		}
		p.below = taken.conn
		defer func() { _ = p.near.CloseNow() }()
		p.run(r.Context())
	})
}

const (
	// arrivalTime is how long a client's message may take to arrive.
	arrivalTime = 10 * time.Second
	// sendTime is how long the node may take to take a message.
	sendTime = 10 * time.Second
	// farewellTime is how long a client may take to say that it has heard the end.
	farewellTime = time.Second
	// longestPause is the longest that a client which is refused is not listened to.
	longestPause = time.Second
)

// passage is a connection that is passed through.
type passage struct {
	Ethereum
	client *access.Client // nil if it is not known
	// near is the client's, far the node's.
	near, far *websocket.Conn
	below     net.Conn // what near goes over
	idle      *time.Timer
}

// taker notes the connection that is taken over from the server.
type taker struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (t *taker) Hijack() (conn net.Conn, buffered *bufio.ReadWriter, err error) {
	t.conn, buffered, err = http.NewResponseController(t.ResponseWriter).Hijack()
	return t.conn, buffered, err
}

// ending is why a connection is ended from here.
type ending struct {
	code   websocket.StatusCode
	reason string
}

func (e ending) Error() string { return e.reason }

// run passes messages on until either side or ctx ends it, or it was long enough.
func (p *passage) run(ctx context.Context) {
	// Its end would break the connection off in the middle of a message.
	talking, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	p.idle = timer(p.Sockets.Idle)
	defer p.idle.Stop()
	life := timer(p.Sockets.Life)
	defer life.Stop()
	p.near.SetReadLimit(-1) // it is read within a limit of its own

	ended := make(chan error, 2)
	var waiting sync.WaitGroup
	waiting.Go(func() { ended <- p.toNode(talking) })
	waiting.Go(func() { ended <- p.toClient(talking) })
	why := ending{websocket.StatusGoingAway, "the service stops"}
	select {
	case err := <-ended:
		if !errors.As(err, &why) {
			why = ending{websocket.StatusGoingAway, "the node is gone"} // unless the client is
		}
	case <-p.idle.C:
		why.reason = "there was no message for too long"
	case <-life.C:
		why.reason = "connections do not last longer; open another one"
	case <-ctx.Done():
	}
	// Close reads on until the client has said goodbye, a message without end included,
	// and CloseNow would wait for Close.
	late := time.AfterFunc(farewellTime, func() { _ = p.below.Close() })
	_ = p.near.Close(why.code, why.reason)
	late.Stop()
	hangUp()
	waiting.Wait()
}

// timer never ends if d is 0.
func timer(d time.Duration) *time.Timer {
	t := time.NewTimer(max(d, 1))
	if d <= 0 {
		t.Stop()
	}
	return t
}

// alive notes that there was a message.
func (p *passage) alive() {
	if p.Sockets.Idle > 0 {
		p.idle.Reset(p.Sockets.Idle)
	}
}

// toNode passes on what the client says, if it may.
func (p *passage) toNode(ctx context.Context) error {
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

// hear takes in one message of the client.
func (p *passage) hear(ctx context.Context, message io.Reader) error {
	late := time.AfterFunc(arrivalTime, func() { _ = p.near.CloseNow() }) // it takes room
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
		case refused != nil && refused.Status != http.StatusTooManyRequests:
			return ending{websocket.StatusPolicyViolation, "the API key is good no more"}
		case refused != nil:
			if err := p.answer(ctx, calls.fail(codeExhausted, refused.Message)); err != nil {
				return err
			}
			if wait <= 0 || wait > longestPause {
				wait = longestPause
			}
			return rest(ctx, wait) // to refuse is work, too
		}
	}
	if !ok {
		return p.answer(ctx, refusal)
	}
	sending, sent := context.WithTimeout(ctx, sendTime)
	defer sent()
	return p.far.Write(sending, websocket.MessageText, calls.body)
}

func (p *passage) answer(ctx context.Context, message []byte) error {
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

// toClient passes on what the node says, long messages piece by piece. How long the
// client may take for it is for the connection to decide.
func (p *passage) toClient(ctx context.Context) error {
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

// copy passes on a message that begins with a whole piece.
func (p *passage) copy(ctx context.Context, kind websocket.MessageType, piece []byte, rest io.Reader) error {
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
