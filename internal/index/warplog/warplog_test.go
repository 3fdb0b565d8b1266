package warplog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"quorate/internal/node"
)

// fakeChain has one message in each block.
type fakeChain struct {
	mu      sync.Mutex
	height  uint64         // guarded by mu
	fails   bool           // guarded by mu
	calls   int            // guarded by mu
	ranges  [][2]uint64    // guarded by mu
	most    uint64         // blocks in a range; 0 means any number
	refused int            // ranges; guarded by mu
	empty   int            // how often a block has no messages when it is read; guarded by mu
	reads   map[uint64]int // of blocks; guarded by mu
	behind  uint64         // how many blocks the node that has the logs lacks; guarded by mu
	first   uint64         // the first block after genesis
}

func (c *fakeChain) set(height uint64, fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.height, c.fails = height, fails
}

// grow adds a block.
func (c *fakeChain) grow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.height++
	c.fails = false
}

// blockList collects the blocks of messages.
type blockList struct {
	mu    sync.Mutex
	found []uint64 // guarded by mu
}

func (l *blockList) add(m node.SentMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, m.Block)
}

func (l *blockList) blocks() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.found)
}

func (l *blockList) last() uint64 {
	all := l.blocks()
	return all[len(all)-1]
}

// count is how often the chain was asked for its height.
func (c *fakeChain) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func (c *fakeChain) EVMHeight(context.Context, string) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.fails {
		return 0, errors.New("away")
	}
	return c.height, nil
}

func (c *fakeChain) SentMessages(_ context.Context, _ string, from, through uint64) (sent []node.SentMessage, last uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	executed := c.height - min(c.behind, c.height)
	switch {
	case c.fails:
		return nil, 0, errors.New("away")
	case from > executed:
		return nil, 0, node.ErrBeyondTip
	case from > 0 && from < c.first:
		return nil, 0, node.ErrPruned
	case c.most > 0 && through-from >= c.most:
		c.refused++
		return nil, 0, &node.RPCError{Method: "eth_getLogs", Code: -32600, Message: "block range too wide"}
	}
	last = min(through, executed)
	c.ranges = append(c.ranges, [2]uint64{from, last})
	for b := from; b <= last; b++ {
		if c.reads == nil {
			c.reads = make(map[uint64]int)
		}
		if c.reads[b]++; c.reads[b] > c.empty {
			sent = append(sent, node.SentMessage{Block: b})
		}
	}
	return sent, last, nil
}

// TestBlocksNotExecutedAreReadLater reads messages from a node that is behind the node that reported
// the height.
func TestBlocksNotExecutedAreReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000, behind: 7}
		var found blockList
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 10, OnMessage: found.add})
		}()
		synctest.Wait()
		require.Equal(t, []uint64{4990, 4991, 4992, 4993}, found.blocks())
		for height := uint64(5001); height <= 5020; height++ {
			c.set(height, false)
			time.Sleep(time.Second)
		}
		c.mu.Lock()
		c.behind = 0
		c.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, found.blocks(), 31)
		for i, b := range found.blocks() {
			require.Equal(t, uint64(4990+i), b)
		}
	})
}

// TestNodeWithoutTheFirstBlocks has a node that state-synced a little while ago.
func TestNodeWithoutTheFirstBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000, first: 4900}
		var found blockList
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", OnMessage: found.add})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotEmpty(t, found.blocks())
		require.Equal(t, uint64(4936), found.blocks()[0])
		require.Equal(t, uint64(5000), found.last())
	})
}

func TestFollowsWithoutGapsOrRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		ctx, cancel := context.WithCancel(t.Context())
		var found blockList
		done := make(chan error)
		go func() {
			done <- Follow(ctx, Options{Source: c, Path: "/x", Lookback: 3000, OnMessage: found.add})
		}()
		synctest.Wait()
		require.Len(t, found.blocks(), 3001)
		require.Equal(t, [][2]uint64{{2000, 3023}, {3024, 4047}, {4040, 5000}}, c.ranges)

		c.set(5002, false)
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		require.Len(t, found.blocks(), 3003)

		// Away for a minute: asked less often, and nothing is lost.
		c.set(5010, true)
		before := c.count()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, c.count()-before, 15)
		c.set(5010, false)
		time.Sleep(maxPause)
		synctest.Wait()
		require.Len(t, found.blocks(), 3011)

		// A node that is behind the one asked before.
		c.set(4000, false)
		time.Sleep(time.Second)
		synctest.Wait()
		c.set(5011, false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, found.blocks(), 3012)
		for i, b := range found.blocks() {
			require.Equal(t, uint64(2000+i), b)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestYoungChainIsReadFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var found blockList
		go func() {
			_ = Follow(ctx, Options{Source: &fakeChain{height: 2}, Path: "/x", OnMessage: found.add})
		}()
		synctest.Wait()
		require.Equal(t, []uint64{0, 1, 2}, found.blocks())
	})
}

// The size that the nodes accept is found soon and kept to.
func TestAcceptedRangeIsRemembered(t *testing.T) {
	for _, most := range []uint64{1, 2, 10, 100, 1000} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeChain{height: 5000, most: most}
			metrics := newMetrics("x")
			var found blockList
			go func() {
				_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 4000, Metrics: metrics, OnMessage: found.add})
			}()
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, found.blocks(), 4001, "at once: a refusal of a range is no failure of the node")
			refused := c.refused
			require.LessOrEqual(t, refused, 2*10)
			for range 1700 { // of an hour, with a block every 2 s
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.LessOrEqual(t, testutil.ToFloat64(metrics.lag), 2.0)
				c.grow()
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.Len(t, found.blocks(), 5701)
			require.Equal(t, refused, c.refused)
			for i, b := range found.blocks() {
				require.Equal(t, uint64(1000+i), b)
			}
		})
	}
}

// The lag is a metric while it is known: not while the node is away, and not after Follow has ended, because another
// process may follow the chain.
func TestLagIsReportedWhileKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		registry := prometheus.NewRegistry()
		metrics, err := NewMetrics(registry, "C")
		require.NoError(t, err)
		series := func() int {
			synctest.Wait()
			n, err := testutil.GatherAndCount(registry, "quorate_warp_logs_lag_blocks")
			require.NoError(t, err)
			return n
		}
		require.Zero(t, series(), "another process follows the chain")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Follow(ctx, Options{Source: c, Path: "/x", Metrics: metrics, OnMessage: func(node.SentMessage) {}})
		}()
		require.Equal(t, 1, series())
		require.Zero(t, testutil.ToFloat64(metrics.lag))
		c.set(5000, true)
		time.Sleep(time.Minute)
		require.Zero(t, series(), "the node is away")
		c.mu.Lock()
		c.height, c.behind, c.fails = 5010, 10, false
		c.mu.Unlock()
		time.Sleep(time.Minute)
		require.Equal(t, 1, series())
		require.Equal(t, 10.0, testutil.ToFloat64(metrics.lag))
		cancel()
		<-done
		require.Zero(t, series())
	})
}

// A node answers without the logs of a block that it has not executed, while another one
// reported the height. The last blocks are read again.
func TestMessagesLeftOutAreReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000, empty: 1}
		metrics := newMetrics("x")
		var found blockList
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 4, Metrics: metrics, OnMessage: found.add})
		}()
		synctest.Wait()
		require.Empty(t, found.blocks())
		time.Sleep(rereadAfter)
		synctest.Wait()
		require.Len(t, found.blocks(), 5, "although no block follows")
		for range 100 {
			c.grow()
			time.Sleep(time.Second)
		}
		time.Sleep(rereadAfter)
		synctest.Wait()
		require.Len(t, found.blocks(), 105)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(found.blocks()))), 105, "none comes twice")
		require.Equal(t, 105.0, testutil.ToFloat64(metrics.late))
		require.Zero(t, testutil.ToFloat64(metrics.skipped))
	})
}

// A quiet chain is asked seldom, and at once when there may be a block.
func TestQuietChainIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		wake := make(chan struct{}, 1)
		var found blockList
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", QuietPoll: 2 * time.Second, Wake: wake, OnMessage: found.add})
		}()
		time.Sleep(time.Minute)
		before := c.count()
		time.Sleep(time.Minute)
		require.InDelta(t, 30, c.count()-before, 1)
		c.set(5001, false)
		wake <- struct{}{}
		synctest.Wait()
		require.Equal(t, uint64(5001), found.last())
	})
}

// lyingChain tells an absurd height when it is first asked.
type lyingChain struct {
	fakeChain
	lied bool
}

func (c *lyingChain) EVMHeight(ctx context.Context, path string) (uint64, error) {
	if !c.lied {
		c.lied = true
		return 1 << 62, nil
	}
	return c.fakeChain.EVMHeight(ctx, path)
}

func TestAbsurdHeightAtTheStartIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var found blockList
		go func() {
			_ = Follow(ctx, Options{Source: &lyingChain{fakeChain: fakeChain{height: 10}}, Path: "/x", OnMessage: found.add})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, found.blocks(), 11)
	})
}

// lagging is a node that lags behind what was read, and accepts no empty range.
type lagging struct{ height uint64 }

func (n lagging) EVMHeight(context.Context, string) (uint64, error) { return n.height, nil }

func (n lagging) SentMessages(_ context.Context, _ string, from, through uint64) ([]node.SentMessage, uint64, error) {
	if from > through {
		return nil, 0, errors.New("invalid block range")
	}
	return nil, through, nil
}

// TestNothingToReread has the node prune all blocks that would be read again.
func TestNothingToReread(t *testing.T) {
	m, err := NewMetrics(prometheus.NewRegistry(), "C")
	require.NoError(t, err)
	f := follower{Options: Options{Source: lagging{9}, Metrics: m}, started: true, first: 10, next: 10, reread: time.Now().Add(-time.Second), size: maxRange}
	require.NoError(t, f.advance(t.Context()))
	require.Equal(t, uint64(maxRange), f.size)
	require.True(t, f.reread.IsZero())
}
