package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/chain/genesis"
	"quorate/chain/pchain"
	"quorate/handlers/rpc/admin"
	"quorate/index"
	"quorate/index/evm/metadata"
	"quorate/index/l1record"
	"quorate/index/ledger"
	"quorate/index/primary"
	"quorate/node"
	"quorate/node/stakes"
	"quorate/p2p"
	"quorate/store"
	"quorate/store/lease"
	"quorate/validators"
)

// network is everything that signs for one network.
type network struct {
	name     string
	id       uint32
	node     *node.Client
	peers    *p2p.Network
	resolver *validators.Resolver
	signer   *aggregator.Aggregator
	coverage *aggregator.Coverage
	// chains records the primary network's chains, record is what it keeps of L1s;
	// nil without a store.
	chains  *primary.Network
	views   ledger.Viewer    // what the Data API reads from; nil: the store
	genesis *genesis.Genesis // nil if it is not known, or of no use
	ledger  bool             // whether outputs, balances and stakes are to be recorded
	stakes  *stakes.Cache    // nil without a store
	record  *l1record.Record
	ahead   *aheadWork // nil if nothing is signed before it is asked for
	// evmChains are the network's; evm records them, nil if they are not recorded.
	evmChains []evmChain
	evm       *evmRecords
	// messages knows what follows from P-Chain transactions.
	messages *l1message.Deriver
	// role is what this process does for the network. Leases are nil if no other one shares
	// the store; else newRecorder makes what records while this process is to.
	role        role
	store       store.Store
	leases      *lease.Leases
	newRecorder func() (*primary.Network, error)
	// api is what the network answers as a node does; nil where nobody asks.
	api *nodeAPI
	log *slog.Logger
}

// networkOptions says how to put a network together.
type networkOptions struct {
	name    string
	config  networkConfig
	dir     string // of our identity and address book; empty: new each time
	log     *slog.Logger
	metrics prometheus.Registerer
	// store and archive may be nil: then nothing is kept. The bytes are those for
	// proven signatures and for finished messages in memory, 0 for the defaults.
	store store.Store
	// views are what the Data API reads from, if not from the store itself.
	views                        ledger.Viewer
	archive                      *aggregator.Archive
	signatureBytes, messageBytes uint64
	// blockBytes bounds the blocks of EVM chains on their way into the store, all
	// together; 0 does not.
	blockBytes int64
	// leases are nil if no other process shares the store.
	leases *lease.Leases
	role   role
	// genesis and validatorFees are what the ledger begins with; nil leaves it out.
	genesis       *genesis.Genesis
	validatorFees *fee.Config
	nodeAPI       nodeAPIConfig
	loggers       *loggers
	profiles      *admin.Profiles
	settings      map[string]string
	// fetcher gets the metadata of tokens; changed is called when there are more EVM
	// chains to read. Both are needed to record them.
	fetcher *metadata.Fetcher
	changed func() error
	// traces may be nil.
	traces *traces
	// origins are of the web pages that may call what answers as a node does.
	origins []string
	// observer is shown the rounds; may be nil.
	observer aggregator.Observer
}

// knownNetworks are the IDs that names in paths stand for elsewhere.
var knownNetworks = map[string]uint32{"mainnet": constants.MainnetID, "fuji": constants.FujiID, "testnet": constants.FujiID}

func newClient(o networkOptions) (*node.Client, error) {
	options := node.Options{Endpoints: o.config.Nodes, ForwardLimit: o.nodeAPI.CallsInFlight, Log: o.log}
	if o.traces != nil {
		options.Wrap = o.traces.transport
	}
	return node.New(options)
}

// newNetwork puts the parts together around a client of a node on the network id.
// It owns the client from then on.
func newNetwork(client *node.Client, id uint32, o networkOptions) (*network, error) {
	if known, ok := knownNetworks[o.name]; ok && known != id && !o.config.synthetic {
		o.log.Warn("this is not the public network of that name; it is served under it all the same", slog.Uint64("networkID", uint64(id)), slog.Uint64("publicNetworkID", uint64(known)))
	}
	n := &network{
		name: o.name, id: id, views: o.views, node: client, log: o.log, genesis: o.genesis, ledger: o.config.ledger(),
		role: o.role, store: o.store, leases: o.leases,
	}
	metrics := prometheus.WrapRegistererWith(prometheus.Labels{"network": o.name}, o.metrics)
	var err error
	n.peers, err = p2p.New(p2p.Config{
		NetworkID:       id,
		Dir:             o.dir,
		AllowPrivateIPs: o.config.AllowPrivateIPs,
		Seeds:           n.seeds,
		Bootstrappers:   true,
		Log:             o.log,
		Metrics:         metrics,
	})
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("network %s: %w", o.name, err)
	}
	n.resolver = validators.NewResolver(client, validators.Options{Log: o.log, OnSets: n.follow})
	n.coverage = aggregator.NewCoverage(n.peers.Connected)
	if err := metrics.Register(n.coverage); err != nil {
		client.Close()
		return nil, fmt.Errorf("network %s: registering metrics: %w", o.name, err)
	}
	n.signer, err = aggregator.New(aggregator.Options{
		Transport: n.peers, Sets: n.resolver, Log: o.log, Metrics: metrics,
		Archive: o.archive, Observer: o.observer, SignatureCacheBytes: o.signatureBytes, MessageCacheBytes: o.messageBytes,
	})
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("network %s: %w", o.name, err)
	}
	derive := l1message.Options{NetworkID: id, Node: client, Chains: n.resolver, Signer: n.signer, Log: o.log}
	var recorded chan struct{}
	if o.store != nil {
		recorded = make(chan struct{}, 1)
		n.record = l1record.New(o.store, id)
		derive.Record = n.record
		n.newRecorder = func() (*primary.Network, error) { return newRecorder(n, o, nil, recorded) }
		if n.chains, err = newRecorder(n, o, metrics, recorded); err == nil {
			n.stakes, err = stakes.New(client, func() uint64 { return n.chains.Status()[index.PChain].Next })
		}
		if err != nil {
			n.close()
			return nil, fmt.Errorf("network %s: %w", o.name, err)
		}
	}
	n.messages = l1message.New(derive)
	if n.evmChains, err = newEVMChains(client, o); err != nil {
		n.close()
		return nil, fmt.Errorf("network %s: %w", o.name, err)
	}
	if o.store != nil && o.fetcher != nil && o.config.evm() {
		n.evm = newEVMRecords(n, o, metrics)
	}
	if n.ahead, err = newAheadWork(n, o, metrics, recorded); err != nil {
		n.close()
		return nil, fmt.Errorf("network %s: %w", o.name, err)
	}
	return n, nil
}

// newRecorder makes what records the chains, or tells how far others record them.
// Recorded gets a token when there are more P-Chain blocks.
func newRecorder(n *network, o networkOptions, metrics prometheus.Registerer, recorded chan<- struct{}) (*primary.Network, error) {
	return primary.New(primary.Options{
		NetworkID:     n.id,
		Node:          n.node,
		Store:         o.store,
		Genesis:       o.genesis,
		ValidatorFees: o.validatorFees,
		Keep:          o.config.keep(),
		Tenants:       []index.Tenant[*pchain.Block]{l1record.NewTenant(n.id)},
		Start:         o.config.IndexFrom,
		Metrics:       metrics,
		Log:           o.log,
		Recorded: func() {
			select {
			case recorded <- struct{}{}:
			default:
			}
		},
	})
}

// awaitID asks the node for its network, ever less often, until it answers or ctx
// ends.
func awaitID(ctx context.Context, client *node.Client, log *slog.Logger) (uint32, error) {
	const longest = 5 * time.Second
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, longest) {
		id, err := client.NetworkID(ctx)
		if err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("asking the node for its network: %w", context.Cause(ctx))
		}
		log.Warn("the node has not told its network; asking again", slog.Duration("in", pause), slog.Any("error", err))
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("asking the node for its network: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// seeds are the addresses that the node knows.
func (n *network) seeds(ctx context.Context) ([]p2p.Address, error) {
	peers, err := n.node.Peers(ctx)
	addresses := make([]p2p.Address, len(peers))
	for i, p := range peers {
		addresses[i] = p2p.Address(p)
	}
	return addresses, err
}

// follow tells the peers who is worth a connection, and the metrics whose
// connections to count.
func (n *network) follow(_ uint64, sets map[ids.ID]*validators.Set) {
	all := make(map[ids.ID]snow.WarpSet, len(sets))
	for id, s := range sets {
		all[id] = s.WarpSet
	}
	n.peers.SetValidators(all)
	n.coverage.Follow(sets)
}

// run keeps the network alive until ctx ends.
func (n *network) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if n.role.connects() {
		g.Go(func() error { return n.peers.Run(ctx) })
		g.Go(func() error { return n.resolver.Run(ctx) })
	}
	if n.chains != nil {
		g.Go(func() error { return n.recordChains(ctx) })
	}
	if n.api != nil {
		g.Go(func() error {
			n.api.work(ctx)
			return nil
		})
	}
	if n.ahead != nil && n.role.signs() {
		// Others find in the store what one has had signed.
		g.Go(func() error { return shared(ctx, n.leases, n.store, fmt.Sprintf("ahead/%d", n.id), n.ahead.run) })
	}
	if n.evm != nil {
		g.Go(func() error {
			n.evm.run(ctx) // as with the other chains
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("network %s: %w", n.name, err)
	}
	return nil
}

// close ends what run does not.
func (n *network) close() {
	closeEVMChains(n.evmChains)
	n.signer.Close()
	n.node.Close()
}

// ready says why requests cannot be expected to succeed; nil if they can. Validators
// matter to those who have messages signed.
func (n *network) ready() error {
	if !n.role.signs() {
		return nil
	}
	height, ok := n.resolver.ProposedHeight()
	if !ok {
		return errNoHeight
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	set, err := n.resolver.Set(ctx, constants.PrimaryNetworkID, height)
	if err != nil {
		return errors.New("the node does not tell the validators")
	}
	return enough(n.coverage.Of(set), "primary network")
}

// enough says whether messages can be signed with a share, 0 to 1, of the weight of
// what connected.
func enough(share float64, of string) error {
	if 100*share < aggregator.DefaultQuorumPercentage {
		return fmt.Errorf("connected to %.1f %% of the %s's weight, %d %% are needed", 100*share, of, aggregator.DefaultQuorumPercentage)
	}
	return nil
}

// dirOf is where a network keeps its identity.
func dirOf(dataDir, name string) string { return filepath.Join(dataDir, name) }
