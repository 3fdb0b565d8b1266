// Package p2p is our place on the Avalanche peer-to-peer network: a stable
// identity, connections to the validators of every subnet, an address book that
// survives restarts, and requests whose answers are matched to the node and the
// request they belong to: application requests, and requests for blocks. It does not
// know what the requests mean and does not verify what nodes answer.
package p2p

import (
	"errors"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
)

// ErrDisconnected is the answer of a node whose connection was lost before it
// answered.
var ErrDisconnected = errors.New("connection lost before an answer")

// Answer is what one node sent back to an application request, or why it never
// will.
type Answer struct {
	NodeID ids.NodeID
	// Bytes is the application response; the receiver owns it.
	Bytes []byte
	// Err is nil for a response, an *common.AppError (avalanchego,
	// snow/engine/common) if the node refused, or ErrDisconnected.
	Err error
	// Elapsed is the time from handing the request to the network to the answer.
	Elapsed time.Duration

	// kind is that of the message, which is what answers an exchange.
	kind    replyKind
	message *p2p.Message
}
