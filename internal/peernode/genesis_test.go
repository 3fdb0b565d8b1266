package peernode

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"github.com/ava-labs/avalanchego/utils/hashing"
)

// atGenesis are nodes that have accepted the genesis block only.
type atGenesis struct {
	*network
	block block.Block
}

func (n *atGenesis) AcceptedFrontier(context.Context, ids.NodeID, ids.ID) (ids.ID, error) {
	return n.block.ID(), nil
}

func (n *atGenesis) Accepted(_ context.Context, _ ids.NodeID, _ ids.ID, of []ids.ID) ([]ids.ID, error) {
	return of, nil
}

func (n *atGenesis) Container(context.Context, ids.NodeID, ids.ID, ids.ID) ([]byte, error) {
	return n.block.Bytes(), nil
}

// TestNoBlocks follows a network whose chain has no block after the genesis block.
func TestNoBlocks(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	genesis, err := block.NewApricotCommitBlock(hashing.ComputeHash256Array(g.Bytes), 0)
	require.NoError(t, err)
	node := run(t, options(r, g, n), &atGenesis{n, genesis}, confirmedAt(0))
	require.NoError(t, node.Ready())
}
