package network

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/ahead"
	"quorate/internal/index/warplog"
	"quorate/internal/node"
)

// aheadWork signs a network's messages before they are requested.
type aheadWork struct {
	queue     *ahead.Ahead
	network   *Network
	metrics   []*warplog.Metrics // of the network's EVM chains
	l1Indexed <-chan struct{}
	networkID uint32
	log       *slog.Logger
}

// newAheadWork returns nil if no messages are to be signed ahead. l1Indexed gets a token when more P-Chain blocks are
// indexed.
func newAheadWork(n *Network, o Options, metrics prometheus.Registerer, l1Indexed <-chan struct{}) (*aheadWork, error) {
	rounds := o.Config.Ahead()
	if o.Archive == nil || rounds == 0 {
		return nil, nil // signatures could not be stored
	}
	queue, err := ahead.New(ahead.Options{Signer: n.Signer, Rounds: rounds, Log: o.Log, Metrics: metrics})
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	w := &aheadWork{queue: queue, network: n, l1Indexed: l1Indexed, networkID: n.ID, log: o.Log}
	for _, chain := range n.evmChains {
		m, err := warplog.NewMetrics(metrics, chain.name)
		if err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
		w.metrics = append(w.metrics, m)
	}
	return w, nil
}

// run follows the chains and signs until ctx ends.
func (w *aheadWork) run(ctx context.Context) error {
	defer w.network.followed.clear()
	var g errgroup.Group
	g.Go(func() error {
		w.queue.Run(ctx)
		return nil
	})
	if w.network.l1Index != nil {
		g.Go(func() error {
			w.queue.FollowL1(ctx, w.network.l1Index, w.network.Messages, w.l1Indexed)
			return nil
		})
	}
	for i, chain := range w.network.evmChains {
		wake := make(chan struct{}, 1)
		g.Go(func() error {
			chain.client.EVM(chain.path).Heads(ctx, func() {
				select {
				case wake <- struct{}{}:
				default:
				}
			})
			return nil
		})
		g.Go(func() error {
			// Follow returns only when ctx ends, which is no failure.
			_ = warplog.Follow(ctx, warplog.Options{
				Source: chain.client, Path: chain.path, Chain: chain.name, QuietPoll: quietPoll, Wake: wake,
				OnMessage: w.sent, Metrics: w.metrics[i], Log: w.log,
				OnStatus: func(s warplog.Status) { w.network.followed.set(chain.name, s) },
			})
			return nil
		})
	}
	return g.Wait()
}

// sent queues a message that was sent on an EVM chain.
func (w *aheadWork) sent(m node.SentMessage) {
	message, err := warp.ParseUnsignedMessage(m.Message)
	if err == nil && message.NetworkID != w.networkID {
		err = fmt.Errorf("it is of the network with ID %d, not %d", message.NetworkID, w.networkID)
	}
	if err != nil {
		w.log.Warn("an EVM chain reported a message that does not belong to this network", slog.Uint64("block", m.Block), slog.Any("error", err))
		return
	}
	w.queue.Offer(ahead.Job{ID: message.ID(), Request: func(context.Context) (aggregator.Request, error) {
		return aggregator.Request{Message: message, Sent: true}, nil
	}})
}
