package simnet

import (
	"cmp"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators"
	"github.com/ava-labs/avalanchego/vms/proposervm/acp181"
	"github.com/ava-labs/avalanchego/vms/proposervm/block"
)

// clock relates P-Chain heights to time. It computes the proposed height of a node
// (avalanchego, vms/platformvm/validators, GetMinimumHeight).
type clock struct {
	lag      time.Duration
	first    chainTip       // of each blockchain: the first block of an epoch, when the clock starts
	base     uint64         // height before accepted
	accepted []acceptedTime // in order
}

// acceptedTime is when the block at a height was accepted, with all blocks since the entry
// before.
type acceptedTime struct {
	height uint64
	at     time.Time
}

func newClock(o Options, height uint64) clock {
	start := time.Now().Truncate(time.Second)
	c := clock{
		lag: o.ProposedAfter, base: height,
		first: chainTip{at: start, pChainHeight: height, epoch: block.Epoch{PChainHeight: height, Number: 1, StartTime: start.Unix()}},
	}
	if c.lag == 0 {
		c.lag = validators.RecentlyAcceptedWindowTTL
	}
	return c
}

// tip returns the height before entry i.
func (c *clock) tip(i int) uint64 {
	if i == 0 {
		return c.base
	}
	return c.accepted[i-1].height
}

// before returns the number of entries at or before a time.
func (c *clock) before(t time.Time) int {
	i, _ := slices.BinarySearchFunc(c.accepted, t, func(a acceptedTime, t time.Time) int {
		return cmp.Or(a.at.Compare(t), -1)
	})
	return i
}

// accept notes that the blocks up to a height are accepted, and drops entries that the
// present proposed height does not need.
func (c *clock) accept(height uint64, now time.Time) {
	if height <= c.tip(len(c.accepted)) {
		return
	}
	if i := c.before(now.Add(-max(c.lag, 0) - 1)); i > len(c.accepted)/2 {
		c.base = c.tip(i)
		c.accepted = slices.Clone(c.accepted[i:])
	}
	c.accepted = append(c.accepted, acceptedTime{height, now})
}

// proposed returns the proposed height at a time: that of the last block before those of the
// window, which are at most 64.
func (c *clock) proposed(t time.Time) uint64 {
	tip := c.tip(c.before(t))
	if c.lag < 0 {
		return tip
	}
	older := c.tip(c.before(t.Add(-c.lag - 1))) // longer ago than the lag
	if tip-older > validators.MaxRecentlyAcceptedWindowSize {
		return tip - validators.MaxRecentlyAcceptedWindowSize
	}
	return older
}

// chainTip is what the epoch of a blockchain's next block depends on, of its last block.
type chainTip struct {
	at           time.Time
	pChainHeight uint64
	epoch        block.Epoch
}

// next returns the epoch of a block after t.
func (t *chainTip) next(upgrades upgrade.Config, now time.Time) block.Epoch {
	return acp181.NewEpoch(upgrades, t.pChainHeight, t.epoch, t.at, now.Truncate(time.Second))
}

// accept makes a block the last one. It seals the epoch if the epoch's time is over.
func (t *chainTip) accept(upgrades upgrade.Config, now time.Time, pChainHeight uint64) {
	t.epoch = t.next(upgrades, now)
	t.at, t.pChainHeight = now.Truncate(time.Second), pChainHeight
}
