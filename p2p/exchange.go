package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
)

var (
	// ErrNotSent means that a request was not sent: the node is not connected, does not read,
	// or has maxExchanges pending requests.
	ErrNotSent = errors.New("request was not sent")
	// ErrUnanswered means that a node did not answer in time. Nodes drop requests for
	// containers that they do not have.
	ErrUnanswered = errors.New("node did not answer in time")
)

// maxExchanges bounds the pending requests for blocks and block IDs to one node: one for each chain of the primary
// network, and eight for the epochs of chains that are looked up at the same time. Large answers delay
// signatures on the same connection.
const maxExchanges = 11

// replyKind is the kind of message that answers a request.
type replyKind uint8

const (
	// replyApp is an AppResponse or AppError.
	replyApp replyKind = iota
	// The others are named after their messages.
	replyAncestors
	replyFrontier
	replyAccepted
	replyPut
)

// hasBlocks reports whether messages of the kind hold blocks, and may be large. The others list IDs.
func (k replyKind) hasBlocks() bool { return k == replyAncestors || k == replyPut }

// AcceptedFrontier asks one node for the last container of a chain that it has accepted. Nodes answer every
// peer, in every state (avalanchego, snow/engine/snowman/getter). Errors are those of Ancestors.
func (n *Network) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	m, err := n.exchange(ctx, nodeID, chainID, replyFrontier, func(requestID uint32, deadline time.Duration) *p2p.Message {
		return &p2p.Message{Message: &p2p.Message_GetAcceptedFrontier{GetAcceptedFrontier: &p2p.GetAcceptedFrontier{
			ChainId: chainID[:], RequestId: requestID, Deadline: uint64(deadline),
		}}}
	})
	if err != nil {
		return ids.Empty, fmt.Errorf("asking %s for its last accepted block: %w", nodeID, err)
	}
	id, err := ids.ToID(m.GetAcceptedFrontier_().GetContainerId())
	if err != nil {
		return ids.Empty, fmt.Errorf("asking %s for its last accepted block: %w", nodeID, err)
	}
	return id, nil
}

// Accepted asks one node which of some containers of a chain it has accepted, and returns those. It does not return
// others, whatever the node says. Errors are those of Ancestors.
func (n *Network) Accepted(ctx context.Context, nodeID ids.NodeID, chainID ids.ID, of []ids.ID) ([]ids.ID, error) {
	listed := make([][]byte, len(of))
	for i := range of {
		listed[i] = of[i][:]
	}
	m, err := n.exchange(ctx, nodeID, chainID, replyAccepted, func(requestID uint32, deadline time.Duration) *p2p.Message {
		return &p2p.Message{Message: &p2p.Message_GetAccepted{GetAccepted: &p2p.GetAccepted{
			ChainId: chainID[:], RequestId: requestID, Deadline: uint64(deadline), ContainerIds: listed,
		}}}
	})
	if err != nil {
		return nil, fmt.Errorf("asking %s for the blocks that it has accepted: %w", nodeID, err)
	}
	said := m.GetAccepted_().GetContainerIds()
	var accepted []ids.ID
	for _, id := range of {
		if slices.ContainsFunc(said, func(b []byte) bool { return bytes.Equal(b, id[:]) }) {
			accepted = append(accepted, id)
		}
	}
	return accepted, nil
}

// Ancestors asks one node for a container of a chain and its ancestors. It returns what
// the node sent, unverified: at most 2,000 containers and 4/5 of the largest message
// (avalanchego, snow/engine/{avalanche,snowman}/getter), the requested one first. Blocks
// follow in order of descending height, vertices breadth first.
//
// A node serves vertices after linearisation, too, if asked for the DAG engine: its
// handler passes the request to the engine that the message names (avalanchego,
// snow/networking/handler). It drops a request for what it does not have.
//
// Errors are ErrNotSent, ErrUnanswered, ErrDisconnected, or ctx's own if it was canceled.
func (n *Network) Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, containerID ids.ID, engine p2p.EngineType) ([][]byte, error) {
	m, err := n.exchange(ctx, nodeID, chainID, replyAncestors, func(requestID uint32, deadline time.Duration) *p2p.Message {
		return &p2p.Message{Message: &p2p.Message_GetAncestors{GetAncestors: &p2p.GetAncestors{
			ChainId:     chainID[:],
			RequestId:   requestID,
			Deadline:    uint64(deadline),
			ContainerId: containerID[:],
			EngineType:  engine,
		}}}
	})
	if err != nil {
		return nil, fmt.Errorf("asking %s for the ancestors of %s: %w", nodeID, containerID, err)
	}
	return m.GetAncestors_().GetContainers(), nil
}

// Container asks one node for a container of a chain, and returns what the node sent, unverified. Errors are those of
// Ancestors.
func (n *Network) Container(ctx context.Context, nodeID ids.NodeID, chainID, containerID ids.ID) ([]byte, error) {
	m, err := n.exchange(ctx, nodeID, chainID, replyPut, func(requestID uint32, deadline time.Duration) *p2p.Message {
		return &p2p.Message{Message: &p2p.Message_Get{Get: &p2p.Get{
			ChainId: chainID[:], RequestId: requestID, Deadline: uint64(deadline), ContainerId: containerID[:],
		}}}
	})
	if err != nil {
		return nil, fmt.Errorf("asking %s for block %s: %w", nodeID, containerID, err)
	}
	return m.GetPut().GetContainer(), nil
}

// exchange sends one request to one node and waits for the reply of a kind, until ctx
// ends or, at the latest, for maxDeadline. Each kind of request about blocks is an
// exchange: it adds its replyKind, its field in handled, and its case in session.onMessage.
func (n *Network) exchange(
	ctx context.Context,
	nodeID ids.NodeID,
	chainID ids.ID,
	kind replyKind,
	request func(requestID uint32, deadline time.Duration) *p2p.Message,
) (*p2p.Message, error) {
	limited, cancel := context.WithTimeout(ctx, maxDeadline)
	defer cancel()
	end, _ := limited.Deadline()
	n.mu.RLock()
	s := n.connected[nodeID]
	n.mu.RUnlock()
	if s == nil || !s.beginExchange(kind) {
		return nil, ErrNotSent
	}
	defer s.endExchange(kind)

	// The answer may come before send returns, and comes at most once.
	answers := make(chan Answer, 1)
	requestID, c := n.calls.openFor(limited, chainID, []ids.NodeID{nodeID}, kind, func(a Answer) { answers <- a })
	defer n.calls.close(requestID, c)
	framed, err := frame(request(requestID, time.Until(end)))
	if err != nil {
		return nil, err
	}
	if !s.send(framed) {
		return nil, ErrNotSent
	}
	n.metrics.requests.Inc()
	select {
	case a := <-answers:
		return a.message, a.Err
	case <-limited.Done():
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return nil, err
		}
		return nil, ErrUnanswered
	}
}

// beginExchange reserves one of the node's exchanges. It returns false if maxExchanges are
// pending. A node that is asked for blocks may send one message of the largest size beyond its
// rate limit, so that a requested answer does not delay other messages.
func (s *session) beginExchange(kind replyKind) bool {
	if s.exchanges.Add(1) > maxExchanges {
		s.exchanges.Add(-1)
		return false
	}
	if kind.hasBlocks() {
		s.blockExchanges.Add(1)
		s.credit.Add(maxMessage)
	}
	return true
}

func (s *session) endExchange(kind replyKind) {
	if kind.hasBlocks() && s.blockExchanges.Add(-1) == 0 {
		s.credit.Store(0)
	}
	s.exchanges.Add(-1)
}

// charged returns how many bytes of a message count against the node's rate limit: those
// beyond the credit of exchanges.
func (s *session) charged(bytes int) int {
	for {
		credit := s.credit.Load()
		used := min(credit, int64(bytes))
		if used <= 0 {
			return bytes
		}
		if s.credit.CompareAndSwap(credit, credit-used) {
			return bytes - int(used)
		}
	}
}
