// Package cb58 parses the IDs in requests. The decoder of base58 takes time quadratic in the length of its input, so text
// that is too long for an ID is refused before.
package cb58

import (
	"errors"

	"github.com/ava-labs/avalanchego/ids"
)

// maxText is more than the length of any ID; node IDs have a prefix.
const maxText = 64

var errTooLong = errors.New("too long for an ID")

// ID parses an ID.
func ID(text string) (ids.ID, error) {
	if len(text) > maxText {
		return ids.Empty, errTooLong
	}
	return ids.FromString(text)
}

// NodeID parses a node ID.
func NodeID(text string) (ids.NodeID, error) {
	if len(text) > maxText {
		return ids.EmptyNodeID, errTooLong
	}
	return ids.NodeIDFromString(text)
}
