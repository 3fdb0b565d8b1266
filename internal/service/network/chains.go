package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"quorate/internal/chain/genesis"
	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/store"
)

// chainIndex is the index of the primary network's chains. Without the genesis it indexes what signing needs of the
// P-Chain. It is safe for concurrent use.
type chainIndex struct {
	origin origin
	chains *primary.Network
	// metrics are registered together, to be replaced together. replaced is closed when another index replaces this one.
	metrics  *prometheus.Registry
	replaced chan struct{}
	since    time.Time // the chains that need the genesis wait since then

	mu      sync.Mutex
	missing error // why the genesis is not known; guarded by mu
}

func newChainIndex(n *Network, o Options, from origin, metrics prometheus.Registerer, indexed chan<- struct{}) (*chainIndex, error) {
	i := &chainIndex{origin: from, metrics: prometheus.NewRegistry(), replaced: make(chan struct{}), since: time.Now(), missing: from.missing}
	var err error
	if i.chains, err = newIndexer(n, o, from, i.metrics, indexed); err != nil {
		return nil, err
	}
	if from.missing != nil {
		for _, chain := range chainsOfGenesis() {
			if err := i.metrics.Register(index.NewCollector(chain, i.waiting)); err != nil {
				return nil, err
			}
		}
	}
	if last := n.indexed.Load(); last != nil {
		metrics.Unregister(last.metrics)
	}
	if err := metrics.Register(i.metrics); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return i, nil
}

// chainsOfGenesis returns the chains that are not indexed without the genesis.
func chainsOfGenesis() []string { return []string{index.XChain, index.CChain} }

// miss stores why the genesis is not known.
func (i *chainIndex) miss(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.missing = err
}

// reason returns why the genesis is not known; nil if it is, or is not needed.
func (i *chainIndex) reason() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.missing
}

// waiting returns the status of a chain that waits for the genesis.
func (i *chainIndex) waiting() index.Status {
	err := i.reason()
	s := index.Status{State: index.Retrying, Err: err, Failing: "finding the genesis", FailingSince: i.since}
	var missing *index.MissingError
	if errors.As(err, &missing) {
		s.State = index.Waiting
	}
	return s
}

func (i *chainIndex) status() map[string]index.Status {
	all := i.chains.Status()
	if i.reason() == nil {
		return all
	}
	for _, chain := range chainsOfGenesis() {
		all[chain] = i.waiting()
	}
	p := all[index.PChain]
	p.Note = "of the P-Chain only L1 transactions are indexed until the genesis is known"
	all[index.PChain] = p
	return all
}

// Chains returns the index of the primary network's chains; nil without a store. Another one replaces it when Replaced
// is closed.
func (n *Network) Chains() *primary.Network {
	if i := n.indexed.Load(); i != nil {
		return i.chains
	}
	return nil
}

// Genesis returns the genesis that Chains indexes from; nil if it is unknown or not needed.
func (n *Network) Genesis() *genesis.Genesis {
	if i := n.indexed.Load(); i != nil {
		return i.origin.genesis
	}
	return nil
}

// Replaced returns a channel that is closed when Chains and Genesis change; nil without a store.
func (n *Network) Replaced() <-chan struct{} {
	if i := n.indexed.Load(); i != nil {
		return i.replaced
	}
	return nil
}

// indexChains indexes the primary network's chains until ctx ends. While the genesis is missing, it indexes the part
// that does not need it.
func (n *Network) indexChains(ctx context.Context) error {
	i := n.indexed.Load()
	if i.reason() == nil {
		return n.runIndex(ctx, i)
	}
	first, end := context.WithCancel(ctx)
	defer end()
	g, first := errgroup.WithContext(first)
	var from origin
	g.Go(func() error { return n.runIndex(first, i) })
	g.Go(func() (err error) {
		if from, err = n.awaitOrigin(first, i.miss); err == nil {
			end()
		}
		return nil // an error says that first has ended
	})
	if err := g.Wait(); err != nil || ctx.Err() != nil {
		return err
	}
	next, err := n.newIndex(from)
	if err != nil {
		n.log.Error("the chains cannot be indexed with the genesis that was found; of the P-Chain only L1 transactions are indexed", slog.Any("error", err))
		i.miss(err)
		return n.runIndex(ctx, i)
	}
	n.indexed.Store(next)
	close(i.replaced)
	n.log.Info("the genesis is known; indexing all chains")
	if n.changed != nil {
		if err := n.changed(); err != nil {
			return err
		}
	}
	return n.runIndex(ctx, next)
}

// runIndex runs an index until ctx ends.
func (n *Network) runIndex(ctx context.Context, i *chainIndex) error {
	g, ctx := errgroup.WithContext(ctx)
	if missing := i.chains.Vertices; missing != nil && !n.role.Connects() && n.peerNode == nil && n.role.Indexes() {
		g.Go(func() error { return n.connectForVertices(ctx, missing) })
	}
	g.Go(func() error { return n.recordChains(ctx, i) })
	return g.Wait()
}

// recordChains runs an index until ctx ends, in this process or in another one that shares the
// store.
func (n *Network) recordChains(ctx context.Context, i *chainIndex) error {
	if n.group.Leases == nil {
		err := n.slots.UntilSwitch(ctx, i.chains.Run)
		for errors.Is(err, store.ErrFenced) && ctx.Err() == nil {
			// After a switch to a rebuilt index, the state in memory belongs to the old one.
			err = n.indexAgain(ctx, i)
		}
		if err != nil {
			n.log.Error("the chains are not indexed any more", slog.Any("error", err))
			i.chains.Fail(err)
		}
		return nil // signing works without the index
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return i.chains.Watch(ctx) })
	g.Go(func() error { return n.group.Guard(ctx) })
	if n.role.Indexes() {
		g.Go(func() error {
			return n.group.Do(ctx, fmt.Sprintf("index/%d", n.ID), func(ctx context.Context) error {
				defer i.chains.IndexedBy(nil)
				return n.indexAgain(ctx, i)
			})
		})
	}
	return g.Wait()
}

// indexAgain indexes with a new indexer, because the state in memory of the last one may be outdated.
func (n *Network) indexAgain(ctx context.Context, i *chainIndex) error {
	if err := n.slots.Refresh(ctx); err != nil {
		return err
	}
	indexer, err := n.newIndexer(i)
	if err != nil {
		return err
	}
	i.chains.IndexedBy(indexer)
	return n.slots.UntilSwitch(ctx, indexer.Run)
}
