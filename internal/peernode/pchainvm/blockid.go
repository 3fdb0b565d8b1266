package pchainvm

import (
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
)

// BlockID returns the ID of the executed block at a height. The error is database.ErrNotFound if there is none.
func (c *Chain) BlockID(ctx context.Context, height uint64) (ids.ID, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	id, err := c.vm.GetBlockIDAtHeight(ctx, height)
	if err != nil {
		return ids.Empty, fmt.Errorf("reading the ID of the P-Chain's block at height %d: %w", height, err)
	}
	return id, nil
}
