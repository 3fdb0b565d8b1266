package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/access"
	handler "quorate/handlers/evm"
	"quorate/internal/chain/evm"
	"quorate/internal/index"
	chainindex "quorate/internal/index/evm"
	"quorate/internal/webhook"
)

// webhooks holds the webhooks and sends their messages.
type webhooks struct {
	process  *process
	networks *networks
	book     *webhook.Book
	worker   *webhook.Worker // nil if this process does not index

	mu      sync.Mutex
	sources map[string]webhookSource // by the names of package webhook; guarded by mu
}

// webhookSource is the source of events of a chain. A chain that opens again needs another one.
type webhookSource struct {
	chain  *handler.Chain
	source webhook.Source
}

// newWebhooks returns nil unless webhooks are enabled.
func newWebhooks(p *process, n *networks, guard *access.Guard) *webhooks {
	c := p.config.Webhooks
	if !c.Enabled {
		return nil
	}
	w := &webhooks{process: p, networks: n, book: webhook.NewBook(p.kept.Store, c.PerOwner), sources: make(map[string]webhookSource)}
	if p.config.Role.Indexes() {
		w.worker = webhook.NewWorker(webhook.Options{
			Book: w.book, Source: w.source, Admit: admits(guard), AllowPrivate: c.AllowPrivateAddresses, Metrics: p.registry, Log: p.log,
		})
	}
	return w
}

// admits returns a function that reports whether the clients of an owner are admitted: after its API key was revoked, or
// after API keys were created in an instance without any, nothing is sent to the owner.
func admits(guard *access.Guard) func(owner string) bool {
	return func(owner string) bool {
		if owner == "" {
			return !guard.Keyed()
		}
		return guard.Named(owner)
	}
}

// run sends messages until ctx ends, in one of the processes that share a store.
func (w *webhooks) run(ctx context.Context) {
	if w == nil || w.worker == nil {
		return
	}
	err := w.process.kept.Group().Do(ctx, "webhooks", func(ctx context.Context) error {
		w.worker.Run(ctx)
		return nil
	})
	if err != nil {
		w.process.log.Error("messages of webhooks are not sent any more", slog.Any("error", err))
	}
}

// source returns the source of events of a chain; false while the chain is not indexed.
func (w *webhooks) source(name string) (webhook.Source, bool) {
	id, ok := strings.CutPrefix(name, webhook.EVMChain(""))
	if !ok {
		return w.validators(name)
	}
	chain, err := w.networks.evm.Find(id)
	if err != nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.sources[name]; ok && s.chain == chain {
		return s.source, true
	}
	blocks, ok := w.networks.blocks(chain)
	if !ok {
		return nil, false
	}
	w.sources[name] = webhookSource{chain, newEVMWebhooks(chain, blocks)}
	return w.sources[name].source, true
}

// validators returns the source of events of a network's validators; false while they are not indexed.
func (w *webhooks) validators(name string) (webhook.Source, bool) {
	for _, e := range w.networks.entries {
		opened := e.open()
		if opened == nil || webhook.PChain(opened.ID) != name {
			continue
		}
		index, progress, ok := opened.StoreRegistry()
		if !ok {
			return nil, false
		}
		return webhook.NewValidators(opened.ID, index, func() (uint64, bool) {
			p := progress(context.Background())
			return p.Height, p.CaughtUp && !p.Rebuilding
		}), true
	}
	return nil, false
}

// blocks returns a source of the blocks of an EVM chain; false if no open network has the chain.
func (n *networks) blocks(chain *handler.Chain) (index.Source[*evm.Block], bool) {
	for _, e := range n.entries {
		if opened := e.open(); opened != nil {
			if blocks, ok := opened.EVMBlocks(chain.BlockchainID); ok {
				return blocks, true
			}
		}
	}
	return nil, false
}

// newEVMWebhooks returns the source of events of an EVM chain.
func newEVMWebhooks(chain *handler.Chain, blocks index.Source[*evm.Block]) webhook.Source {
	token := chain.NativeToken
	return webhook.NewEVM(webhook.EVMOptions{
		ChainID: chain.ChainID, Native: webhook.Token{Name: token.Name, Symbol: token.Symbol, Decimals: &token.Decimals},
		Tip: func() (uint64, bool) {
			p := chain.Progress(context.Background())
			return p.Height, p.CaughtUp
		},
		Fetch: func(ctx context.Context, from uint64, n int) ([]*evm.Block, error) {
			fetched, err := blocks.Fetch(ctx, from, n)
			if err != nil {
				return nil, err
			}
			all := make([]*evm.Block, len(fetched))
			for i := range fetched {
				all[i] = fetched[i].Content
			}
			return all, nil
		},
		Internals: func(ctx context.Context, height uint64, addresses []common.Address) (map[common.Hash][]evm.Frame, error) {
			return internals(ctx, chain.Index, height, addresses)
		},
		Tokens: func(ctx context.Context, addresses []common.Address, after time.Time) ([]*webhook.Token, error) {
			return tokens(ctx, chain.Contracts, addresses, after)
		},
	})
}

// internals returns the internal transactions of a block that involve the addresses, by the hashes of their transactions. An
// index without any call traces has none: its node does not trace, and waiting would be in vain.
func internals(ctx context.Context, chain handler.Index, height uint64, addresses []common.Address) (map[common.Hash][]evm.Frame, error) {
	found, traced, err := chain.BlockInternals(ctx, height, addresses)
	switch {
	case errors.Is(err, chainindex.ErrUntraced):
		return nil, nil
	case err != nil:
		return nil, err
	case !traced:
		return nil, webhook.ErrNoTraces
	}
	all := make(map[common.Hash][]evm.Frame)
	for i := range found {
		all[found[i].TxHash] = append(all[found[i].TxHash], found[i].Frame)
	}
	return all, nil
}

// tokens describes contracts, nil where there is none according to the node or an answer of the last seconds, and where
// one that follows no standard was not called after the given time. A contract that fails lacks what it does not report.
// The failure of a node, for example a rate limit, is an error: without the decimals, amounts would be wrong.
func tokens(ctx context.Context, contracts handler.Contracts, addresses []common.Address, after time.Time) ([]*webhook.Token, error) {
	distinct := slices.Clone(addresses)
	slices.SortFunc(distinct, common.Address.Cmp)
	distinct = slices.Compact(distinct)
	found, err := contracts.Settled(ctx, distinct, after)
	if err != nil {
		return nil, err
	}
	all := make([]*webhook.Token, len(addresses))
	for i, address := range addresses {
		if at, _ := slices.BinarySearchFunc(distinct, address, common.Address.Cmp); found[at] != nil {
			all[i] = &webhook.Token{
				Standard: found[at].Standard, Name: found[at].Name, Symbol: found[at].Symbol, Decimals: found[at].Decimals,
			}
		}
	}
	return all, nil
}
