// Package p2p is our place on the Avalanche peer-to-peer network: a stable
// identity, connections to the validators of every subnet, an address book that
// survives restarts, and application requests whose answers are matched to the
// node and the request they belong to. It knows nothing of what the requests
// mean.
package p2p

import (
	"errors"
	"time"

	"github.com/ava-labs/avalanchego/ids"
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
}
