package simnet

import (
	"cmp"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/vms/platformvm/validators"
	"github.com/ava-labs/avalanchego/vms/proposervm/block"
)

// clock relates P-Chain heights to time. It computes the proposed height of a node
// (avalanchego, vms/platformvm/validators, GetMinimumHeight) and the epochs that follow from
// it (vms/proposervm/acp181), also those of past times.
type clock struct {
	lag, duration time.Duration
	start         time.Time
	base          uint64         // height before accepted
	accepted      []acceptedTime // in order
}

// acceptedTime is when the block at a height was accepted, with all blocks since the entry
// before.
type acceptedTime struct {
	height uint64
	at     time.Time
}

func newClock(o Options, height uint64) clock {
	c := clock{lag: o.ProposedAfter, duration: o.upgrades().GraniteEpochDuration, start: time.Now().Truncate(time.Second), base: height}
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

// accept notes that the blocks up to a height are accepted, and drops entries that neither
// the present proposed height nor the present epoch needs.
func (c *clock) accept(height uint64, now time.Time) {
	if height <= c.tip(len(c.accepted)) {
		return
	}
	if i := c.before(now.Add(-max(c.lag, 0) - c.duration)); i > len(c.accepted)/2 {
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

// epoch returns the epoch at a time.
func (c *clock) epoch(now time.Time) block.Epoch {
	since := now.Sub(c.start)
	start := c.start.Add(since.Truncate(c.duration))
	return block.Epoch{Number: uint64(since/c.duration) + 1, StartTime: start.Unix(), PChainHeight: c.proposed(start)}
}
