package validators

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// counting is a chain that counts the queries for sets and for epochs in progress.
type counting struct {
	*chain
	now, most, epochs atomic.Int64
}

func (c *counting) ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for seen := c.most.Load(); n > seen && !c.most.CompareAndSwap(seen, n); seen = c.most.Load() {
	}
	return c.chain.ValidatorsAt(ctx, subnetID, height)
}

func (c *counting) CurrentEpoch(ctx context.Context, id ids.ID) (node.Epoch, error) {
	c.epochs.Add(1)
	defer c.epochs.Add(-1)
	if err := c.wait(ctx); err != nil {
		return node.Epoch{}, err
	}
	return c.chain.CurrentEpoch(ctx, id)
}

func clientOf(t *testing.T) *node.Client {
	c, err := node.New(node.Options{Endpoints: []string{"http://127.0.0.1:1"}})
	require.NoError(t, err)
	return c
}

func client(ctx context.Context, name string) context.Context {
	return node.WithClient(ctx, func() string { return name })
}

// One client asks for the sets of 1,000 heights, subnets and chains at a time. Few of its queries reach the node at a
// time, and neither another client nor Run waits for them.
func TestAttackHeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{chain: newChain(t)}
		c.height, c.delay = 100_000, 50*time.Millisecond
		r := NewResolver(c, Options{Enter: clientOf(t).Enter})
		running, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.Run(running) })
		synctest.Wait()

		ctx, cancel := context.WithCancel(client(t.Context(), "greedy"))
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { _, _ = r.Set(ctx, constants.PrimaryNetworkID, uint64(50_000+i)) })
			all.Go(func() { _, _ = r.Set(ctx, ids.GenerateTestID(), 0) })
			all.Go(func() { _, _ = r.SubnetOf(ctx, ids.GenerateTestID()) })
			all.Go(func() { _, _ = r.EpochHeight(ctx, ids.GenerateTestID()) })
		}
		synctest.Wait()
		require.LessOrEqual(t, c.most.Load(), int64(6))
		began := time.Now()
		_, err := r.Set(client(t.Context(), "honest"), constants.PrimaryNetworkID, 49_000)
		require.NoError(t, err)
		require.Equal(t, c.delay, time.Since(began))

		c.mu.Lock()
		c.height++
		c.mu.Unlock()
		time.Sleep(2*quietPoll + 2*c.delay)
		height, ok := r.ProposedHeight()
		require.True(t, ok && height == 100_001, "the service follows the chain meanwhile, got %d", height)
		cancel()
		stop()
		all.Wait()
		run.Wait()
	})
}

// One client asks for the epochs of 1,000 chains. Six queries at a time reach the node, and another client's does not wait.
func TestAttackEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{chain: newChain(t)}
		c.height, c.delay, c.epoch, c.epochNumber = 100_000, 50*time.Millisecond, 7, 1
		r := NewResolver(c, Options{Enter: clientOf(t).Enter})
		ctx, cancel := context.WithCancel(client(t.Context(), "greedy"))
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { _, _ = r.EpochHeight(ctx, ids.GenerateTestID()) })
		}
		synctest.Wait()
		require.EqualValues(t, 6, c.epochs.Load())
		began := time.Now()
		_, err := r.EpochHeight(client(t.Context(), "honest"), constants.PlatformChainID)
		require.NoError(t, err)
		require.Equal(t, c.delay, time.Since(began))
		cancel()
		all.Wait()
	})
}

// A client that waits for its turn neither delays nor fails another one with the same query.
func TestCallersOfOneQueryWaitForTheirOwnTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		c.height, c.delay = 100, time.Minute
		n := clientOf(t)
		r := NewResolver(c, Options{Enter: n.Enter})
		greedy, cancel := context.WithCancel(client(t.Context(), "greedy"))
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { _, _ = r.Set(greedy, constants.PrimaryNetworkID, uint64(50+i)) })
		}
		synctest.Wait()
		asked := c.setCalls.Load()
		for i := range 20 { // in the greedy client's queue
			go func() { _, _ = r.Set(greedy, constants.PrimaryNetworkID, uint64(90-i)) }()
		}
		synctest.Wait()
		require.Equal(t, asked, c.setCalls.Load())
		honest, leave := context.WithTimeout(client(t.Context(), "honest"), time.Second)
		defer leave()
		go func() { _, _ = r.Set(honest, constants.PrimaryNetworkID, 90) }()
		synctest.Wait()
		require.Equal(t, asked+1, c.setCalls.Load(), "at once")
		cancel()
		all.Wait()
		<-honest.Done()
		synctest.Wait()
	})
}

// A caller that waits for the gate gets node.ErrBusy within its deadline.
func TestFullGateIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		c.height = 100
		n := clientOf(t)
		r := NewResolver(c, Options{Enter: n.Enter})
		ctx := client(t.Context(), "one")
		var leaves []func()
		for range 24 {
			_, leave, err := n.Enter(ctx, 1)
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		began := time.Now()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := r.Set(short, constants.PrimaryNetworkID, 50)
		require.ErrorIs(t, err, node.ErrBusy)
		require.Equal(t, time.Second, time.Since(began))
		for _, leave := range leaves {
			leave()
		}
		_, err = r.Set(ctx, constants.PrimaryNetworkID, 50)
		require.NoError(t, err)
	})
}

// A height may not lie further back than MaxHeightAge, but that of an epoch may.
func TestHeightsAreNotTooOld(t *testing.T) {
	c := newChain(t)
	c.height, c.epoch, c.epochNumber = 1000, 7, 1
	r := NewResolver(c, Options{MaxHeightAge: 100})
	for _, height := range []uint64{900, 950, 1000} {
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, height)
		require.NoError(t, err, "height %d", height)
	}
	asked := c.setCalls.Load()
	for _, height := range []uint64{2, 899} {
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, height)
		require.ErrorIs(t, err, ErrHeightTooOld, "height %d", height)
	}
	require.Equal(t, asked, c.setCalls.Load())
	s, err := r.EpochSet(t.Context(), constants.PrimaryNetworkID, constants.PlatformChainID)
	require.NoError(t, err)
	require.EqualValues(t, 7, s.Height)

	unbounded := NewResolver(c, Options{})
	_, err = unbounded.Set(t.Context(), constants.PrimaryNetworkID, 2)
	require.NoError(t, err)
}

// Heights above the tip cost one request for the tip, not three each.
func TestAttackHeightsAboveTheTip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		c.height = 1000
		r := NewResolver(c, Options{})
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		asked := c.setCalls.Load()
		for i := range 500 {
			_, err := r.Set(t.Context(), constants.PrimaryNetworkID, uint64(2000+i))
			require.ErrorIs(t, err, ErrHeightUnavailable)
		}
		require.Equal(t, asked, c.setCalls.Load())
		// The node decides about heights that it may have accepted meanwhile.
		c.mu.Lock()
		c.height = 1020
		c.mu.Unlock()
		_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 1010)
		require.NoError(t, err)
	})
}

// An unknown subnet or blockchain is requested once, and again as soon as a block was accepted.
func TestUnknownIsForgottenWithTheNextBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		c.owner = make(map[ids.ID]ids.ID)
		c.height = 1000
		r := NewResolver(c, Options{})
		running, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.Run(running) })
		time.Sleep(100 * time.Millisecond)
		subnetID, chainID := ids.GenerateTestID(), ids.GenerateTestID()
		var asked int64
		for range 10 {
			_, err := r.Set(t.Context(), subnetID, 0)
			require.ErrorIs(t, err, ErrUnknownSubnet)
			_, err = r.SubnetOf(t.Context(), chainID)
			require.ErrorIs(t, err, ErrUnknownBlockchain)
			if asked == 0 {
				asked = c.calls.Load()
			}
			assert.Equal(t, asked, c.calls.Load())
		}
		c.mu.Lock()
		c.l1 = map[ids.ID]bool{subnetID: true}
		c.owner[chainID] = subnetID
		c.height++
		c.mu.Unlock()
		time.Sleep(defaultPoll + 100*time.Millisecond) // less than brief
		_, err := r.Set(t.Context(), subnetID, 0)
		require.NoError(t, err)
		got, err := r.SubnetOf(t.Context(), chainID)
		require.NoError(t, err)
		require.Equal(t, subnetID, got)
		stop()
		run.Wait()
	})
}

// A flood of unknown keys takes bounded memory.
func TestAttackUnknownKeys(t *testing.T) {
	c := newChain(t)
	r := NewResolver(c, Options{})
	for i := range 3 * cacheSize {
		_, err := r.SubnetOf(t.Context(), ids.ID{1, byte(i), byte(i >> 8), byte(i >> 16)})
		require.ErrorIs(t, err, ErrUnknownBlockchain, fmt.Sprint(i))
	}
	r.subnetOf.refusals.Trim()
	require.LessOrEqual(t, r.subnetOf.refusals.Len(), cacheSize)
}

// A caller whose turn does not come while nodes are slow gets the last set at the proposed height.
func TestFullGateGivesTheLastSet(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		n := clientOf(t)
		r := NewResolver(c, Options{Enter: n.Enter})
		following(t, r, func(ctx context.Context) {
			before, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
			require.NoError(t, err)
			c.fails(10*time.Second, 11)
			ctx = client(ctx, "one")
			for range 24 {
				_, leave, err := n.Enter(ctx, 1)
				require.NoError(t, err)
				defer leave()
			}
			s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
			require.NoError(t, err)
			require.Same(t, before, s)
		})
	})
}
