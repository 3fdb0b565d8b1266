package evmchain

import (
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
)

// tau is the least time, in milliseconds, between the execution of a block and a block that
// settles it (avalanchego, vms/saevm/params). Blocks are executed when they are accepted.
const tau = 5000

// results are those of the execution of a block. The header of a later block has them.
type results struct {
	number   uint64
	time     uint64 // Unix milliseconds
	root     common.Hash
	receipts [][]byte
	bloom    types.Bloom
}

// settle returns the results of the last block that a block with the given time settles,
// with the receipts and the bloom of all blocks that no header settled before.
func (g *Generator) settle(now uint64) results {
	var receipts [][]byte
	var bloom types.Bloom
	for len(g.unsettled) > 0 && g.unsettled[0].time+tau <= now {
		g.settled, g.unsettled = g.unsettled[0], g.unsettled[1:]
		receipts = append(receipts, g.settled.receipts...)
		for i, b := range g.settled.bloom {
			bloom[i] |= b
		}
	}
	last := g.settled
	last.receipts, last.bloom = receipts, bloom
	return last
}

// settledBy returns the number of the last block that a block or one of its ancestors
// settled.
func (n *Node) settledBy(number uint64) uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return uint64(n.blocks[number].settled)
}
