package p2p

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Obstacle is the kind of reason for which a node is not connected.
type Obstacle string

const (
	// ObstacleUntried: the node was not dialled yet, or its connection was just lost.
	ObstacleUntried Obstacle = "untried"
	// ObstacleNoAddress: no address of the node is known.
	ObstacleNoAddress Obstacle = "no_address"
	// ObstaclePrivateAddress: its known addresses are private, and AllowPrivateIPs is not set.
	ObstaclePrivateAddress Obstacle = "private_address"
	// ObstacleUnreachable: its address does not accept connections.
	ObstacleUnreachable Obstacle = "unreachable"
	// ObstacleOtherNode: another node answers at its address.
	ObstacleOtherNode Obstacle = "other_node"
	// ObstacleClosed: the node closed the connection before its handshake. Nodes do so if
	// they have a connection of the same identity, if they admit validators only, and if they
	// have just had a connection from the same IP address.
	ObstacleClosed Obstacle = "closed"
	// ObstacleClock: the node's clock and this machine's differ too much.
	ObstacleClock Obstacle = "clock"
	// ObstacleVersion: the node's version is not compatible.
	ObstacleVersion Obstacle = "version"
	// ObstacleNetwork: the node belongs to another network.
	ObstacleNetwork Obstacle = "network"
	// ObstacleHandshake: the node's handshake is invalid or incomplete.
	ObstacleHandshake Obstacle = "handshake"
)

// Failure is why the latest attempt to connect to a node failed.
type Failure struct {
	Obstacle Obstacle
	// Detail has the numbers of the obstacle, for example "75 s"; may be empty.
	Detail string
}

// handshakeError is an errHandshake with an obstacle.
type handshakeError struct {
	Failure
	text string
}

func (e *handshakeError) Error() string { return fmt.Sprintf("%v: %s", errHandshake, e.text) }

// Is makes every handshakeError an errHandshake.
func (e *handshakeError) Is(target error) bool {
	return target == errHandshake || target == errIncompatible && e.Obstacle == ObstacleVersion
}

// Failure returns why nodeID, which is not connected, could not be connected.
func (n *Network) Failure(nodeID ids.NodeID) Failure {
	if f, ok := n.candidates.failure(nodeID); ok {
		return f
	}
	return Failure{Obstacle: ObstacleNoAddress}
}

// Lost returns when the latest connection to nodeID was lost; the zero time if none was since the start.
func (n *Network) Lost(nodeID ids.NodeID) time.Time { return n.candidates.lost(nodeID) }

// failureOf returns the Failure of an attempt. err is nil if the handshake was finished.
func failureOf(err error) Failure {
	var handshake *handshakeError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, errUnwanted):
		return Failure{Obstacle: ObstacleUntried}
	case errors.Is(err, errPrivateAddress):
		return Failure{Obstacle: ObstaclePrivateAddress}
	case errors.Is(err, errNoAddress):
		return Failure{Obstacle: ObstacleNoAddress}
	case errors.As(err, &handshake):
		return handshake.Failure
	case errors.Is(err, errOtherNode):
		return Failure{Obstacle: ObstacleOtherNode}
	case errors.Is(err, errHandshake), errors.Is(err, errSilent), errors.Is(err, errMalformed), errors.Is(err, errUnexpected), errors.Is(err, context.DeadlineExceeded):
		return Failure{Obstacle: ObstacleHandshake}
	case errors.Is(err, errUnreachable):
		return Failure{Obstacle: ObstacleUnreachable}
	}
	return Failure{Obstacle: ObstacleClosed}
}
