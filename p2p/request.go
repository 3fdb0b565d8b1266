package p2p

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/subnets"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/set"
)

const (
	// maxDeadline is the longest time a receiver keeps working for us
	// (avalanchego, utils/constants, DefaultNetworkMaximumInboundTimeout).
	maxDeadline = constants.DefaultNetworkMaximumInboundTimeout
	// maxRequest bounds a request in bytes: the largest message of the wire less
	// some room for what surrounds the request in it.
	maxRequest = constants.DefaultMaxMessageSize - 1024
)

// Request asks every one of nodes that is connected, with one message and one
// request ID, and returns those that the request was handed to. appBytes is the
// request as the chain's handler expects it, its protocol prefix included.
//
// onAnswer is called at most once for each of the returned nodes, with what it
// answered or with ErrDisconnected, and may be called before Request returns. It
// runs on the connection's own goroutine, which reads nothing else meanwhile, so
// it must not block. Nothing is called for nodes that stay silent. When ctx ends
// the request is forgotten, and answers that come later are dropped.
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

	// Registered first: on a fast network the answer may be here before Send
	// returns.
	requestID, c := n.calls.open(ctx, chainID, nodes, onAnswer)
	msg, err := n.creator.AppRequest(chainID, requestID, deadline, appBytes)
	if err != nil {
		n.log.Error("request cannot be encoded", "chainID", chainID, "error", err)
		n.calls.handed(requestID, c, nil)
		return nil
	}
	taken := n.lib.Send(msg, common.SendConfig{NodeIDs: set.Of(nodes...)}, constants.PrimaryNetworkID, subnets.NoOpAllower)
	sent = n.calls.handed(requestID, c, taken)
	n.metrics.requests.Add(float64(len(sent)))
	return sent
}

// calls are the requests that wait for answers, by request ID.
type calls struct {
	mu     sync.RWMutex
	byID   map[uint32]*call // guarded by mu
	nextID uint32           // guarded by mu; odd
}

// call is one request to many nodes. All but what mu guards is immutable.
type call struct {
	ctx      context.Context //nolint:containedctx // the life of the request, which answers are checked against
	chainID  ids.ID
	asked    []ids.NodeID // without repetition
	onAnswer func(Answer)
	start    time.Time

	mu      sync.Mutex
	waiting map[ids.NodeID]struct{} // guarded by mu: who may still answer
	forget  func() bool             // guarded by mu: ends the watch on ctx
}

func newCalls() *calls {
	return &calls{
		byID: make(map[uint32]*call),
		// Chains of coreth and subnet-evm take even IDs for requests of a
		// retired protocol and never answer them, hence odd. Random, so that
		// answers to a former process do not meet requests of this one.
		nextID: rand.Uint32() | 1,
	}
}

// open registers a call. It is forgotten when nobody is waited for any more or
// when ctx ends.
func (cs *calls) open(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, onAnswer func(Answer)) (uint32, *call) {
	c := &call{
		ctx:      ctx,
		chainID:  chainID,
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

	cs.mu.Lock()
	for cs.byID[cs.nextID] != nil {
		cs.nextID += 2
	}
	requestID := cs.nextID
	cs.nextID += 2 // stays odd when it wraps
	cs.byID[requestID] = c
	cs.mu.Unlock()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget = context.AfterFunc(ctx, func() { cs.drop(requestID) })
	return requestID, c
}

// handed tells which nodes the request went to and returns those that onAnswer
// was or may be called for.
func (cs *calls) handed(requestID uint32, c *call, taken set.Set[ids.NodeID]) []ids.NodeID {
	sent := make([]ids.NodeID, 0, len(taken))
	c.mu.Lock()
	for _, nodeID := range c.asked {
		if !taken.Contains(nodeID) {
			// One that is not waited for was lost while we were sending, and
			// the caller has been told.
			if _, silent := c.waiting[nodeID]; silent {
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

// answer calls the call that a belongs to, unless nobody waits for it; it
// reports whether it did.
func (cs *calls) answer(nodeID ids.NodeID, chainID []byte, requestID uint32, a Answer) bool {
	cs.mu.RLock()
	c := cs.byID[requestID]
	cs.mu.RUnlock()
	if c == nil || !bytes.Equal(chainID, c.chainID[:]) {
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
	a.Elapsed = time.Since(c.start)
	c.onAnswer(a)
	return true
}

// close forgets a call that nobody is waited for.
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

// len is the number of calls that wait.
func (cs *calls) len() int {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return len(cs.byID)
}
