package simnet

import (
	"context"
	"log/slog"
	"time"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/simnet/history"
)

// History is what a network has behind it. Its own validators have no part in it, and
// its stakers sign nothing: the sets that sign are the network's, whatever the
// blocks say.
type History struct {
	// Options say what happened, in Txs transactions before the network starts. Seed
	// and NetworkID are the network's. Without a Genesis, the one that avalanchego has
	// for the NetworkID is taken, so that programs built on the library know it;
	// without a Span the past lasts until now.
	history.Options
	// Dir is where blocks are kept until Close, about 2.5 kB for each; empty means the
	// usual place for temporary files.
	Dir string
	// Pace is the time between two blocks from now on; 0 means that none follow.
	Pace time.Duration
}

// History is what keeps the network's past; nil if it has none.
func (n *Network) History() *history.Node { return n.past }

// shortestPast is how long before now a history begins at least, if it is to last
// until now.
const shortestPast = 30 * 24 * time.Hour

// remember makes the network's past.
func (n *Network) remember(ctx context.Context, h History) error {
	o := h.Options
	o.Seed, o.NetworkID = n.options.Seed, n.options.NetworkID
	if o.Genesis == nil && o.Span == 0 {
		c := *avagenesis.GetConfig(o.NetworkID)
		// The library's networks begin anew from time to time. The beginning before is
		// as good, and known, too.
		const renewal = 9 * 30 * 24 * time.Hour
		if begun := time.Unix(int64(c.StartTime), 0); time.Since(begun) < shortestPast {
			c.StartTime -= uint64(renewal.Seconds())
		}
		o.Genesis, o.Span = &c, time.Since(time.Unix(int64(c.StartTime), 0))
	}
	if o.Txs == 0 {
		o.Txs = 2000
	}
	g, err := history.New(o)
	if err != nil {
		return err
	}
	if n.past, err = history.NewNode(g, h.Dir); err != nil {
		return err
	}
	if err := n.past.Grow(ctx, o.Txs); err != nil {
		return err
	}
	n.chain, n.xChain = g.ChainID(history.C), g.ChainID(history.X)
	clear(n.chains)
	n.chains[n.chain], n.chains[n.xChain] = constants.PrimaryNetworkID, constants.PrimaryNetworkID
	if n.l1Main != [32]byte{} {
		n.chains[n.l1Main] = n.l1
	}
	if h.Pace > 0 {
		n.running.Go(func() {
			if err := n.past.Follow(ctx, h.Pace); err != nil {
				n.log.Error("there are no more blocks", slog.Any("error", err))
			}
		})
	}
	return nil
}
