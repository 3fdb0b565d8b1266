package xchain

import (
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

// Vertex is what the X-Chain accepted before Cortina: transactions and references to parent
// vertices. Several vertices may contain the same transaction. Vertices have no time.
type Vertex struct {
	ID, ChainID ids.ID
	ParentIDs   []ids.ID
	// Height is one more than the greatest height of the parents. Several vertices may have
	// the same height.
	Height uint64
	// TxIDs are the IDs of Txs, which are the transactions' bytes.
	TxIDs []ids.ID
	Txs   [][]byte
	// Size is the size of the vertex in bytes.
	Size int
}

// ParseVertex parses a vertex. The result refers to b. Errors wrap ErrVertex.
func ParseVertex(b []byte) (*Vertex, error) {
	v, err := vertex.Parse(b)
	if err == nil {
		err = v.Verify()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVertex, err)
	}
	parsed := &Vertex{
		ID: v.ID(), ChainID: v.ChainID(), ParentIDs: v.ParentIDs(), Height: v.Height(),
		Txs: v.Txs(), Size: len(b),
	}
	for _, tx := range v.Txs() {
		parsed.TxIDs = append(parsed.TxIDs, hashing.ComputeHash256Array(tx))
	}
	return parsed, nil
}

// AlwaysLinear reports whether the chain that begins with a block had no vertices. The
// block then follows a stop vertex without parents, which nodes create themselves
// (avalanchego snow/engine/avalanche/bootstrap).
func (d *Decoder) AlwaysLinear(first *Block) (bool, error) {
	if first.ParentID == ids.Empty {
		return true, nil
	}
	stop, err := vertex.BuildStopVertex(d.chainID, 0, nil)
	if err != nil {
		return false, fmt.Errorf("building a stop vertex: %w", err)
	}
	return first.ParentID == stop.ID(), nil
}
