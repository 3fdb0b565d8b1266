package p2p

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/set"
)

const (
	// maxDeadline is the longest time that a receiver works on a request
	// (avalanchego, utils/constants, DefaultNetworkMaximumInboundTimeout).
	maxDeadline = constants.DefaultNetworkMaximumInboundTimeout
	// maxRequest bounds a request in bytes: the largest message of the wire less
	// some room for what surrounds the request in it.
	maxRequest = maxMessage - 1024
)

// Request sends a request, with one message and one request ID, to those of nodes that are
// connected, and returns them. appBytes is the request as the chain's handler expects it, its
// protocol prefix included.
//
// onAnswer is called at most once for each of the returned nodes, with its answer or with
// ErrDisconnected, and may be called before Request returns. It runs on the goroutine that
// reads the connection, so it must not block. It is not called for nodes that do not answer.
// When ctx ends, the request is not sent to further nodes, and later answers are dropped.
// A request to a node that has not read megabytes of earlier messages is dropped: such a node
// counts as one that does not answer.
func (n *Network) Request(
	ctx context.Context,
	chainID ids.ID,
	nodes []ids.NodeID,
	appBytes []byte,
	onAnswer func(Answer),
) (sent []ids.NodeID) {
	if ctx.Err() != nil || len(nodes) == 0 {
		return nil
	}
	if len(appBytes) > maxRequest {
		n.log.Error("request is too large to be sent", "chainID", chainID, "bytes", len(appBytes), "max", maxRequest)
		return nil
	}
	deadline := maxDeadline
	if end, ok := ctx.Deadline(); ok {
		deadline = min(deadline, time.Until(end))
	}
	if deadline <= 0 {
		return nil
	}

	// Registered first: answers may arrive before the request is sent to all nodes.
	requestID, c := n.calls.open(ctx, chainID, nodes, onAnswer)
	framed, err := frame(&p2p.Message{Message: &p2p.Message_AppRequest{AppRequest: &p2p.AppRequest{
		ChainId:   chainID[:],
		RequestId: requestID,
		Deadline:  uint64(deadline),
		AppBytes:  appBytes,
	}}})
	if err != nil {
		n.log.Error("request cannot be encoded", "chainID", chainID, "error", err)
		n.calls.handed(requestID, c, nil)
		return nil
	}
	sent = n.calls.handed(requestID, c, sendAll(ctx, n.connectedOf(c.asked), framed))
	n.metrics.requests.Add(float64(len(sent)))
	return sent
}

// connectedOf lists the sessions of those nodes that are connected.
func (n *Network) connectedOf(nodes []ids.NodeID) []*session {
	list := make([]*session, 0, len(nodes))
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, nodeID := range nodes {
		if s := n.connected[nodeID]; s != nil {
			list = append(list, s)
		}
	}
	return list
}

// sendShare is the number of sessions for each goroutine that sends. Sending takes about 10 µs
// a session.
const sendShare = 64

// sendAll sends to all sessions in order, on all processors, until ctx ends. It returns the
// nodes that are still connected.
func sendAll(ctx context.Context, sessions []*session, framed []byte) set.Set[ids.NodeID] {
	took := make([]bool, len(sessions))
	workers := max(min(runtime.GOMAXPROCS(0), len(sessions)/sendShare), 1)
	share := func(first int) {
		for i := first; i < len(sessions) && ctx.Err() == nil; i += workers {
			took[i] = sessions[i].send(framed) || sessions[i].wire.open()
		}
	}
	var others sync.WaitGroup
	for i := 1; i < workers; i++ {
		others.Go(func() { share(i) })
	}
	share(0)
	others.Wait()
	taken := set.NewSet[ids.NodeID](len(sessions))
	for i, s := range sessions {
		if took[i] {
			taken.Add(s.nodeID)
		}
	}
	return taken
}

// answered passes an answer to its request. It does not keep the bytes of a.
func (n *Network) answered(nodeID ids.NodeID, chainID []byte, requestID uint32, a Answer) {
	if !n.calls.answer(nodeID, chainID, requestID, a) {
		n.metrics.unexpected.Inc()
		return
	}
	if a.Err != nil {
		n.metrics.refusals.Inc()
	} else {
		n.metrics.responses.Inc()
	}
}

// calls are the pending requests by request ID.
type calls struct {
	mu     sync.RWMutex
	byID   map[uint32]*call // guarded by mu
	nextID uint32           // guarded by mu; odd
}

// call is one request to many nodes. All but what mu guards is immutable.
type call struct {
	ctx      context.Context //nolint:containedctx // the life of the request, which answers are checked against
	chainID  ids.ID
	kind     replyKind
	asked    []ids.NodeID // without repetition
	onAnswer func(Answer)
	start    time.Time

	mu      sync.Mutex
	waiting map[ids.NodeID]struct{} // guarded by mu: nodes that may still answer
	forget  func() bool             // guarded by mu: ends the watch on ctx
}

func newCalls() *calls {
	return &calls{
		byID: make(map[uint32]*call),
		// Odd, because coreth and subnet-evm drop even IDs, which belonged to a retired
		// protocol. Random, so that answers to an earlier process do not match requests of
		// this one.
		nextID: rand.Uint32() | 1,
	}
}

// open registers an application request. It is removed when no node is waited for any more, or
// when ctx ends.
func (cs *calls) open(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, onAnswer func(Answer)) (uint32, *call) {
	return cs.openFor(ctx, chainID, nodes, replyApp, onAnswer)
}

// openFor is open for a request that messages of another kind answer.
func (cs *calls) openFor(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, kind replyKind, onAnswer func(Answer)) (uint32, *call) {
	c := &call{
		ctx:      ctx,
		chainID:  chainID,
		kind:     kind,
		asked:    make([]ids.NodeID, 0, len(nodes)),
		onAnswer: onAnswer,
		start:    time.Now(),
		waiting:  make(map[ids.NodeID]struct{}, len(nodes)),
	}
	for _, nodeID := range nodes {
		if _, repeated := c.waiting[nodeID]; !repeated {
			c.waiting[nodeID] = struct{}{}
			c.asked = append(c.asked, nodeID)
		}
	}

	// Held until the call is complete: an answer may arrive as soon as it has an ID, by a guess
	// or because the node is lost.
	c.mu.Lock()
	defer c.mu.Unlock()

	cs.mu.Lock()
	for cs.byID[cs.nextID] != nil {
		cs.nextID += 2
	}
	requestID := cs.nextID
	cs.nextID += 2 // stays odd when it wraps
	cs.byID[requestID] = c
	cs.mu.Unlock()

	c.forget = context.AfterFunc(ctx, func() { cs.drop(requestID) })
	return requestID, c
}

// handed notes the nodes that may answer. It returns those for which onAnswer
// was or may be called.
func (cs *calls) handed(requestID uint32, c *call, taken set.Set[ids.NodeID]) []ids.NodeID {
	sent := make([]ids.NodeID, 0, len(taken))
	c.mu.Lock()
	for _, nodeID := range c.asked {
		if !taken.Contains(nodeID) {
			// A node that is not waited for was lost during sending: onAnswer was called.
			if _, waiting := c.waiting[nodeID]; waiting {
				delete(c.waiting, nodeID)
				continue
			}
		}
		sent = append(sent, nodeID)
	}
	over := len(c.waiting) == 0
	c.mu.Unlock()
	if over {
		cs.close(requestID, c)
	}
	return sent
}

// answer passes a copy of an answer to its call. It returns false if no call waits for it.
func (cs *calls) answer(nodeID ids.NodeID, chainID []byte, requestID uint32, a Answer) bool {
	cs.mu.RLock()
	c := cs.byID[requestID]
	cs.mu.RUnlock()
	if c == nil || c.kind != a.kind || !bytes.Equal(chainID, c.chainID[:]) {
		return false
	}
	return cs.deliver(requestID, c, nodeID, a)
}

// disconnected ends the wait for nodeID everywhere.
func (cs *calls) disconnected(nodeID ids.NodeID) {
	cs.mu.RLock()
	all := make(map[uint32]*call, len(cs.byID))
	for requestID, c := range cs.byID {
		all[requestID] = c
	}
	cs.mu.RUnlock()
	for requestID, c := range all {
		cs.deliver(requestID, c, nodeID, Answer{Err: ErrDisconnected})
	}
}

func (cs *calls) deliver(requestID uint32, c *call, nodeID ids.NodeID, a Answer) bool {
	c.mu.Lock()
	_, waiting := c.waiting[nodeID]
	if !waiting || c.ctx.Err() != nil {
		c.mu.Unlock()
		return false
	}
	delete(c.waiting, nodeID)
	over := len(c.waiting) == 0
	c.mu.Unlock()
	if over {
		cs.close(requestID, c)
	}
	a.NodeID = nodeID
	a.Bytes = bytes.Clone(a.Bytes)
	a.Elapsed = time.Since(c.start)
	c.onAnswer(a)
	return true
}

// close removes a call.
func (cs *calls) close(requestID uint32, c *call) {
	c.mu.Lock()
	forget := c.forget
	c.mu.Unlock()
	forget()
	cs.drop(requestID)
}

func (cs *calls) drop(requestID uint32) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.byID, requestID)
}

// len returns the number of pending calls.
func (cs *calls) len() int {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return len(cs.byID)
}
