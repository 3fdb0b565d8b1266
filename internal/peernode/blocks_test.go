package peernode

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/cchain"
)

// ledgerNetwork is nodes that have the recorded P-Chain, X-Chain, and a C-Chain of one block.
type ledgerNetwork struct {
	*network
	chains map[ids.ID]*network
}

func (n *ledgerNetwork) of(chainID ids.ID) *network {
	if other, ok := n.chains[chainID]; ok {
		return other
	}
	return n.network
}

func (n *ledgerNetwork) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	return n.of(chainID).AcceptedFrontier(ctx, nodeID, chainID)
}

func (n *ledgerNetwork) Accepted(ctx context.Context, nodeID ids.NodeID, chainID ids.ID, of []ids.ID) ([]ids.ID, error) {
	return n.of(chainID).Accepted(ctx, nodeID, chainID, of)
}

func (n *ledgerNetwork) Container(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID) ([]byte, error) {
	return n.of(chainID).Container(ctx, nodeID, chainID, id)
}

func (n *ledgerNetwork) Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID, engine p2p.EngineType) ([][]byte, error) {
	return n.of(chainID).Ancestors(ctx, nodeID, chainID, id, engine)
}

// genesisBlock returns a block of the C-Chain at height 0.
func genesisBlock(t testing.TB) []byte {
	t.Helper()
	hash, address, bloom, nonce := make([]byte, 32), make([]byte, 20), make([]byte, 256), make([]byte, 8)
	header := []any{hash, hash, address, hash, hash, hash, bloom, uint64(0), uint64(0), uint64(8_000_000), uint64(0), uint64(1_600_000_000), []byte{}, hash, nonce, hash}
	b, err := rlp.EncodeToBytes([]any{header, []any{}, []any{}, uint64(0), []byte{}})
	require.NoError(t, err)
	return b
}

// newLedgerNetwork returns the network of recorded chains, and the options of a node that downloads them.
func newLedgerNetwork(t testing.TB) (*ledgerNetwork, Options, *recording) {
	t.Helper()
	r, g := record(t)
	n := &ledgerNetwork{newNetwork(r, g), make(map[ids.ID]*network)}
	x, err := newXChain(g.XChainID, nil)
	require.NoError(t, err)
	add := func(chain *blockStore, containers [][]byte) {
		other := &network{containers: containers, places: make(map[ids.ID]int), nodes: n.nodes, height: make(map[ids.NodeID]int), most: 4, chain: chain}
		for i, b := range containers {
			other.places[openContainer(chain, b).ID] = i
		}
		other.accept(len(containers))
		n.chains[chain.chainID] = other
	}
	add(x, slices.Concat([][]byte{r.X0}, r.X))
	add(newCChain(g.NetworkID, g.CChainID, nil), [][]byte{genesisBlock(t)})
	o := options(r, g, n.network)
	o.Ledger = true
	return n, o, r
}

// TestDownloadsTheLedger downloads the X-Chain of a real network with restarts. Nodes send four blocks at a time.
func TestDownloadsTheLedger(t *testing.T) {
	n, o, r := newLedgerNetwork(t)
	x := n.chains[o.Genesis.XChainID]
	o.Dir = t.TempDir()
	for accepted := 3; ; accepted += 5 {
		accepted = min(accepted, len(x.containers))
		x.accept(accepted)
		node := runLedger(t, o, n, func(node *Node) bool {
			height, err := node.XHeight()
			if err != nil || height != uint64(accepted-1) {
				return false
			}
			_, err = node.CHeight()
			return err == nil
		}, func(node *Node) {
			for height := range accepted {
				got, err := node.XBlock(uint64(height))
				require.NoError(t, err)
				require.Equal(t, openContainer(node.x, x.containers[height]).Block, got, "height %d", height)
			}
			_, err := node.XBlock(uint64(accepted))
			require.ErrorIs(t, err, ErrNotDownloaded)
			c, err := node.CBlock(0)
			require.NoError(t, err)
			want, err := cchain.ParseBlock(genesisBlock(t))
			require.NoError(t, err)
			require.Equal(t, want.ID, c.ID)
			require.Equal(t, want.Time, c.Time)
		})
		_, err := node.XBlock(0)
		require.ErrorIs(t, err, ErrNotDownloaded, "it does not run")
		if accepted == len(x.containers) {
			break
		}
	}
	require.NotEmpty(t, r.X)
}

// TestForgedLedger has two of five nodes send something else than the X-Chain's blocks, and claim another tip.
func TestForgedLedger(t *testing.T) {
	n, o, r := newLedgerNetwork(t)
	x := n.chains[o.Genesis.XChainID]
	x.spoil = func(nodeID ids.NodeID, all [][]byte) ([][]byte, error) {
		switch slices.Index(n.nodes, nodeID) {
		case 0:
			return [][]byte{r.X[2]}, nil
		case 1:
			return nil, errors.New("no answer")
		}
		return all, nil
	}
	x.accept(4, n.nodes[0])
	runLedger(t, o, n, func(node *Node) bool {
		height, err := node.XHeight()
		return err == nil && height == uint64(len(x.containers)-1)
	}, func(*Node) {})
}

// runLedger runs a node until the condition holds, and then looks at it.
func runLedger(t testing.TB, o Options, peers Peers, until func(*Node) bool, look func(*Node)) *Node {
	t.Helper()
	node, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx, peers) }()
	require.Eventually(t, func() bool { return until(node) }, time.Minute, time.Millisecond)
	look(node)
	cancel()
	require.NoError(t, <-ended)
	return node
}

// TestCBlocks keeps what atomic transactions need of real blocks, and refuses blocks with other extra data.
func TestCBlocks(t *testing.T) {
	r, g := record(t)
	c := newCChain(r.NetworkID, g.CChainID, nil)
	require.NotEmpty(t, r.C)
	withExtra := 0
	for height, container := range r.C {
		inner := openContainer(c, container).Block
		parsed, err := c.parse(inner)
		require.NoError(t, err, height)
		want, err := cchain.ParseBlock(inner)
		require.NoError(t, err)
		require.Equal(t, want.Height, parsed.height)
		require.Equal(t, want.ID, c.idOf(parsed.kept))
		if len(want.ExtraData) == 0 {
			continue
		}
		withExtra++
		changed := slices.Clone(inner)
		changed[len(changed)-1]++ // the last byte of the extra data
		_, err = c.parse(changed)
		require.ErrorContains(t, err, "its header names")
	}
	require.Positive(t, withExtra)
}
