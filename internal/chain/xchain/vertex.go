package xchain

import (
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

// Vertex is what the X-Chain accepted before it had blocks: some transactions, and
// the vertices that it builds on. A transaction may be in several vertices. Vertices
// have no time.
type Vertex struct {
	ID, ChainID ids.ID
	ParentIDs   []ids.ID
	// Height is one more than the largest of the parents'; several vertices have
	// the same.
	Height uint64
	// TxIDs are those of Txs, the transactions' bytes.
	TxIDs []ids.ID
	Txs   [][]byte
	// Size is the vertex's, in bytes.
	Size int
	// Stop says that this is the vertex that ended all others.
	Stop bool
}

// ParseVertex reads a vertex. The result refers to b. Errors are ErrVertex.
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
		Txs: v.Txs(), Size: len(b), Stop: v.StopVertex(),
	}
	for _, tx := range v.Txs() {
		parsed.TxIDs = append(parsed.TxIDs, hashing.ComputeHash256Array(tx))
	}
	return parsed, nil
}

// AlwaysLinear reports whether the chain that begins with a block had no vertices: the
// block then follows a vertex without parents, which nodes make up to begin with
// (avalanchego snow/engine/avalanche/bootstrap).
func (d *Decoder) AlwaysLinear(first *Block) (bool, error) {
	if first.ParentID == ids.Empty {
		return true, nil
	}
	stop, err := vertex.BuildStopVertex(d.chainID, 0, nil)
	if err != nil {
		return false, fmt.Errorf("making a vertex: %w", err)
	}
	return first.ParentID == stop.ID(), nil
}
