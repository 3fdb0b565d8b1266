package simnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/timer/mockable"
	"github.com/ava-labs/avalanchego/utils/window"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators"
	"github.com/ava-labs/avalanchego/vms/proposervm/block"
)

// The proposed height is the one that avalanchego computes with its window of recent blocks.
func TestProposedHeightIsANodes(t *testing.T) {
	c := newClock(Options{Seed: 1}, 10)
	var now mockable.Clock
	now.Set(c.first.at)
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
	c.accept(12, c.first.at.Add(time.Second))
	require.Equal(t, uint64(10), c.proposed(c.first.at))
	require.Equal(t, uint64(12), c.proposed(c.first.at.Add(time.Second)))
}

// The first block after the end of an epoch's time seals it. Until then the epoch lasts. The next epoch has the P-Chain height
// and the time of that block.
func TestEpochs(t *testing.T) {
	o := Options{ProposedAfter: 10 * time.Second, EpochDuration: time.Minute}
	c := newClock(o, 5)
	at := func(seconds int) time.Time { return c.first.at.Add(time.Duration(seconds) * time.Second) }
	chain := c.first
	c.accept(6, at(30))
	c.accept(7, at(55))
	c.accept(8, at(630))
	for _, test := range []struct {
		seconds              int
		block                bool // one is made
		number, height, from int  // of the epoch of the next block
	}{
		{0, false, 1, 5, 0},
		{59, true, 1, 5, 0},
		{61, false, 1, 5, 0},  // the last block was within the time
		{600, false, 1, 5, 0}, // no block, no new epoch
		{620, true, 2, 7, 620},
		{650, true, 2, 7, 620},
		{700, true, 3, 8, 700},
		{820, false, 3, 8, 700},
	} {
		if test.block {
			chain.accept(o.upgrades(), at(test.seconds), c.proposed(at(test.seconds)))
		}
		want := block.Epoch{Number: uint64(test.number), PChainHeight: uint64(test.height), StartTime: at(test.from).Unix()}
		require.Equal(t, want, chain.next(o.upgrades(), at(test.seconds)), "after %d s", test.seconds)
	}
}
