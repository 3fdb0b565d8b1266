package p2p

import (
	"context"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/snow/networking/router"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/version"
)

var _ router.ExternalHandler = inbound{}

// maxRefusalText bounds how much of a node's explanation is kept, in bytes.
const maxRefusalText = 1024

// inbound is what the library tells us: nodes that come and go, and messages
// other than those of the handshake. All are called from the goroutine of the
// connection concerned.
type inbound struct{ n *Network }

// HandleInbound passes on answers to requests of ours. Everything else (queries
// and gossip of chains that we do not run) is dropped: whoever asks treats us
// like a node that does not run the chain.
func (i inbound) HandleInbound(_ context.Context, msg *message.InboundMessage) {
	// Gives the bytes of the message back to the connection's allowance. The
	// library stops reading from a node whose messages are not given back
	// (avalanchego, network/throttling), so this is the one place that does it,
	// on every path.
	defer msg.OnFinishedHandling()
	switch m := msg.Message.(type) {
	case *p2p.AppResponse:
		// The bytes are the decoder's own copy; nothing else refers to them.
		i.n.answered(msg.NodeID, m.ChainId, m.RequestId, Answer{Bytes: m.AppBytes})
	case *p2p.AppError:
		text := m.ErrorMessage
		if len(text) > maxRefusalText {
			text = strings.ToValidUTF8(strings.Clone(text[:maxRefusalText]), "")
		}
		i.n.answered(msg.NodeID, m.ChainId, m.RequestId, Answer{Err: &common.AppError{Code: m.ErrorCode, Message: text}})
	default:
		i.n.metrics.unhandled.Inc()
	}
}

// answered hands an answer to the request that it belongs to.
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

// Connected is called once for the primary network and once for each tracked
// subnet, of which we have none.
func (i inbound) Connected(nodeID ids.NodeID, _ *version.Application, subnetID ids.ID) {
	if subnetID != constants.PrimaryNetworkID {
		return
	}
	for _, info := range i.n.lib.PeerInfo([]ids.NodeID{nodeID}) {
		i.n.book.met(Address{NodeID: nodeID, Addr: info.IP})
		i.n.dialer.claimed(nodeID, info.PublicIP)
	}
	i.n.mu.Lock()
	i.n.connected.Add(nodeID)
	hooks := make([]func(ids.NodeID), 0, len(i.n.onConnect))
	for f := range i.n.onConnect {
		hooks = append(hooks, *f)
	}
	i.n.mu.Unlock()
	for _, f := range hooks {
		f(nodeID)
	}
}

// Disconnected is called before the same node can be connected again.
func (i inbound) Disconnected(nodeID ids.NodeID) {
	i.n.mu.Lock()
	i.n.connected.Remove(nodeID)
	i.n.mu.Unlock()
	i.n.calls.disconnected(nodeID)
}
