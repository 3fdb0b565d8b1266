package simnet

import (
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
)

// genesisTime is the time of the first simulated P-Chain block. Blocks are one second
// apart.
var genesisTime = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// blockAt returns the P-Chain block at a height, or false above the tip. Blocks have no
// transactions: Advance changes the validator sets directly.
func (n *Network) blockAt(height uint64) (block.Block, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if height > n.height() {
		return nil, false, nil
	}
	for next := uint64(len(n.blocks)); next <= height; next++ {
		b, err := n.makeBlock(next)
		if err != nil {
			return nil, false, fmt.Errorf("making block %d: %w", next, err)
		}
		n.blocks = append(n.blocks, b)
	}
	return n.blocks[height], true, nil
}

// makeBlock creates a block. The caller holds mu.
func (n *Network) makeBlock(height uint64) (block.Block, error) {
	if height == 0 { // like avalanchego's genesis block
		return block.NewApricotCommitBlock(ids.ID(draw(n.options.Seed, "genesis", 0)), 0)
	}
	at := genesisTime.Add(time.Duration(height) * time.Second)
	return block.NewBanffStandardBlock(at, n.blocks[height-1].ID(), height, nil)
}
