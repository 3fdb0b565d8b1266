package simnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/timer/mockable"
	"github.com/ava-labs/avalanchego/utils/window"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators"
)

// The proposed height is the one that avalanchego computes with its window of recent blocks.
func TestProposedHeightIsANodes(t *testing.T) {
	c := newClock(Options{Seed: 1}, 10)
	var now mockable.Clock
	now.Set(c.start)
	recent := window.New[uint64](window.Config{
		Clock: &now, MaxSize: validators.MaxRecentlyAcceptedWindowSize, MinSize: validators.MinRecentlyAcceptedWindowSize, TTL: validators.RecentlyAcceptedWindowTTL,
	})
	height, lags := uint64(10), 0
	for i := range 3000 {
		now.Set(now.Time().Add(time.Duration(1+i*i%997) * time.Millisecond))
		switch {
		case i%700 > 640: // now and then there are no blocks for long enough
			now.Set(now.Time().Add(time.Second))
		case i%3 == 0:
			height++
			recent.Add(height)
			c.accept(height, now.Time())
		}
		want := height
		if oldest, ok := recent.Oldest(); ok {
			want = oldest - 1
		}
		require.Equal(t, want, c.proposed(now.Time()), "step %d", i)
		if want < height {
			lags++
		}
	}
	require.Greater(t, lags, 1000)
	require.Less(t, len(c.accepted), 1000, "old entries are dropped")

	c = newClock(Options{ProposedAfter: -1}, 10)
	c.accept(12, c.start.Add(time.Second))
	require.Equal(t, uint64(10), c.proposed(c.start))
	require.Equal(t, uint64(12), c.proposed(c.start.Add(time.Second)))
}

// An epoch has the height that was proposed when it began.
func TestEpochs(t *testing.T) {
	c := newClock(Options{ProposedAfter: 10 * time.Second, EpochDuration: time.Minute}, 5)
	at := func(seconds int) time.Time { return c.start.Add(time.Duration(seconds) * time.Second) }
	height := func(seconds int) (number, pChainHeight uint64) {
		e := c.epoch(at(seconds))
		require.Equal(t, at((seconds/60)*60).Unix(), e.StartTime)
		return e.Number, e.PChainHeight
	}
	require.Equal(t, uint64(5), c.epoch(at(0)).PChainHeight)
	c.accept(6, at(30))
	c.accept(7, at(55))
	for _, test := range []struct {
		seconds      int
		number, want uint64
	}{{59, 1, 5}, {60, 2, 6}, {119, 2, 6}, {120, 3, 7}, {600, 11, 7}} {
		number, got := height(test.seconds)
		require.Equal(t, test.number, number)
		require.Equal(t, test.want, got, "after %d s", test.seconds)
	}
}
