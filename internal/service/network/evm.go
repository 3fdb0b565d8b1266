package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"

	handler "quorate/handlers/evm"
	"quorate/handlers/reply"
	"quorate/internal/anchor"
	chain "quorate/internal/chain/evm"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/index/registry"
	"quorate/internal/node"
	"quorate/internal/node/judge"
	"quorate/internal/retry"
	"quorate/internal/service/replica"
	"quorate/internal/store"
)

// evmChain is the Ethereum API of an EVM chain.
type evmChain struct {
	client *node.Client
	// proposer is a client of the chain's proposervm, see L1API.
	proposer *node.Client
	path     string
	own      bool     // the client serves only this chain
	urls     []string // of the chain's own nodes
	// name identifies the chain until its node has reported its IDs.
	name  string
	token handler.NativeToken
}

// cChain reports whether the chain is the C-Chain of the network.
func (c evmChain) cChain() bool { return !c.own }

// quietPoll is the maximum time between two polls of an idle chain. EVM chains may also announce blocks by WebSocket.
const quietPoll = 2 * time.Second

// newEVMChains returns the C-Chain and the configured chains.
func newEVMChains(client *node.Client, o Options) ([]evmChain, error) {
	chains := []evmChain{{client: client, path: node.CChainRPC, name: "evm C"}}
	names := make(map[string]int) // how many chains have it
	for _, c := range o.Config.EVM {
		nodes := node.Options{Endpoints: c.RPC.URLs(), Headers: c.RPC.Headers(), Rate: o.rate, Wrap: o.Wrap, Log: o.Log}
		client, err := node.New(nodes)
		if err != nil {
			closeEVMChains(chains)
			return nil, err
		}
		name := "evm"
		if u, err := url.Parse(c.RPC[0].URL); err == nil {
			name += " " + u.Host // the rest of the URL may be secret
		}
		if names[name]++; names[name] > 1 {
			name += fmt.Sprintf(" #%d", names[name])
		}
		proposer, err := newProposer(nodes)
		if err != nil {
			client.Close()
			closeEVMChains(chains)
			return nil, err
		}
		chains = append(chains, evmChain{client: client, proposer: proposer, own: true, urls: c.RPC.URLs(), name: name, token: nativeToken(c.NativeToken)})
	}
	return chains, nil
}

// nativeToken converts a configured token to the token in answers.
func nativeToken(t *config.Token) handler.NativeToken {
	if t == nil {
		return handler.NativeToken{}
	}
	shown := handler.NativeToken{Name: t.Name, Symbol: t.Symbol, Decimals: 18, LogoURI: t.LogoURI, Description: t.Description}
	if t.Decimals != nil {
		shown.Decimals = *t.Decimals
	}
	return shown
}

func closeEVMChains(chains []evmChain) {
	for _, c := range chains {
		if c.own {
			c.client.Close()
		}
		if c.proposer != nil {
			c.proposer.Close()
		}
	}
}

// evmIndexes indexes the EVM chains of a network, each once its node has reported its IDs.
type evmIndexes struct {
	networkID uint32
	cChainID  ids.ID // empty if the genesis is unknown
	chains    []evmChain
	store     store.Store
	slots     *index.Slots // of the EVM indexes
	group     replica.Group
	role      config.Role
	optional  []evm.Optional // indexes that are on
	// verifySenders is config.Network.VerifyEVMSenders.
	verifySenders bool
	views         evm.Viewer // what the Data API reads from
	fetcher       *metadata.Fetcher
	// registry returns the index of blockchains, false if there is none.
	registry func() (*registry.Index, func(context.Context) reply.Progress, bool)
	// changed is called when another chain can be read.
	changed func() error
	metrics prometheus.Registerer
	signer  anchor.Signer
	room    *index.Room // shared limit of blocks in flight; nil limits each chain alone
	log     *slog.Logger

	mu      sync.Mutex
	open    []*evmIndex       // guarded by mu
	waiting map[string]error  // by name: the error that keeps a chain from opening; guarded by mu
	refused map[string]error  // by name: the reason for which a chain is not indexed; guarded by mu
	taken   map[ids.ID]string // guarded by mu
	absent  map[string]bool   // by name: waiting chains for whose URLs no identity is stored; guarded by mu
}

// errOtherChain reports that a node serves another chain than it did when the chain was indexed.
var errOtherChain = errors.New("the node serves another chain than before")

// errChainID reports that two chains of a network cannot be distinguished.
var errChainID = errors.New("two chains of one network have the same EVM chain ID")

// errUnanswered is the reason to wait for a node that has neither answered nor failed.
var errUnanswered = errors.New("its node has not answered yet")

// evmIndex indexes one chain.
type evmIndex struct {
	name   string
	source string // the chain's name before it was identified
	served handler.Chain
	node   *node.EVM
	// pipeline has the status. It is that of first, which indexes if no other process shares the store.
	pipeline *index.Pipeline[*chain.Block]
	first    *evmIndexer
	// newIndexer returns what indexes into a store.
	newIndexer func(s store.Store) (*evmIndexer, error)
	filler     atomic.Pointer[evm.Filler]
	// beside is the pipeline of an index that is rebuilt beside this one, nil without any.
	beside atomic.Pointer[index.Pipeline[*chain.Block]]
	tips   index.Source[*chain.Block]
	anchor *anchor.Anchor
	judge  *judge.Judge // nil if there is nothing to compare
	book   *contracts.Book
	keeper *metadata.Keeper
}

// evmIndexer indexes one chain into a store. filler adds missing call traces.
type evmIndexer struct {
	pipeline *index.Pipeline[*chain.Block]
	filler   *evm.Filler
	// chain is the name of the pipeline's chain.
	chain, cursor string
}

// status returns the status of the pipeline with what the filler says.
func (x *evmIndexer) status() index.Status { return withFiller(x.pipeline.Status(), x.filler) }

// run indexes until ctx ends, and then returns nil. It returns the error of the pipeline. filling is called when the
// filler begins and with nil when it ends.
func (x *evmIndexer) run(ctx context.Context, filling func(*evm.Filler), log *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	defer end()
	group.Go(func() error {
		defer end()
		return x.pipeline.Run(ctx)
	})
	group.Go(func() error {
		filling(x.filler)
		defer filling(nil)
		err := x.filler.Run(ctx)
		if err == nil || errors.Is(err, store.ErrFenced) {
			return err
		}
		log.Error("missing call traces are not requested any more", slog.Any("error", err))
		<-ctx.Done() // status shows the error
		return nil
	})
	return group.Wait()
}

func newEVMIndexes(n *Network, o Options, metrics prometheus.Registerer) *evmIndexes {
	r := &evmIndexes{
		networkID: n.ID, store: o.Store, slots: o.EVMSlots, views: o.Store, group: o.Group, role: o.Role, optional: o.Config.EVMIndexes, verifySenders: o.Config.VerifyEVMSenders, fetcher: o.Fetcher, registry: n.Registry, changed: o.Changed, metrics: metrics, signer: n.Signer, log: o.Log,
		waiting: make(map[string]error), refused: make(map[string]error), taken: make(map[ids.ID]string), absent: make(map[string]bool),
	}
	if o.Views != nil {
		r.views = o.Views
	}
	if o.BlockBytes > 0 {
		r.room = index.NewRoom(o.BlockBytes)
	}
	if g := n.Genesis(); g != nil {
		r.cChainID = g.CChainID
	}
	for _, c := range n.evmChains {
		// The C-Chain of a synthetic network has no receipts.
		if c.cChain() && o.Synthetic {
			continue
		}
		r.chains = append(r.chains, c)
		r.waiting[c.name] = nil
	}
	if err := metrics.Register(r); err != nil {
		r.log.Error("the metrics of EVM chains that wait for their node are missing", slog.Any("error", err))
	}
	return r
}

func waitingDesc() *prometheus.Desc {
	return prometheus.NewDesc("quorate_index_waiting_chains",
		"EVM chains that are not indexed, because their node does not answer or serves another chain; the index status says why.", nil, nil)
}

// Describe implements prometheus.Collector.
func (*evmIndexes) Describe(descs chan<- *prometheus.Desc) { descs <- waitingDesc() }

// Collect implements prometheus.Collector.
func (r *evmIndexes) Collect(metrics chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.refused)
	for _, err := range r.waiting {
		if err != nil {
			n++
		}
	}
	metrics <- prometheus.MustNewConstMetric(waitingDesc(), prometheus.GaugeValue, float64(n))
}

// run indexes the chains until ctx ends.
func (r *evmIndexes) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range r.chains {
		running.Go(func() { r.record(ctx, c) })
	}
	running.Wait()
}

// record indexes the chain once its node has reported its IDs. Until then, it serves what is stored of the chain.
func (r *evmIndexes) record(ctx context.Context, c evmChain) {
	var early *evmIndex // serves without the node
	following, tried := func() {}, false
	err := retry.Pauses{First: 250 * time.Millisecond, Longest: 10 * time.Second}.Do(ctx, func() error {
		reported, err := r.identify(ctx, c)
		switch {
		case err != nil:
			return err
		case early != nil && early.identity() != reported:
			return retry.Final(fmt.Errorf("%w: %s is EVM chain %d (blockchain %s), stored is EVM chain %d (blockchain %s); set its rpc to the stored chain, or remove it from the configuration",
				errOtherChain, c.name, reported.ChainID, reported.BlockchainID, early.served.ChainID, early.served.BlockchainID))
		case early != nil:
			return nil
		}
		early, err = r.enter(c, reported)
		if errors.Is(err, errChainID) {
			return retry.Final(err)
		}
		return err
	}, func(err error, _ time.Duration) {
		r.wait(c, err)
		if !tried && ctx.Err() == nil {
			tried = true
			early, following = r.serveStored(ctx, c, err)
		}
	})
	following()
	if early != nil {
		defer early.book.Close()
	}
	switch {
	case ctx.Err() != nil || err == nil && early == nil:
		return
	case err != nil:
		r.refuse(c, err)
		return
	}
	r.confirm(ctx, c, early)
	if err := r.changed(); err != nil {
		r.log.Error("an EVM chain cannot be served", slog.String("chain", early.name), slog.Any("error", err))
		return
	}
	r.work(ctx, early)
}

// wait notes why a chain's node has not reported its IDs.
func (r *evmIndexes) wait(c evmChain, err error) {
	r.mu.Lock()
	first := r.waiting[c.name] == nil
	r.waiting[c.name] = err
	r.mu.Unlock()
	if first {
		r.log.Warn("an EVM chain is not indexed yet", slog.String("chain", c.name), slog.Any("error", err))
	}
}

// refuse stops a chain for good: only another configuration can help.
func (r *evmIndexes) refuse(c evmChain, err error) {
	r.mu.Lock()
	delete(r.waiting, c.name)
	r.refused[c.name] = err
	r.open = slices.DeleteFunc(r.open, func(e *evmIndex) bool { return e.source == c.name })
	r.mu.Unlock()
	r.log.Error("an EVM chain is not indexed", slog.String("chain", c.name), slog.Any("error", err))
	if err := r.changed(); err != nil { // the chain is no longer awaited
		r.log.Error("the surface cannot be renewed", slog.Any("error", err))
	}
}

// identify asks a chain's node for its IDs.
func (r *evmIndexes) identify(ctx context.Context, c evmChain) (evmIdentity, error) {
	api := c.client.EVM(c.path)
	chainID, err := api.ChainID(ctx)
	if err != nil {
		return evmIdentity{}, err
	}
	blockchainID := r.cChainID
	if !c.cChain() || blockchainID == ids.Empty {
		blockchainID, err = api.BlockchainID(ctx)
	}
	if err == nil && blockchainID == ids.Empty {
		err = errors.New("the chain does not report its blockchain ID; use a URL of the form .../ext/bc/BLOCKCHAIN_ID/rpc")
	}
	return evmIdentity{chainID, blockchainID}, err
}

// enter builds the index of a chain and adds it to those that can be read. It returns nil if the chain is indexed already.
func (r *evmIndexes) enter(c evmChain, id evmIdentity) (*evmIndex, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, taken := r.taken[id.BlockchainID]; taken {
		delete(r.waiting, c.name)
		r.log.Warn("an EVM chain is configured twice; it is indexed once", slog.String("chain", c.name), slog.String("indexed", other))
		return nil, nil
	}
	for _, other := range r.open {
		if other.served.ChainID == id.ChainID {
			return nil, fmt.Errorf("%w, %d: %s (blockchain %s), which is indexed, and %s (blockchain %s), which is not; configure one of them",
				errChainID, id.ChainID, other.source, other.served.BlockchainID, c.name, id.BlockchainID)
		}
	}
	e, err := r.assemble(c, c.client.EVM(c.path), id.ChainID, id.BlockchainID)
	if err != nil {
		return nil, err
	}
	r.taken[id.BlockchainID] = e.name
	r.open = append(r.open, e)
	return e, nil
}

func (r *evmIndexes) assemble(c evmChain, api *node.EVM, chainID uint64, blockchainID ids.ID) (*evmIndex, error) {
	name := index.EVMChain(chainID)
	log := r.log.With(slog.Uint64("evmChainID", chainID))
	e := &evmIndex{name: name, source: c.name, node: api}
	e.book = contracts.New(contracts.Options{Node: api, Store: r.store, NetworkID: r.networkID, BlockchainID: blockchainID, Chains: len(r.chains)})
	e.keeper = metadata.New(metadata.Options{Contracts: e.book, Fetcher: r.fetcher, Store: r.store, NetworkID: r.networkID, BlockchainID: blockchainID, Log: log})
	served := evm.New(r.views, r.networkID, blockchainID, e.book).Among(len(r.chains))
	e.newIndexer = func(s store.Store) (*evmIndexer, error) {
		source := index.NewEVMSource(index.EVMOptions{Node: api, Chain: name, VerifySenders: r.verifySenders, Log: log})
		projection := evm.NewProjection(r.networkID, blockchainID).Among(len(r.chains)).With(r.optional...)
		// Chains of different networks and blockchains may share a chain ID.
		chainName := name + "/" + blockchainID.String()
		pipeline, err := index.New(index.Options[*chain.Block]{
			NetworkID: r.networkID, Chain: chainName,
			Source:      source,
			Store:       s,
			Projections: []index.Projection[*chain.Block]{projection},
			// Blocks are decoded where they are fetched.
			WindowBytes: 32 << 20,
			Room:        r.room,
			// An idle node is polled less often; it may announce blocks by WebSocket.
			QuietPoll:     quietPoll,
			StoreCaughtUp: s == r.store,
			Log:           r.log,
		})
		if err != nil {
			return nil, err
		}
		filler := evm.NewFiller(evm.FillerOptions{
			Store: s, NetworkID: r.networkID, BlockchainID: blockchainID, Tracer: source, Log: log,
			Behind: func() bool { return pipeline.Status().Lag() > index.NearTip },
		})
		return &evmIndexer{pipeline, filler, chainName, index.Cursor(r.networkID, chainName, projection.Name())}, nil
	}
	e.tips = index.NewEVMSource(index.EVMOptions{Node: api, Chain: name, VerifySenders: r.verifySenders, Log: log})
	first, err := e.newIndexer(r.store)
	if err == nil {
		e.pipeline, e.first = first.pipeline, first
		err = r.metrics.Register(index.NewCollector(name, e.status))
	}
	if e.judge = newEVMJudge(c, name, r.log); err == nil && e.judge != nil {
		err = r.metrics.Register(e.judge)
	}
	if err == nil {
		e.anchor, err = r.newAnchor(e, served, blockchainID)
	}
	if err != nil {
		e.book.Close()
		return nil, fmt.Errorf("indexing EVM chain %d: %w", chainID, err)
	}
	e.served = handler.Chain{
		ChainID: chainID, BlockchainID: blockchainID, Primary: c.cChain(), NativeToken: c.token,
		Index: served, Contracts: e.book, URIs: e.book, Node: api, Metadata: e.keeper,
		NetworkID: r.networkID, Describe: func(ctx context.Context) (*handler.Description, error) { return r.describe(ctx, blockchainID) },
		Progress: func(ctx context.Context) reply.Progress { return e.progress(ctx, served) },
	}
	return e, nil
}

// describe returns what the index of the P-Chain says of a blockchain, nil if it does not have it.
func (r *evmIndexes) describe(ctx context.Context, id ids.ID) (*handler.Description, error) {
	blockchains, _, ok := r.registry()
	if !ok {
		return nil, nil
	}
	b, err := blockchains.Blockchain(ctx, id)
	if err != nil || b == nil {
		return nil, err
	}
	return &handler.Description{Name: b.Name, SubnetID: b.SubnetID, VMID: b.VMID}, nil
}

// work indexes a chain until ctx ends. If another process that shares the store holds the lease, work follows its
// progress.
func (r *evmIndexes) work(ctx context.Context, e *evmIndex) {
	var running sync.WaitGroup
	running.Go(func() { e.node.Heads(ctx, e.wake) })
	if e.judge != nil {
		running.Go(func() { e.judge.Run(ctx) })
	}
	if r.role.Answers() {
		running.Go(func() { e.keeper.Run(ctx) }) // for this process's readers
	}
	if r.group.Leases == nil {
		running.Go(func() { r.lost(e, r.index(ctx, e)) })
	} else {
		running.Go(func() { r.lost(e, e.pipeline.Watch(ctx, e.tips)) })
	}
	running.Go(func() { e.anchor.Watch(ctx) })
	if r.role.Signs() {
		running.Go(func() {
			r.lost(e, r.group.Do(ctx, fmt.Sprintf("anchor/%d/%s", r.networkID, e.served.BlockchainID), func(ctx context.Context) error {
				e.anchor.Sign(ctx)
				return nil
			}))
		})
	}
	if r.group.Leases != nil && r.role.Indexes() {
		running.Go(func() {
			r.lost(e, r.group.Do(ctx, fmt.Sprintf("evm/%d/%s", r.networkID, e.served.BlockchainID), func(ctx context.Context) error {
				defer e.pipeline.IndexedBy(nil)
				return r.indexAgain(ctx, e)
			}))
		})
	}
	running.Wait()
}

// index indexes a chain in the only process on the store.
func (r *evmIndexes) index(ctx context.Context, e *evmIndex) error {
	err := r.untilSwitch(ctx, e, e.first)
	for errors.Is(err, store.ErrFenced) && ctx.Err() == nil {
		// After a switch to a rebuilt index, the state in memory belongs to the old one.
		err = r.indexAgain(ctx, e)
	}
	if err != nil {
		e.pipeline.Fail(err)
	}
	return err
}

// indexAgain indexes a chain with a new indexer, because the state in memory of the last one may be outdated.
func (r *evmIndexes) indexAgain(ctx context.Context, e *evmIndex) error {
	if err := r.slots.Refresh(ctx); err != nil {
		return err
	}
	indexer, err := e.newIndexer(r.store)
	if err != nil {
		return err
	}
	e.pipeline.IndexedBy(indexer.pipeline)
	var publishing sync.WaitGroup
	defer publishing.Wait()
	if r.group.Leases != nil {
		ctx, end := context.WithCancel(ctx)
		defer end()
		publishing.Go(func() { index.Publish(ctx, r.store, r.networkID, indexer.chain, indexer.status, r.log) })
	}
	return r.untilSwitch(ctx, e, indexer)
}

// untilSwitch runs an indexer. If indexing fails for good, another process would fail, too: the status, which other
// processes read, shows the error until a rebuilt index serves. Then untilSwitch returns store.ErrFenced.
func (r *evmIndexes) untilSwitch(ctx context.Context, e *evmIndex, indexer *evmIndexer) error {
	return r.slots.UntilSwitch(ctx, func(ctx context.Context) error {
		err := indexer.run(ctx, e.filler.Store, r.log)
		if index.Continued(err) {
			return err
		}
		r.lost(e, err)
		return nil
	})
}

// lost logs why a chain is not indexed any more, unless err is nil.
func (r *evmIndexes) lost(e *evmIndex, err error) {
	if err != nil {
		r.log.Error("an EVM chain is not indexed any more", slog.String("chain", e.name), slog.Any("error", err))
	}
}

// evmPart rebuilds the index of a chain beside the one that serves.
type evmPart struct {
	*evmIndexer
	of        *evmIndex
	networkID uint32
	// active and rebuilt hold the rows.
	active, rebuilt store.Store
	log             *slog.Logger
}

// beside returns indexers of all chains for another store, and the chains that would lose their index after a switch,
// with the reasons: their nodes have not confirmed them yet, or they are refused.
func (r *evmIndexes) beside(ctx context.Context, s store.Store) (parts []index.Part, missing []string, err error) {
	orphans, err := r.indexedChains(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		delete(orphans, e.first.cursor)
	}
	missing = r.missing(slices.Sorted(maps.Values(orphans)))
	for _, e := range r.open {
		if _, waits := r.waiting[e.source]; waits {
			continue
		}
		indexer, err := e.newIndexer(s)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, &evmPart{indexer, e, r.networkID, r.store, s, r.log})
	}
	return parts, missing, nil
}

// missing returns the chains without a part in a rebuild that may have an index, with the reasons. Orphans are the
// indexed chains that are not open. Requires mu.
func (r *evmIndexes) missing(orphans []string) (all []string) {
	for _, c := range r.chains {
		reason, waits := r.waiting[c.name]
		refusal, refused := r.refused[c.name]
		why := fmt.Sprintf("%s: %v", c.name, cmp.Or(refusal, reason, errUnanswered))
		switch {
		case waits && !r.absent[c.name]:
			all = append(all, why)
		case !waits && !refused, waits && c.cChain(), len(orphans) == 0: // the key of the C-Chain's identity has no URL
		default:
			all = append(all, fmt.Sprintf("%s; it may be the indexed chain %s: correct its rpc, or remove it from the configuration",
				why, strings.Join(orphans, " or ")))
		}
	}
	return all
}

// indexedChains returns the chains of the network that have an index, by cursor.
func (r *evmIndexes) indexedChains(ctx context.Context) (map[string]string, error) {
	heights, err := r.slots.ActiveHeights(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading which EVM chains are indexed: %w", err)
	}
	prefix := strings.TrimSuffix(index.Cursor(r.networkID, "", ""), "/")
	chains := make(map[string]string)
	for cursor, height := range heights {
		if chain, own := strings.CutPrefix(cursor, prefix); own && height > 0 {
			chains[cursor] = path.Dir(chain) // without the projection
		}
	}
	return chains, nil
}

// Run implements index.Part.
func (p *evmPart) Run(ctx context.Context) error {
	p.of.beside.Store(p.pipeline)
	defer p.of.beside.Store(nil)
	if err := p.run(ctx, func(*evm.Filler) {}, p.log); err != nil {
		return fmt.Errorf("%s: %w", p.of.name, err)
	}
	return nil
}

// Cursors implements index.Part.
func (p *evmPart) Cursors() []string { return []string{p.cursor} }

// Stopped implements index.Part. Run returns once the pipeline has stopped.
func (*evmPart) Stopped() error { return nil }

// Lacks implements index.Part.
func (p *evmPart) Lacks(ctx context.Context) (string, error) {
	return evm.Lacks(ctx, p.active, p.rebuilt, p.networkID, p.of.served.BlockchainID)
}

// status returns the state of the index, including its call traces.
func (e *evmIndex) status() index.Status {
	status := e.pipeline.Status()
	if filler := e.filler.Load(); filler != nil {
		status = withFiller(status, filler)
	}
	status.Proof = e.anchor.Proof()
	return withNote(status, e.anchor.Note())
}

// withFiller adds what a filler says to the status of its pipeline.
func withFiller(status index.Status, filler *evm.Filler) index.Status {
	status.Gaps, _ = filler.Missing()
	return withNote(status, filler.Note())
}

func withNote(status index.Status, note string) index.Status {
	if note != "" && status.Note != "" {
		status.Note += "; "
	}
	status.Note += note
	return status
}

// wake tells the pipelines that there are more blocks.
func (e *evmIndex) wake() {
	e.pipeline.Wake()
	if beside := e.beside.Load(); beside != nil {
		beside.Wake()
	}
}

// progress returns the progress of the index.
func (e *evmIndex) progress(ctx context.Context, chain *evm.Index) reply.Progress {
	return progressAt(ctx, e.status(), func(ctx context.Context) (uint64, time.Time, error) {
		tip, err := chain.Tip(ctx)
		return tip.Number, time.Unix(int64(tip.Time), 0), err
	})
}

// addStatus adds the state of the chains to that of the network.
func (r *evmIndexes) addStatus(all map[string]index.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		all[e.name] = e.status()
	}
	for name, err := range r.waiting {
		if r.isOpen(name) {
			continue // its status has the reason
		}
		state := index.Idle
		if err != nil {
			state = index.Retrying
		}
		all[name] = index.Status{State: state, Err: err}
	}
	for name, err := range r.refused {
		all[name] = index.Status{State: index.Stopped, Err: err}
	}
}

// statusOf returns the state of a chain, or false if it cannot be read.
func (r *evmIndexes) statusOf(id ids.ID) (index.Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		if e.served.BlockchainID == id {
			return e.status(), true
		}
	}
	return index.Status{}, false
}

// verdicts returns what was found about the nodes of the chains.
func (r *evmIndexes) verdicts() (all []judge.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		if e.judge == nil {
			continue
		}
		for _, v := range e.judge.Verdicts() {
			if v.Text != "" {
				v.Text = e.name + ": " + v.Text
			}
			all = append(all, v)
		}
	}
	return all
}

// indexedAs returns the name of a chain in the status, by its configured name.
func (r *evmIndexes) indexedAs(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		if e.source == name {
			return e.name
		}
	}
	return name
}

// chainsServed returns the chains that can be read, and whether more will follow.
func (r *evmIndexes) chainsServed() (served []handler.Chain, starting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		served = append(served, e.served)
	}
	for name := range r.waiting {
		starting = starting || !r.isOpen(name)
	}
	return served, starting
}

// blocks returns a new source of the blocks of a chain; false if the chain cannot be read.
func (r *evmIndexes) blocks(id ids.ID) (index.Source[*chain.Block], bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		if e.served.BlockchainID == id {
			return index.NewEVMSource(index.EVMOptions{
				Node: e.node, Chain: e.name, VerifySenders: r.verifySenders, Log: r.log,
				Indexed: func() uint64 { return max(e.pipeline.Status().Next, 1) - 1 },
			}), true
		}
	}
	return nil, false
}

// isOpen reports whether a chain can be read, by its configured name. Requires mu.
func (r *evmIndexes) isOpen(name string) bool {
	return slices.ContainsFunc(r.open, func(e *evmIndex) bool { return e.source == name })
}

// follows reports whether a blockchain is indexed.
func (r *evmIndexes) follows(id ids.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.taken[id]
	return ok
}
