package warplog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/node"
)

// statuses keeps what Follow reports.
type statuses struct {
	mu  sync.Mutex
	all []Status // guarded by mu
}

func (s *statuses) add(one Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// last returns the last reported status.
func (s *statuses) last() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return Status{}
	}
	return s.all[len(s.all)-1]
}

// TestPrunedBlocksAreSkipped replaces the node, while it is away, by one that state-synced: the blocks that no node has
// any more become a gap, after attempts whose reason the status has.
func TestPrunedBlocksAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		var seen statuses
		var mu sync.Mutex
		var got []uint64
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 10, OnStatus: seen.add, OnMessage: func(m node.SentMessage) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, m.Block)
			}})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, seen.last().Note())

		c.set(5000, true)
		begun := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorContains(t, seen.last().Err, "away")
		require.WithinDuration(t, begun, seen.last().Since, 20*time.Second)
		require.Contains(t, seen.last().Note(), "Warp messages are not followed since ")

		c.mu.Lock()
		c.height, c.first, c.fails = 5300, 5200, false
		c.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, seen.last().Err, node.ErrPruned)
		require.ErrorContains(t, seen.last().Err, " of 10, after which the blocks are skipped")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, Status{Lost: 199, LostFrom: 5001, LostThrough: 5199}, seen.last())
		require.Contains(t, seen.last().Note(), "sent in 199 blocks were not read, the last time in blocks 5001 to 5199")
		mu.Lock()
		defer mu.Unlock()
		var want []uint64
		for block := uint64(4990); block <= 5000; block++ {
			want = append(want, block)
		}
		for block := uint64(5200); block <= 5300; block++ {
			want = append(want, block)
		}
		require.Equal(t, want, got)
	})
}

// TestPrunedTipIsWaitedFor has a node that lacks its last block, too: there is nothing to continue with.
func TestPrunedTipIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		var seen statuses
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 10, OnStatus: seen.add, OnMessage: func(node.SentMessage) {}})
		}()
		time.Sleep(time.Minute)
		c.mu.Lock()
		c.height, c.first = 5300, 6000
		c.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.ErrorIs(t, seen.last().Err, node.ErrPruned)
		require.Zero(t, seen.last().Lost)
	})
}

// A node that lags is asked no faster than others, also when the last blocks are due to be read again.
func TestLaggingNodeIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{height: 5000}
		go func() {
			_ = Follow(t.Context(), Options{Source: c, Path: "/x", Lookback: 10, OnMessage: func(node.SentMessage) {}})
		}()
		time.Sleep(time.Second)
		c.mu.Lock()
		c.height, c.behind = 5010, 10
		c.mu.Unlock()
		time.Sleep(time.Minute)
		require.Less(t, c.count(), 150)
	})
}
