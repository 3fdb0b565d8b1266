package simnet

import (
	"context"
	"log/slog"
	"time"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/simnet/history"
)

// History is a network's history. The network's own validators do not appear in it, and its
// stakers do not sign: the signing sets are those of the network, whatever the blocks
// contain.
type History struct {
	// Options describe the transactions before the network starts. Seed and NetworkID are
	// always those of the network. Without Genesis, the one that avalanchego has for the
	// NetworkID is used, so that programs built on avalanchego know it. Without Span, the
	// history ends now.
	history.Options
	// Dir is the folder for blocks until Close, about 2.5 kB each; empty means the default
	// folder for temporary files.
	Dir string
	// Pace is the time between two new blocks; 0 means no new blocks.
	Pace time.Duration
}

// History returns the node with the network's history, or nil if it has none.
func (n *Network) History() *history.Node { return n.past }

// shortestPast is the shortest time before now at which a history that ends now begins.
const shortestPast = 30 * 24 * time.Hour

// remember creates the network's history.
func (n *Network) remember(ctx context.Context, h History) error {
	o := h.Options
	o.Seed, o.NetworkID = n.options.Seed, n.options.NetworkID
	if o.Genesis == nil && o.Span == 0 {
		c := *avagenesis.GetConfig(o.NetworkID)
		// avalanchego's networks are reset from time to time. The previous genesis is
		// valid, too.
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
	n.clock = newClock(n.options, n.past.Height(history.P))
	n.chain, n.xChain = g.ChainID(history.C), g.ChainID(history.X)
	chains := map[ids.ID]history.Chain{constants.PlatformChainID: history.P, n.xChain: history.X, n.chain: history.C}
	heights := make(map[ids.ID]uint64)
	for id, c := range chains {
		heights[id] = n.past.Height(c)
	}
	n.past.OnGrown(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		now := time.Now()
		n.clock.accept(n.past.Height(history.P), now)
		for id, c := range chains {
			if height := n.past.Height(c); height > heights[id] {
				heights[id] = height
				n.madeBlock(id, now)
			}
		}
	})
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
