package peernode

import (
	"context"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
)

// Executed returns the height of the last executed block, and false before Run has opened the chain. The chain may not be
// executed to its tip.
func (n *Node) Executed() (height uint64, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.Status().Height, n.chain != nil
}

// BlockID returns the ID of the executed block at a height, without its proposer envelope. The error is ErrBehind if that
// is not executed yet. Blocks below First are not known.
func (n *Node) BlockID(ctx context.Context, height uint64) (ids.ID, error) {
	n.mu.RLock() // Run closes the chain afterwards
	defer n.mu.RUnlock()
	if n.chain == nil {
		return ids.Empty, fmt.Errorf("%w: it is being opened", ErrBehind)
	}
	id, err := n.chain.BlockID(ctx, height)
	switch first := n.First(); {
	case errors.Is(err, database.ErrNotFound) && height < first:
		return ids.Empty, fmt.Errorf("block %d is not known here: the state began with a checkpoint at height %d", height, first)
	case errors.Is(err, database.ErrNotFound):
		return ids.Empty, fmt.Errorf("%w: block %d is not executed yet, the last one is %d", ErrBehind, height, n.Status().Height)
	}
	return id, err
}
