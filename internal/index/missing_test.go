package index_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/chain/cchain"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// syncedNode is a node whose C-Chain was state-synced: it has the genesis block and the blocks
// from first on. Its fields may be changed while holding mu.
type syncedNode struct {
	mu         sync.Mutex
	first, tip uint64
	away       bool
}

func (n *syncedNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *syncedNode) EVMHeight(context.Context, string) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return 0, node.ErrUnavailable
	}
	return n.tip, nil
}

func (n *syncedNode) CChainBlock(_ context.Context, height uint64) (node.CChainBlock, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.away:
		return node.CChainBlock{}, node.ErrUnavailable
	case height > n.tip:
		return node.CChainBlock{}, node.ErrBeyondTip
	case height > 0 && height < n.first:
		return node.CChainBlock{}, fmt.Errorf("http://10.0.0.7: %w: block %d, while its last is %d", node.ErrPruned, height, n.tip)
	}
	b := node.CChainBlock{Height: height, Hash: [32]byte{byte(height), byte(height >> 8), 1}, Time: time.Unix(int64(height), 0)}
	if height > 0 {
		b.ParentHash = [32]byte{byte(height - 1), byte((height - 1) >> 8), 1}
	}
	return b, nil
}

func (n *syncedNode) Containers(context.Context, node.Index, uint64, int) ([]node.Container, error) {
	return nil, &node.RPCError{Method: "index.getContainerRange", Code: 404}
}

// atomics is a projection of the C-Chain.
type atomics struct{}

func (atomics) Name() string { return "atomics" }

func (atomics) Apply(context.Context, store.Reader, *cchain.Block, *store.Batch) error { return nil }

// A state-synced node never has the old blocks: the index says so once, and goes on when
// another node takes its place.
func TestStateSyncedNode(t *testing.T) {
	const reason = "block 1 is not available from the node: it was state-synced; " +
		"set state-sync-enabled to false in its C-Chain config and resync, or use another node"
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		n := &syncedNode{first: 3000, tip: 5000}
		p, err := index.New(index.Options[*cchain.Block]{
			NetworkID: 5, Chain: index.CChain, Source: index.NewCChainSource(n, false, nil), Store: store.NewMemory(),
			Projections: []index.Projection[*cchain.Block]{atomics{}}, Log: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()

		time.Sleep(time.Hour)
		synctest.Wait()
		s := p.Status()
		require.Equal(t, index.Waiting, s.State)
		require.Equal(t, reason, s.Needs())
		require.NotContains(t, s.Needs(), "10.0.0.7", "clients are told")
		require.ErrorContains(t, s.Err, "10.0.0.7")
		require.Equal(t, "fetching blocks", s.Failing)
		require.Greater(t, time.Since(s.FailingSince), 59*time.Minute)
		require.Equal(t, uint64(1), s.Next, "the genesis block is there")
		require.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), "%s", logged.String())

		n.set(func() { n.away = true })
		time.Sleep(time.Minute)
		n.set(func() { n.away = false })
		time.Sleep(time.Minute)
		require.Equal(t, index.Waiting, p.Status().State)

		n.set(func() { n.first = 0 })
		time.Sleep(time.Minute)
		synctest.Wait()
		s = p.Status()
		require.Equal(t, index.Following, s.State)
		require.Equal(t, uint64(5001), s.Next)
		require.Empty(t, s.Needs())
		require.NoError(t, s.Err)
		require.Contains(t, logged.String(), "fetching blocks works again")

		n.set(func() { n.first, n.tip = 7000, 8000 }) // a node that synced again
		time.Sleep(time.Minute)
		synctest.Wait()
		s = p.Status()
		require.Equal(t, index.Stalled, s.State, "what is indexed is right")
		require.Equal(t, reason, s.Needs())
		cancel()
		require.NoError(t, <-ended)
	})
}

// An index that never reached the tip has not caught up, however near the tip is.
func TestStateSyncedNodeOfAShortChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := index.New(index.Options[*cchain.Block]{
			NetworkID: 5, Chain: index.CChain, Source: index.NewCChainSource(&syncedNode{first: 13, tip: 18}, false, nil), Store: store.NewMemory(),
			Projections: []index.Projection[*cchain.Block]{atomics{}},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, index.Waiting, p.Status().State)
		require.False(t, p.Status().CaughtUp)
		require.False(t, p.StatusOf("atomics").CaughtUp)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A node that lacks a block in the middle was not state-synced.
func TestNodeThatLacksABlock(t *testing.T) {
	n := lacking{&syncedNode{tip: 5000}, 700}
	_, err := index.NewCChainSource(n, false, nil).Fetch(t.Context(), 700, 10)
	var missing *index.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "block 700 is not available from the node, although block 1 is", missing.Lacks)
	require.ErrorIs(t, err, node.ErrPruned)
}

// lacking is a node without one block.
type lacking struct {
	*syncedNode
	height uint64
}

func (n lacking) CChainBlock(ctx context.Context, height uint64) (node.CChainBlock, error) {
	if height == n.height {
		return node.CChainBlock{}, node.ErrPruned
	}
	return n.syncedNode.CChainBlock(ctx, height)
}
