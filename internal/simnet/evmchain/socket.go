package evmchain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// sockets are the open WebSocket connections.
type sockets struct {
	mu      sync.Mutex
	all     map[*websocket.Conn]struct{} // guarded by mu
	closed  bool                         // guarded by mu
	running sync.WaitGroup
}

// add adds a connection, which the caller must remove. It returns false after close.
func (s *sockets) add(c *websocket.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = make(map[*websocket.Conn]struct{})
	}
	s.all[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *sockets) remove(c *websocket.Conn) {
	s.mu.Lock()
	delete(s.all, c)
	s.mu.Unlock()
	s.running.Done()
}

// close closes all connections and waits until they are removed.
func (s *sockets) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.all {
		_ = c.CloseNow()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// socketWrite bounds the writing of one message.
const socketWrite = 10 * time.Second

// serveSocket answers calls over a WebSocket until either side closes it.
func (n *Node) serveSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has written the response
	}
	defer func() { _ = conn.CloseNow() }()
	if !n.sockets.add(conn) {
		return
	}
	defer n.sockets.remove(conn)
	conn.SetReadLimit(maxRequest)
	s := &socket{node: n, conn: conn, ends: make(map[string]context.CancelFunc)}
	ctx, cancel := context.WithCancel(context.Background())
	defer s.running.Wait()
	defer cancel()
	for {
		_, body, err := conn.Read(ctx)
		if err != nil {
			return
		}
		answer, then := s.answer(ctx, body)
		if err := s.write(ctx, answer); err != nil {
			return
		}
		if then != nil {
			then()
		}
	}
}

// socket is a connection. The reading goroutine owns its fields.
type socket struct {
	node    *Node
	conn    *websocket.Conn
	ends    map[string]context.CancelFunc
	count   int
	running sync.WaitGroup
}

func (s *socket) write(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, socketWrite)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, message)
}

// answer returns the answer to a call, and for a new subscription what to do after the answer
// is sent.
func (s *socket) answer(ctx context.Context, body []byte) (answer []byte, then func()) {
	f := s.node.faults.Load()
	var r request
	if json.Unmarshal(body, &r) != nil || r.Method != "eth_subscribe" && r.Method != "eth_unsubscribe" {
		return s.node.answer(nil, body, f), nil
	}
	name, err := r.text(0)
	if err != nil {
		return appendError(nil, r.ID, err), nil
	}
	out := append(appendID([]byte(`{"jsonrpc":"2.0","id":`), r.ID), `,"result":`...)
	if r.Method == "eth_unsubscribe" {
		end, ok := s.ends[name]
		if !ok {
			return appendError(nil, r.ID, &rpcError{code: -32000, message: "subscription not found"}), nil
		}
		end()
		delete(s.ends, name)
		return append(out, `true}`...), nil
	}
	if name != "newHeads" {
		return appendError(nil, r.ID, &rpcError{code: -32601, message: fmt.Sprintf("no %q subscription in eth namespace", name)}), nil
	}
	s.count++
	id := fmt.Sprintf("0x%x", s.count)
	inner, end := context.WithCancel(ctx)
	s.ends[id] = end
	next := s.node.tip(f) + 1
	return append(out, `"`+id+`"}`...), func() { s.running.Go(func() { s.tell(inner, id, next) }) }
}

// tell sends the header of each block from next on, until ctx ends or writing fails.
func (s *socket) tell(ctx context.Context, id string, next uint64) {
	var b []byte
	for {
		s.node.mu.RLock()
		grown := s.node.grown
		s.node.mu.RUnlock()
		for tip := s.node.tip(s.node.faults.Load()); next <= tip; next++ {
			b = append(b[:0], `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"`+id+`","result":`...)
			text, err := s.node.appendPart(nil, next, textPart)
			if err != nil {
				return
			}
			header, _, _ := bytes.Cut(text, []byte(afterHeader))
			b = append(append(b, header...), `}}}`...)
			if ctx.Err() != nil || s.write(ctx, b) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-grown:
		}
	}
}
