package warplog

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/node"
)

// fakeChain has one message in each block.
type fakeChain struct {
	mu     sync.Mutex
	height uint64      // guarded by mu
	fails  bool        // guarded by mu
	calls  int         // guarded by mu
	ranges [][2]uint64 // guarded by mu
	most   uint64      // blocks in a range; 0 means any number
	behind uint64      // how many blocks the node that has the logs lacks; guarded by mu
	first  uint64      // the first block after genesis
}

func (c *fakeChain) set(height uint64, fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.height, c.fails = height, fails
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
		return nil, 0, errors.New("block range too wide")
	}
	last = min(through, executed)
	c.ranges = append(c.ranges, [2]uint64{from, last})
	for b := from; b <= last; b++ {
		sent = append(sent, node.SentMessage{Block: b})
	}
	return sent, last, nil
}

// TestBlocksNotExecutedAreReadLater has messages answered by a node that is behind the
// one that told the height.
func TestBlocksNotExecutedAreReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000, behind: 7}
		var got []uint64
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 10, OnMessage: func(m node.SentMessage) { got = append(got, m.Block) }})
		}()
		synctest.Wait()
		require.Equal(t, []uint64{4990, 4991, 4992, 4993}, got)
		for height := uint64(5001); height <= 5020; height++ {
			c.set(height, false)
			time.Sleep(time.Second)
		}
		c.mu.Lock()
		c.behind = 0
		c.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, got, 31)
		for i, b := range got {
			require.Equal(t, uint64(4990+i), b)
		}
	})
}

// TestNodeWithoutTheFirstBlocks has a node that state-synced a little while ago.
func TestNodeWithoutTheFirstBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000, first: 4900}
		var got []uint64
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", OnMessage: func(m node.SentMessage) { got = append(got, m.Block) }})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotEmpty(t, got)
		require.Equal(t, uint64(4936), got[0])
		require.Equal(t, uint64(5000), got[len(got)-1])
	})
}

func TestFollowsWithoutGapsOrRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		ctx, cancel := context.WithCancel(t.Context())
		var got []uint64
		done := make(chan error)
		go func() {
			done <- Follow(ctx, Options{Source: c, Path: "/x", Lookback: 3000, OnMessage: func(m node.SentMessage) { got = append(got, m.Block) }})
		}()
		synctest.Wait()
		require.Len(t, got, 3001)
		require.Equal(t, [][2]uint64{{2000, 3023}, {3024, 4047}, {4048, 5000}}, c.ranges)

		c.set(5002, false)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		require.Len(t, got, 3003)

		// Away for a minute: asked less often, and nothing is lost.
		c.set(5010, true)
		before := c.count()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, c.count()-before, 15)
		c.set(5010, false)
		time.Sleep(maxPause)
		synctest.Wait()
		require.Len(t, got, 3011)

		// A node that is behind the one asked before.
		c.set(4000, false)
		time.Sleep(time.Second)
		synctest.Wait()
		c.set(5011, false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, got, 3012)
		for i, b := range got {
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
		var got []uint64
		go func() {
			_ = Follow(ctx, Options{Source: &fakeChain{height: 2}, Path: "/x", OnMessage: func(m node.SentMessage) { got = append(got, m.Block) }})
		}()
		synctest.Wait()
		require.Equal(t, []uint64{0, 1, 2}, got)
	})
}

func TestRangesBecomeAsSmallAsTheNodeWantsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []uint64
		go func() {
			_ = Follow(ctx, Options{Source: &fakeChain{height: 500, most: 100}, Path: "/x", OnMessage: func(m node.SentMessage) { got = append(got, m.Block) }})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Len(t, got, 501)
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
		var got []uint64
		go func() {
			_ = Follow(ctx, Options{Source: &lyingChain{fakeChain: fakeChain{height: 10}}, Path: "/x", OnMessage: func(m node.SentMessage) { got = append(got, m.Block) }})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, got, 11)
	})
}
