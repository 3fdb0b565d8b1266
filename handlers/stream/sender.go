package stream

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"quorate/handlers/socket"
	"quorate/handlers/sse"
)

// eventStream sends server-sent events.
type eventStream struct {
	response  *echo.Response
	deadlines *http.ResponseController
	left      <-chan struct{}
}

func newEventStream(c echo.Context) *eventStream {
	response := c.Response()
	sse.Begin(response)
	return &eventStream{response, http.NewResponseController(response), c.Request().Context().Done()}
}

func (e *eventStream) send(ctx context.Context, event Event) error {
	content, err := sse.EventWithID(event.Cursor, event.Name, event.Data)
	if err != nil {
		return err
	}
	return e.write(ctx, content)
}

func (e *eventStream) flush() error { return e.deadlines.Flush() }

// beat sends a comment.
func (e *eventStream) beat(ctx context.Context) error {
	if err := e.write(ctx, sse.Comment); err != nil {
		return err
	}
	return e.deadlines.Flush()
}

// write gives the client until ctx's deadline, in place of the server's, which is too short for streams.
func (e *eventStream) write(ctx context.Context, content []byte) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = e.deadlines.SetWriteDeadline(deadline) // a test's recorder has none
	}
	_, err := e.response.Write(content)
	return err
}

func (e *eventStream) gone() <-chan struct{} { return e.left }

func (e *eventStream) close(reason string) {
	if reason == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	_ = e.send(ctx, Event{Name: "end", Data: map[string]string{"reason": reason}})
	_ = e.flush()
}

// farewellTime is the maximum time for the end of a stream to reach the client.
const farewellTime = time.Second

// webSocket sends each event as a text message.
type webSocket struct {
	conn   *websocket.Conn
	below  net.Conn
	left   chan struct{} // closed when the client has disconnected or sent a message
	talked bool          // whether it sent a message; read after left is closed
}

// acceptSocket opens the WebSocket that the client requests, or answers why not.
func acceptSocket(c echo.Context) (*webSocket, error) {
	taken := &socket.Taken{ResponseWriter: c.Response()}
	// Package middleware has checked the origin.
	conn, err := websocket.Accept(taken, c.Request(), &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	w := &webSocket{conn: conn, below: taken.Conn, left: make(chan struct{})}
	go w.hear(context.WithoutCancel(c.Request().Context())) // ends with close, which waits for it
	return w, nil
}

// hear answers pings until the client disconnects or sends a message.
func (w *webSocket) hear(ctx context.Context) {
	defer close(w.left)
	_, _, err := w.conn.Reader(ctx)
	w.talked = err == nil
}

func (w *webSocket) send(ctx context.Context, event Event) error {
	content, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return w.conn.Write(ctx, websocket.MessageText, content)
}

func (w *webSocket) flush() error { return nil }

func (w *webSocket) beat(ctx context.Context) error { return w.conn.Ping(ctx) }

func (w *webSocket) gone() <-chan struct{} { return w.left }

// maxReason is the maximum length of a WebSocket's close reason, in bytes.
const maxReason = 123

func (w *webSocket) close(reason string) {
	// Close reads until the client acknowledges, even an endless message, and CloseNow waits for Close.
	late := time.AfterFunc(farewellTime, func() { _ = w.below.Close() })
	defer late.Stop()
	select {
	case <-w.left:
		if w.talked {
			_ = w.conn.Close(websocket.StatusPolicyViolation, "a stream takes no messages")
		}
	default:
		if reason != "" {
			_ = w.conn.Close(websocket.StatusGoingAway, reason[:min(len(reason), maxReason)])
		}
	}
	_ = w.conn.CloseNow()
	<-w.left
}
