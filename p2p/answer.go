// Package p2p connects to the Avalanche peer-to-peer network. It has a stable identity,
// connections to the validators of every subnet, an address book that survives restarts,
// application requests, and requests for blocks. It matches each answer to the node and the
// request it belongs to. It does not interpret requests and does not verify answers.
package p2p

import (
	"errors"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
)

// ErrDisconnected is the answer of a node whose connection was lost before it answered.
var ErrDisconnected = errors.New("connection lost before an answer")

// Answer is one node's response to an application request, or the reason why there is none.
type Answer struct {
	NodeID ids.NodeID
	// Bytes is the application response. The receiver owns it.
	Bytes []byte
	// Err is nil for a response, an *common.AppError (avalanchego,
	// snow/engine/common) if the node refused, or ErrDisconnected.
	Err error
	// Elapsed is the time from sending the request to the answer.
	Elapsed time.Duration

	// kind is the kind of message, which is the answer to an exchange.
	kind    replyKind
	message *p2p.Message
}
