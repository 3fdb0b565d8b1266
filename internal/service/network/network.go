// Package network builds the parts of one network: the client of its nodes, the peers, the validator sets, the signer
// and the index of its chains.
package network

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/aggregator"
	"quorate/aggregator/delivery"
	"quorate/aggregator/evmmessage"
	"quorate/aggregator/l1message"
	"quorate/handlers/data/times"
	handler "quorate/handlers/evm"
	"quorate/handlers/networks"
	chain "quorate/internal/chain/evm"
	"quorate/internal/chain/pchain"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/index/l1"
	"quorate/internal/index/primary"
	"quorate/internal/index/vertices"
	"quorate/internal/node"
	"quorate/internal/node/judge"
	"quorate/internal/node/stakes"
	"quorate/internal/node/uptime"
	"quorate/internal/peernode"
	"quorate/internal/service/replica"
	"quorate/internal/store"
	"quorate/p2p"
	"quorate/validators"
)

// Network holds the parts of one network. Its fields do not change after New, except what indexed holds. It is safe for
// concurrent use.
type Network struct {
	// Name is the configured name, ID the network ID.
	Name     string
	ID       uint32
	Node     *node.Client
	peerNode *peernode.Node // nil unless the P-Chain is followed over the peer-to-peer network
	judge    *judge.Judge   // nil if there is only one source of the P-Chain
	Peers    *p2p.Network
	Resolver *validators.Resolver
	// Changes derives the changes of validator sets.
	Changes  *validators.Changes
	Signer   *aggregator.Aggregator
	Coverage *Coverage
	// Deliveries tells whether blockchains would accept signed messages.
	Deliveries *delivery.Checker
	// indexed is the index of the primary network's chains, which another one replaces once the genesis is known, and
	// record the index of L1s; nil without a store.
	indexed atomic.Pointer[chainIndex]
	l1Index *l1.Index
	views   store.Viewer  // what the Data API reads from; nil means the store
	ledger  bool          // whether outputs, balances and stakes are configured to be indexed
	stakes  *stakes.Cache // nil without a store
	uptimes *uptime.Cache // nil without a store
	times   *times.File   // nil unless configured
	ahead   *aheadWork    // nil if no messages are signed ahead
	// evmChains are the network's EVM chains. evm indexes them; nil if they are not indexed.
	evmChains []evmChain
	evm       *evmIndexes
	sent      *sentMessages
	followed  *followed
	// Messages derives the messages that follow from P-Chain transactions.
	Messages *l1message.Deriver
	// role is the role of this process in the network. newIndexer returns an indexer when this process gets the lease, or
	// begins again after a switch of slots. newBeside returns one that rebuilds the index in another store. Both are nil
	// without a store.
	role       config.Role
	store      store.Store
	group      replica.Group // of the processes on the store
	newIndexer func(*chainIndex) (*primary.Network, error)
	// newIndex builds indexed. changed is called when indexed or the EVM chains that can be read change; may be nil.
	newIndex  func(origin) (*chainIndex, error)
	changed   func() error
	file      string    // of the genesis; empty unless configured
	identity  *identity // nil without a store
	newBeside func(s store.Store) (*primary.Network, error)
	slots     *index.Slots // nil without a store
	log       *slog.Logger
}

// Options configures a Network. Name, Config, Log and Metrics are required.
type Options struct {
	// Name is the name under which the network is served.
	Name    string
	Config  config.Network
	Dir     string // of the identity and the address book; if empty, both are new at each start
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Store and Archive may be nil; then nothing is stored. The byte counts size the caches of verified signatures and
	// of signed messages; 0 means the defaults.
	Store store.Store
	// Slots and EVMSlots are those of Store, of the primary chains and of the EVM chains; nil without a store.
	Slots, EVMSlots *index.Slots
	// Views are what the Data API reads from; nil means the store.
	Views                        store.Viewer
	Archive                      *aggregator.Archive
	SignatureBytes, MessageBytes uint64
	// BlockBytes limits the blocks of EVM chains in flight to the store, over all chains; 0 means no limit.
	BlockBytes int64
	// Group is the processes that share Store.
	Group replica.Group
	Role  config.Role
	// rate limits the calls to upstream nodes; nil means no limit.
	rate *node.Rate
	// peerNode is nil unless the P-Chain is followed over the peer-to-peer network; see NewClient.
	peerNode *peernode.Node
	// beside marks an indexer that rebuilds the index.
	beside bool
	// origin is what Open found out about the beginning of the network.
	origin origin
	// Synthetic marks a simulated network, whose C-Chain has no receipts.
	Synthetic bool
	// StorePlace names Store for the operator.
	StorePlace string
	// Rounds bounds the signing rounds at a time; see aggregator.Options.
	Rounds func() (all, perClient int)
	// CallsInFlight is the maximum number of concurrent calls to one upstream node, 0 for the default.
	CallsInFlight int
	// Fetcher fetches the metadata of tokens. Changed is called when more can be read. Both are required for indexing
	// EVM chains.
	Fetcher *metadata.Fetcher
	Changed func() error
	// Wrap wraps the transport for calls to upstream nodes; may be nil.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Observer observes the rounds; may be nil.
	Observer aggregator.Observer
}

// NewClient returns a client of the network's configured nodes. The caller closes it, unless it is passed to New with
// the same options, which get what New needs.
func NewClient(o *Options) (*node.Client, error) {
	nodes := config.Endpoints(o.Config.Nodes)
	options := node.Options{Endpoints: nodes.URLs(), Headers: nodes.Headers(), Rate: o.rate, ForwardLimit: o.CallsInFlight, Wrap: o.Wrap, Log: o.Log}
	if o.Config.FollowsPeers() {
		var err error
		if o.peerNode, err = newPeerNode(*o); err != nil {
			return nil, fmt.Errorf("following the P-Chain over the peer-to-peer network: %w", err)
		}
		options.Peers = o.peerNode
	}
	return node.New(options)
}

// New returns the network with an ID. It takes ownership of client.
func New(client *node.Client, id uint32, o Options) (*Network, error) {
	if known, ok := networks.PublicID(o.Name); ok && known != id {
		o.Log.Warn("this is not the public network of that name; it is served under it all the same", slog.Uint64("networkID", uint64(id)), slog.Uint64("publicNetworkID", uint64(known)))
	}
	n := &Network{
		Name: o.Name, ID: id, views: o.Views, Node: client, peerNode: o.peerNode, log: o.Log, ledger: o.Config.RecordsLedger(),
		role: o.Role, store: o.Store, group: o.Group, slots: o.Slots, changed: o.Changed, file: o.Config.GenesisFile,
	}
	if err := n.build(o, prometheus.WrapRegistererWith(prometheus.Labels{"network": o.Name}, o.Metrics)); err != nil {
		n.Close()
		return nil, fmt.Errorf("network %s: %w", o.Name, err)
	}
	return n, nil
}

// build makes the parts of the network: those that sign, then what is indexed.
func (n *Network) build(o Options, metrics prometheus.Registerer) error {
	manual, err := o.Config.Peers()
	if err != nil {
		return fmt.Errorf("manual_peers: %w", err)
	}
	n.Peers, err = p2p.New(p2p.Config{
		NetworkID:       n.ID,
		Dir:             o.Dir,
		AllowPrivateIPs: o.Config.AllowPrivateIPs,
		Seeds:           n.seeds,
		Bootstrappers:   true,
		Manual:          manual,
		Log:             o.Log,
		Metrics:         metrics,
	})
	if err != nil {
		return err
	}
	n.Resolver = validators.NewResolver(n.Node, validators.Options{
		Log: o.Log, OnSets: n.follow, MaxHeightAge: o.Config.HeightAge(), Enter: n.Node.Enter, Source: n.Node.Source,
	})
	n.Changes = validators.NewChanges(n.Resolver, n.touched)
	n.Coverage = NewCoverage(n.Peers.Connected)
	n.followed = newFollowed()
	collectors := []prometheus.Collector{n.Coverage, n.followed}
	if n.peerNode != nil {
		collectors = append(collectors, n.peerNode.Collectors()...)
	}
	if n.judge = newJudge(n, o.Log); n.judge != nil {
		collectors = append(collectors, n.judge)
	}
	for _, c := range collectors {
		if err := metrics.Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	if n.evmChains, err = newEVMChains(n.Node, o); err != nil {
		return err
	}
	n.sent = newSentMessages(n.ID, n.evmChains)
	signing := aggregator.Options{
		Transport: n.Peers, Sets: n.Resolver, Log: o.Log, Metrics: metrics, Find: n.sent.find,
		Archive: o.Archive, Observer: o.Observer, SignatureCacheBytes: o.SignatureBytes, MessageCacheBytes: o.MessageBytes,
		Rounds: o.Rounds,
	}
	if o.Store != nil && o.Role.Signs() {
		signing.Strikes = strikes{o.Store, n.ID}
	}
	n.Signer, err = aggregator.New(signing)
	if err != nil {
		return err
	}
	n.Deliveries = delivery.New(n.ID, n.Resolver, n.Node)
	derive := l1message.Options{NetworkID: n.ID, Node: n.Node, Chains: n.Resolver, Signer: n.Signer, Log: o.Log}
	var l1Indexed chan struct{}
	if o.Store != nil {
		l1Indexed = make(chan struct{}, 1)
		if err := n.buildIndex(o, metrics, l1Indexed); err != nil {
			return err
		}
		derive.Index = n.l1Index
	}
	n.Messages = l1message.New(derive)
	n.ahead, err = newAheadWork(n, o, metrics, l1Indexed)
	return err
}

// buildIndex makes what indexes the network's chains. l1Indexed receives when L1 transactions are indexed.
func (n *Network) buildIndex(o Options, metrics prometheus.Registerer, l1Indexed chan struct{}) error {
	if file := o.Config.XChainTimes; file != "" {
		var err error
		if n.times, err = times.Open(file); err != nil {
			o.Log.Error("x_chain_times cannot be used: times of the X-Chain before Cortina are upper bounds", slog.Any("error", err))
		}
	}
	n.identity = newIdentity(o.Name, n.ID, o.Store, n.Node, o.StorePlace)
	n.l1Index = l1.New(o.Store, n.ID)
	n.newIndexer = func(of *chainIndex) (*primary.Network, error) { return newIndexer(n, o, of.origin, nil, l1Indexed) }
	n.newIndex = func(from origin) (*chainIndex, error) { return newChainIndex(n, o, from, metrics, l1Indexed) }
	n.newBeside = func(s store.Store) (*primary.Network, error) {
		beside := o
		beside.Store, beside.beside = s, true
		return newIndexer(n, beside, n.indexed.Load().origin, nil, nil)
	}
	first, err := n.newIndex(o.origin)
	if err != nil {
		return err
	}
	n.indexed.Store(first)
	n.uptimes = uptime.New(n.Node)
	n.stakes = stakes.New(n.Node, func() uint64 { return n.Chains().Status()[index.PChain].Next })
	if o.Fetcher != nil && o.Config.RecordsEVM() {
		n.evm = newEVMIndexes(n, o, metrics)
	}
	return nil
}

// newIndexer returns an indexer of the chains, or a follower of another process's index. l1Indexed gets a token when
// more P-Chain blocks are indexed.
func newIndexer(n *Network, o Options, from origin, metrics prometheus.Registerer, l1Indexed chan<- struct{}) (*primary.Network, error) {
	return primary.New(primary.Options{
		NetworkID:     n.ID,
		Node:          n.indexNode(),
		Peers:         n.Peers,
		Store:         o.Store,
		Genesis:       from.genesis,
		ValidatorFees: from.fees,
		Upgrades:      from.upgrades,
		Keep:          o.Config.Keep(),
		Beside:        o.beside,
		Shared:        o.Group.Leases != nil && !o.beside,
		Projections:   []index.Projection[*pchain.Block]{l1.NewProjection(n.ID)},
		Start:         firstIndexed(o),
		Metrics:       metrics,
		Log:           o.Log,
		Committed: func() {
			select {
			case l1Indexed <- struct{}{}:
			default:
			}
		},
	})
}

// Beside returns indexers that rebuild the index of the primary chains in another store, none without an index.
func (n *Network) Beside(_ context.Context, s store.Store) (parts []index.Part, missing []string, err error) {
	if n.newBeside == nil {
		return nil, nil, nil
	}
	part, err := n.newBeside(s)
	if err != nil {
		return nil, nil, err
	}
	return []index.Part{part}, nil, nil
}

// BesideEVM returns indexers that rebuild the indexes of the EVM chains in another store, and the chains that would
// lose their index after a switch, with the reasons.
func (n *Network) BesideEVM(ctx context.Context, s store.Store) (parts []index.Part, missing []string, err error) {
	if n.evm == nil {
		return nil, nil, nil
	}
	return n.evm.beside(ctx, s)
}

// seeds returns the peer addresses that the node knows.
func (n *Network) seeds(ctx context.Context) ([]p2p.Address, error) {
	peers, err := n.Node.Peers(ctx)
	addresses := make([]p2p.Address, len(peers))
	for i, p := range peers {
		addresses[i] = p2p.Address(p)
	}
	return addresses, err
}

// follow passes new validator sets to the peers and to the metrics.
func (n *Network) follow(_ uint64, sets map[ids.ID]*validators.Set) {
	all := make(map[ids.ID]snow.WarpSet, len(sets))
	for id, s := range sets {
		all[id] = s.WarpSet
	}
	n.Peers.SetValidators(all)
	n.Coverage.Follow(sets)
}

// Run runs the network until ctx ends.
func (n *Network) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if n.role.Connects() || n.peerNode != nil {
		g.Go(func() error { return n.connect(ctx) })
	}
	if n.judge != nil {
		g.Go(func() error {
			n.judge.Run(ctx)
			return nil
		})
	}
	if n.indexed.Load() != nil {
		g.Go(func() error { return n.indexChains(ctx) })
		g.Go(func() error { return n.identity.watch(ctx, n.log) })
	}
	if n.ahead != nil && n.role.Signs() {
		// Other processes find the signatures in the store.
		g.Go(func() error { return n.group.Do(ctx, fmt.Sprintf("ahead/%d", n.ID), n.ahead.run) })
	}
	if n.evm != nil {
		g.Go(func() error {
			n.evm.run(ctx) // Run ends with ctx
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("network %s: %w", n.Name, err)
	}
	return nil
}

// Start runs the network until stop, which also closes it. Start returns when enough reports true, or ctx ends.
func (n *Network) Start(ctx context.Context, enough func() bool) (stop func()) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer n.Close()
		if err := n.Run(life); err != nil {
			n.log.Error("the network stopped", slog.Any("error", err))
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !enough() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return func() { end(); <-done }
}

// connect connects to the network's nodes until ctx ends.
func (n *Network) connect(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.Peers.Run(ctx) })
	g.Go(func() error { return n.Resolver.Run(ctx) })
	if n.peerNode != nil {
		g.Go(func() error { return n.peerNode.Run(ctx, n.Peers) })
	}
	g.Go(func() error {
		warn(ctx, n.Ready, n.log)
		return nil
	})
	return g.Wait()
}

// connectForVertices connects, if the role does not connect anyway, while the X-Chain's
// pre-Cortina vertices are missing. Coverage has no subnets before and after.
func (n *Network) connectForVertices(ctx context.Context, missing *vertices.Index) error {
	needed, err := missing.Await(ctx)
	if err != nil || !needed {
		return nil // an error says that ctx has ended
	}
	connected, cancel := context.WithCancel(ctx)
	defer cancel()
	g, connected := errgroup.WithContext(connected)
	g.Go(func() error { return n.connect(connected) })
	g.Go(func() error {
		defer cancel()
		_ = missing.Complete(connected) // ends with connected
		return nil
	})
	defer n.Coverage.Follow(nil) // peers that are not connected any more are no failure
	return g.Wait()
}

// Close closes the parts that Run does not close.
func (n *Network) Close() {
	closeEVMChains(n.evmChains)
	if n.times != nil {
		_ = n.times.Close() // it is only read
	}
	if n.Signer != nil {
		n.Signer.Close()
	}
	n.Node.Close()
}

// Status returns how far each chain is indexed, by name. The network must have a store.
func (n *Network) Status() map[string]index.Status {
	all := n.indexed.Load().status()
	indexed := func(name string) string { return name }
	if n.evm != nil {
		n.evm.addStatus(all)
		indexed = n.evm.indexedAs
	}
	n.followed.addTo(all, indexed)
	return all
}

// EVM returns the EVM chains that can be read, and whether more will follow.
func (n *Network) EVM() (served []handler.Chain, starting bool) {
	if n.evm == nil {
		return nil, false
	}
	return n.evm.chainsServed()
}

// EVMStatus returns the status of the index of an EVM chain, or false if the chain is not indexed.
func (n *Network) EVMStatus(blockchainID ids.ID) (index.Status, bool) {
	if n.evm == nil {
		return index.Status{}, false
	}
	return n.evm.statusOf(blockchainID)
}

// EVMBlocks returns a new source of the blocks of an EVM chain. It returns false if the chain is not indexed.
func (n *Network) EVMBlocks(blockchainID ids.ID) (index.Source[*chain.Block], bool) {
	if n.evm == nil {
		return nil, false
	}
	return n.evm.blocks(blockchainID)
}

// Sent returns the messages that a transaction of an EVM chain sent. chain is a blockchain ID, an EVM chain ID or
// "c-chain". The error is an *aggregator.Error with a code of the packages aggregator, l1message or evmmessage, or wraps
// ctx's error.
func (n *Network) Sent(ctx context.Context, chain string, hash ids.ID) ([]evmmessage.Sent, error) {
	return n.sent.by(ctx, chain, hash)
}

// Follows reports whether an EVM chain is indexed. The C-Chain is one of them.
func (n *Network) Follows(blockchainID ids.ID) bool {
	return n.evm != nil && n.evm.follows(blockchainID)
}

// Ready returns nil if requests can be expected to succeed, else the reason, which may be a *CauseError. Validators matter
// only to processes that sign.
func (n *Network) Ready() error {
	if !n.role.Signs() {
		return nil
	}
	height, ok := n.Resolver.LastHeight()
	if !ok {
		if n.peerNode != nil {
			at := n.peerNode.Status()
			switch err := at.Ready(); {
			case err != nil && at.Err != nil:
				return &CauseError{"the P-Chain is not executed to its tip", err}
			case err != nil:
				return err
			}
		}
		return ErrNoHeight
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	set, err := n.Resolver.Set(ctx, constants.PrimaryNetworkID, height)
	if err != nil {
		return &CauseError{fmt.Sprintf("the validators at P-Chain height %d are not known", height), err}
	}
	return n.ready(set, "primary network")
}

// CauseError is an error whose cause only operators may see: it may name upstream nodes and files.
type CauseError struct {
	// Public is the text without the cause.
	Public string
	Cause  error
}

// Error implements error.
func (e *CauseError) Error() string { return e.Public + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *CauseError) Unwrap() error { return e.Cause }

// Degraded returns what fails although requests can be expected to succeed; nil if nothing does.
func (n *Network) Degraded() error {
	if !n.role.Signs() {
		return nil
	}
	if _, ok := n.Resolver.ProposedHeight(); ok {
		return nil
	}
	height, ok := n.Resolver.LastHeight()
	if !ok {
		return nil // not ready
	}
	return fmt.Errorf("%w; signing goes on for a minute with the validators of height %d", ErrNoHeight, height)
}

// Enough returns an error if the connected share of the weight, 0 to 1, is too small to sign messages.
func Enough(share float64, of string) error {
	if 100*share < aggregator.DefaultQuorumPercentage {
		return fmt.Errorf("connected to %.1f%% of the %s's weight, %d%% are needed", 100*share, of, aggregator.DefaultQuorumPercentage)
	}
	return nil
}
