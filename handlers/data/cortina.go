package data

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
)

// preCortina returns the times of what the X-Chain accepted before it had blocks.
type preCortina struct {
	xChainID ids.ID
	// until is the time of the X-Chain's block at height 0; zero if it always had blocks.
	until time.Time
	times Times // may be nil
}

func (n *network) preCortina(ctx context.Context) (preCortina, error) {
	if n.Cortina == nil {
		return preCortina{}, nil
	}
	until, err := n.Cortina(ctx)
	if err != nil {
		return preCortina{}, apierr.Unavailable(err, "the time of the X-Chain's first block is not known; try again later")
	}
	return preCortina{xChainID: n.XChainID, until: until, times: n.Times}, nil
}

// of returns the time of a pre-Cortina transaction or vertex. bound says that it is an
// upper bound: no node knows more than that the X-Chain's first block came later.
func (p preCortina) of(id ids.ID) (at time.Time, bound bool) {
	if p.times != nil {
		if at, ok := p.times.Time(id); ok && !at.After(p.until) {
			return at, false
		}
	}
	return p.until, true
}

// tx returns the time of a transaction that a chain accepted at a height and, by the
// index, at a time. It is not the index's for pre-Cortina transactions.
func (p preCortina) tx(chainID, id ids.ID, height uint64, indexed time.Time) (at time.Time, bound bool) {
	// The block at height 0 has no transactions, and the genesis is older.
	if p.until.IsZero() || chainID != p.xChainID || height > 0 || indexed.Before(p.until) {
		return indexed, false
	}
	return p.of(id)
}

// covers reports whether a time lies before the X-Chain had blocks, or in the second in
// which it got them. Until the next second, the index does not count what came before.
func (p preCortina) covers(at *uint64) bool {
	return at != nil && !p.until.IsZero() && *at <= uint64(p.until.Unix())
}
